//! The user who typed `sudo`, as whom the programs run that we start. They need no rights of root's, and their files
//! are to be the user's.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::thread;
use std::{env, fmt};

use rustix::fs::fchown;
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use thiserror::Error;

/// Why the user who typed `sudo` is not known.
#[derive(Debug, Error)]
#[error("{what}: {why}; --as-root runs the program as root")]
pub struct UserError {
    what: String,
    why: String,
}

/// The user who typed `sudo`.
#[derive(Clone, Debug, PartialEq)]
pub struct SudoUser {
    name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    home: PathBuf,
}

impl SudoUser {
    /// Finds the user by the variables of sudo(8). `None` if this process is not root's, if nobody typed `sudo`, or if
    /// root did.
    pub fn find() -> Result<Option<Self>, UserError> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let Some(uid) = env::var_os("SUDO_UID") else {
            return Ok(None);
        };
        let uid = uid.to_string_lossy().into_owned();
        let number = uid.parse().ok().and_then(raw_id);
        let number = number.ok_or_else(|| UserError {
            what: format!("SUDO_UID is `{uid}`"),
            why: "expected the number of a user, as sudo sets it".to_owned(),
        })?;
        match number {
            0 => Ok(None),
            _ => Self::from_uid(number).map(Some),
        }
    }

    /// The user with this number.
    pub fn from_uid(uid: u32) -> Result<Self, UserError> {
        let failed = |why: String| UserError {
            what: format!("the user {uid}, who typed sudo"),
            why,
        };
        // They ask the directories of the machine, too, such as LDAP.
        let entry = asked("getent", &["passwd", &uid.to_string()]).map_err(failed)?;
        let account = Account::parse(&entry)
            .ok_or_else(|| failed(format!("`getent passwd {uid}` prints `{entry}`")))?;
        let groups = asked("id", &["-G", "--", &account.name]).map_err(failed)?;
        let groups: Option<Vec<Gid>> = groups
            .split_whitespace()
            .map(|group| group.parse().ok().and_then(raw_id).map(Gid::from_raw))
            .collect();
        let groups =
            groups.ok_or_else(|| failed(format!("`id -G {}` prints no numbers", account.name)))?;
        Ok(Self {
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(account.gid),
            groups,
            name: account.name,
            home: account.home,
        })
    }

    /// Starts a program with the user's rights, groups and home.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        command.env("HOME", &self.home);
        command.env("USER", &self.name).env("LOGNAME", &self.name);
        // Linux has these rights for each thread, and a process that is started has those of the thread that starts it.
        let start = || {
            set_thread_groups(&self.groups)?;
            set_thread_res_gid(self.gid, self.gid, self.gid)?;
            set_thread_res_uid(self.uid, self.uid, self.uid)?;
            command.spawn()
        };
        let started = thread::scope(|scope| scope.spawn(start).join());
        started.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it has ended")))
    }

    /// Gives the user an output that the program inherits, so that it may open it again as `/dev/stdout`.
    pub fn give(&self, output: BorrowedFd<'_>) -> io::Result<()> {
        Ok(fchown(output, Some(self.uid), None)?)
    }
}

impl fmt::Display for SudoUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Starts a program as the user who typed `sudo`, or as this process's user where nobody did or `as_root` says so.
pub fn spawn(command: &mut Command, user: Option<&SudoUser>) -> io::Result<Child> {
    match user {
        Some(user) => user.spawn(command),
        None => command.spawn(),
    }
}

/// What passwd(5) says of a user.
#[derive(Debug, PartialEq)]
struct Account {
    name: String,
    gid: u32,
    home: PathBuf,
}

impl Account {
    fn parse(entry: &str) -> Option<Self> {
        let fields: Vec<&str> = entry.trim_end().split(':').collect();
        let [name, _, _, gid, _, home, _] = fields[..] else {
            return None;
        };
        Some(Self {
            name: name.to_owned(),
            gid: gid.parse().ok().and_then(raw_id)?,
            home: home.into(),
        })
    }
}

/// The number of a user or group: Linux means no change by the highest one.
fn raw_id(number: u32) -> Option<u32> {
    (number != u32::MAX).then_some(number)
}

/// What a program of the system prints.
fn asked(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    match output {
        Ok(Output { status, stdout, .. }) if status.success() => {
            Ok(String::from_utf8_lossy(&stdout).into_owned())
        }
        Ok(_) => Err(format!(
            "`{program} {}` knows no such user",
            arguments.join(" ")
        )),
        Err(why) => Err(format!("`{program}` cannot be run: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_passwd_is_read() {
        let entry = "anna:x:1000:1001:Anna,,,:/home/anna:/bin/bash\n";
        let account = Account::parse(entry).expect("sound");
        assert_eq!(
            (&*account.name, account.gid, &*account.home),
            ("anna", 1001, "/home/anna".as_ref())
        );
        for entry in [
            "",
            "anna",
            "anna:x:1000:staff::/:/bin/sh",
            "anna:x:1000:4294967295::/:/bin/sh",
        ] {
            assert_eq!(Account::parse(entry), None, "{entry}");
        }
    }
}
