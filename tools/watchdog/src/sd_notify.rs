//! Tells systemd that the daemon is ready and alive, as `sd_notify(3)` does: a datagram to the
//! socket in `NOTIFY_SOCKET`. Without that variable nothing is sent.

use std::env;
use std::fmt::{self, Write as _};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use crate::log::Text;

/// The socket to systemd, if the environment names one.
#[derive(Debug)]
pub struct SdNotify(Option<UnixDatagram>);

impl SdNotify {
    /// Connects to the socket in `NOTIFY_SOCKET`.
    pub fn from_env() -> io::Result<Self> {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(Self(None));
        };
        let address = match name.as_bytes().split_first() {
            Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(Path::new(&name))?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // A full socket must not block the control loop.
        socket.set_nonblocking(true)?;
        Ok(Self(Some(socket)))
    }

    /// Sends assignments, such as `READY=1`. Errors are ignored: the next call sends the state
    /// again.
    pub fn send(&self, variables: fmt::Arguments<'_>) {
        if let Some(socket) = &self.0 {
            let mut text = Text::new();
            if text.write_fmt(variables).is_ok() {
                let _ = socket.send(text.bytes());
            }
        }
    }
}
