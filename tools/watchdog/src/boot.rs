//! The boot id: Linux draws it at random at each boot.

use std::path::Path;

use wattgate_board::Files;

/// The id of a boot, such as `5d8c2b5e-6f0e-4a55-9f3d-0f5a3c1a9a11`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootId(String);

impl BootId {
    /// Reads the id of the present boot of the board below `root`; `None` if it cannot be read.
    pub fn read(files: &impl Files, root: &Path) -> Option<Self> {
        let mut buffer = [0; 64];
        let path = root.join("proc/sys/kernel/random/boot_id");
        Self::parse(files.read(&path, &mut buffer).ok()?.trim_end())
    }

    /// The id in a text; `None` if the text is empty or has other characters than an id.
    pub fn parse(text: &str) -> Option<Self> {
        let is_id = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        (!text.is_empty() && text.bytes().all(is_id)).then(|| Self(text.to_owned()))
    }

    /// The text of the id.
    pub fn text(&self) -> &str {
        &self.0
    }
}
