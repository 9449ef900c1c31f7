//! Looks up the Unix group whose members may use the socket.

use std::fs;
use std::io;
use std::path::Path;

use thiserror::Error;

/// The group database. Groups of a directory service (NSS) are not seen.
const GROUP_FILE: &str = "/etc/group";

/// Why a group was not found.
#[derive(Debug, Error)]
pub enum GroupError {
    /// The file has no such group.
    #[error(
        "group: `{0}` is not in {GROUP_FILE}; make it with `groupadd --system {0}`, or name another one"
    )]
    Unknown(String),
    /// The file cannot be read.
    #[error("{GROUP_FILE}: cannot be read: {0}")]
    Unreadable(io::Error),
}

/// The group's ID (GID).
pub fn id(name: &str) -> Result<u32, GroupError> {
    let text = fs::read_to_string(Path::new(GROUP_FILE)).map_err(GroupError::Unreadable)?;
    id_in(&text, name).ok_or_else(|| GroupError::Unknown(name.to_owned()))
}

/// Parses lines such as `video:x:44:nvidia`.
fn id_in(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_named = fields.next() == Some(name);
        fields.nth(1).filter(|_| is_named)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_whole_name() {
        let text = "root:x:0:\nwattgate-old:x:7:\n# wattgate:x:8:\nwattgate:x:990:nvidia,me\n";
        assert_eq!(id_in(text, "wattgate"), Some(990));
        assert_eq!(id_in(text, "root"), Some(0));
        for name in ["watt", "x", "nvidia", ""] {
            assert_eq!(id_in(text, name), None, "{name}");
        }
        assert_eq!(id_in("wattgate:x", "wattgate"), None);
        assert_eq!(id_in("wattgate:x:-1:", "wattgate"), None);
    }

    #[test]
    fn an_unknown_group_is_named() {
        let error = id("no such group").expect_err("unknown").to_string();
        assert_eq!(
            error,
            "group: `no such group` is not in /etc/group; make it with `groupadd --system no such group`, or name another one"
        );
    }
}
