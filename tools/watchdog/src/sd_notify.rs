//! Tells systemd that the daemon is ready and alive, by `sd_notify(3)`: a datagram to the socket
//! that `NOTIFY_SOCKET` names. Nothing where it names none.

use std::env;
use std::fmt::{self, Write as _};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use crate::log::Text;

/// The way to systemd, if there is one.
#[derive(Debug)]
pub struct SdNotify(Option<UnixDatagram>);

impl SdNotify {
    /// By the environment.
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
        // systemd that does not listen must not stop the control.
        socket.set_nonblocking(true)?;
        Ok(Self(Some(socket)))
    }

    /// Sends variables, such as `READY=1`. What gets lost is sent again by the next time.
    pub fn send(&self, variables: fmt::Arguments<'_>) {
        if let Some(socket) = &self.0 {
            let mut text = Text::new();
            if text.write_fmt(variables).is_ok() {
                let _ = socket.send(text.bytes());
            }
        }
    }
}
