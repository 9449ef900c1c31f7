//! Which limit holds, and who set it. The rule (`SAFETY.md`): the lowest of `max_limit`, of every lowering, and of the
//! lowest lease; without a lease, of the config's limit at this time of day. Averages: the lowest power and the
//! shortest window of all. Only the config sets a budget.
//!
//! A *lowering* is a client's; it survives SIGHUP, crash and restart. A *lease* may raise the limit up to `max_limit`
//! and ends with the connection.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use wattgate_runtime::governor::Average;
use wattgate_runtime::{Limit, Milliseconds, Milliwatts};

use crate::config::{Config, STATE_DIR};
use crate::lock::root_directory;
use crate::log::printable;

/// Maximum number of lowerings of users, one each. Root's counts besides.
pub const MAX_LOWERINGS: usize = 16;

/// Name of the file of lowerings, in the folder of the daemon's state.
pub const LOWERINGS_FILE: &str = "lowerings";

/// Where the lowerings of the daemon of the board below `root` are: in memory, which survives a restart though the disk
/// is full, and on the disk, which survives a reboot. The first one is never older.
pub fn files(root: &Path) -> [PathBuf; 2] {
    let state = root.join(STATE_DIR.trim_start_matches('/'));
    [
        root_directory(root).join(LOWERINGS_FILE),
        state.join(LOWERINGS_FILE),
    ]
}

/// Version of that file.
const LOWERINGS_VERSION: u32 = 1;

/// What holds where the file of lowerings is defective: with less, no board runs.
const UNKNOWN_LIMIT: Milliwatts = Milliwatts(1);

/// Longest name of a program that is kept, in characters.
const LONGEST_PROGRAM: usize = 64;

/// Who may lift a lowering: a user, or root over the socket that is root's alone. Over the socket of all clients, uid 0
/// is a user like any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    Root,
    Uid(u32),
}

impl Display for Owner {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Uid(uid) => write!(f, "uid {uid}"),
        }
    }
}

/// Who set a limit: as Linux tells it, but for the program, which the client names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setter {
    pub owner: Owner,
    pub pid: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl Setter {
    /// The name of the program is cut, and what a terminal may not show as it is, is replaced.
    pub fn new(owner: Owner, pid: i32, program: Option<&str>) -> Self {
        let program = program.filter(|name| !name.is_empty());
        let program =
            program.map(|name| name.chars().take(LONGEST_PROGRAM).map(printable).collect());
        Self {
            owner,
            pid,
            program,
        }
    }
}

impl Display for Setter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}, pid {}", self.owner, self.pid)?;
        match &self.program {
            Some(program) => write!(f, ", {program}"),
            None => Ok(()),
        }
    }
}

/// A limit that a client set to lower what holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lowering {
    pub by: Setter,
    pub power_mw: u32,
    /// Power in mW and window in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<(u32, u64)>,
    /// The time that is left, in ms of the daemon's running time; `None`: it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
}

impl Lowering {
    /// Whether root set it, over the socket that is root's alone.
    pub fn is_of_root(&self) -> bool {
        self.by.owner == Owner::Root && self.by.pid > 0
    }

    fn average(&self) -> Option<Average> {
        self.average.map(|(power, window)| Average {
            power: Milliwatts(power),
            window: Milliseconds(window),
        })
    }
}

/// A file of lowerings that cannot be read, is damaged, or of another version.
#[derive(Debug, Error)]
#[error(
    "{}: {why}; what clients lowered is unknown, so that the least mode holds until root lifts it: \
     `wattgated set-limit --lift`",
    path.display()
)]
pub struct LoweringsError {
    path: PathBuf,
    why: String,
}

/// The lowerings, at most one of each owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lowerings(Vec<Lowering>);

#[derive(Serialize, Deserialize)]
struct File<L> {
    version: u32,
    lowerings: L,
}

impl Lowerings {
    /// Reads the first of these files that exists. A defective file means the lowest limit that there is; root lifts it.
    pub fn read(paths: &[PathBuf]) -> (Self, Result<(), LoweringsError>) {
        for path in paths {
            match fs::read_to_string(path) {
                Ok(text) => {
                    return match Self::parse(&text) {
                        Ok(lowerings) => (lowerings, Ok(())),
                        Err(why) => Self::unknown(path.clone(), why),
                    };
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Self::unknown(path.clone(), error.to_string()),
            }
        }
        (Self::default(), Ok(()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        // Check the version first: another one may have other keys.
        let header: File<serde::de::IgnoredAny> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        if header.version != LOWERINGS_VERSION {
            return Err(format!(
                "version is {}, expected {LOWERINGS_VERSION}",
                header.version
            ));
        }
        let file: File<Self> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut lowerings = file.lowerings;
        if lowerings.0.len() > MAX_LOWERINGS + 1 {
            return Err(format!("more than {MAX_LOWERINGS} lowerings of users"));
        }
        for it in &mut lowerings.0 {
            it.by = Setter::new(it.by.owner, it.by.pid, it.by.program.as_deref());
        }
        Ok(lowerings)
    }

    fn unknown(path: PathBuf, why: String) -> (Self, Result<(), LoweringsError>) {
        let by = Setter::new(Owner::Root, 0, Some("defective file of lowerings"));
        let lowering = Lowering {
            by,
            power_mw: UNKNOWN_LIMIT.0,
            average: None,
            left_ms: None,
        };
        (Self(vec![lowering]), Err(LoweringsError { path, why }))
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let file = File {
            version: LOWERINGS_VERSION,
            lowerings: self,
        };
        // Serialising strings and numbers to memory does not fail.
        serde_json::to_string(&file).unwrap_or_default() + "\n"
    }

    /// Adds a lowering in place of its owner's earlier one; false if there are too many.
    pub fn set(&mut self, lowering: Lowering) -> bool {
        let owner = lowering.by.owner;
        let of_users = self.0.iter().filter(|it| it.by.owner != Owner::Root);
        let is_full = owner != Owner::Root && of_users.count() >= MAX_LOWERINGS;
        let earlier = self.0.iter_mut().find(|it| it.by.owner == owner);
        match earlier {
            Some(earlier) => *earlier = lowering,
            None if is_full => return false,
            None => self.0.push(lowering),
        }
        true
    }

    /// Removes an owner's lowering; false if there is none.
    pub fn lift(&mut self, owner: Owner) -> bool {
        let before = self.0.len();
        self.0.retain(|it| it.by.owner != owner);
        self.0.len() < before
    }

    /// Lets time pass. Returns who set the lowerings whose time is over.
    pub fn pass(&mut self, time: Milliseconds) -> Vec<Setter> {
        for left in self.0.iter_mut().filter_map(|it| it.left_ms.as_mut()) {
            *left = left.saturating_sub(time.0);
        }
        let over = self.0.iter().filter(|it| it.left_ms == Some(0));
        let over: Vec<Setter> = over.map(|it| it.by.clone()).collect();
        self.0.retain(|it| it.left_ms != Some(0));
        over
    }

    /// The lowerings, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Lowering> {
        self.0.iter()
    }

    /// Whether one of them expires.
    pub fn has_timed(&self) -> bool {
        self.0.iter().any(|it| it.left_ms.is_some())
    }
}

/// What a client has leased.
#[derive(Clone, Debug, PartialEq)]
pub struct Leased {
    pub by: Setter,
    pub power: Milliwatts,
    pub average: Option<Average>,
    /// When it ends at the latest.
    pub until: Option<Milliseconds>,
}

/// The source of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The config's `limit`.
    Config,
    /// The config's `schedule`.
    Schedule,
    /// The config's `max_limit`, or the highest limit of the config.
    MaxLimit,
    /// A client's lowering.
    Socket,
    /// The lowest of the leases over the socket.
    Lease,
}

impl Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Config => "config",
            Self::Schedule => "schedule",
            Self::MaxLimit => "max_limit",
            Self::Socket => "socket",
            Self::Lease => "lease",
        })
    }
}

/// The limit that holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub limit: Limit,
    pub source: Source,
    /// The client that set its power.
    pub by: Option<Setter>,
}

/// Computes the limit that holds; `base` is that of the config at this time of day.
pub fn held<'a>(
    config: &Config,
    base: Milliwatts,
    lowerings: &Lowerings,
    leases: impl Iterator<Item = &'a Leased> + Clone,
) -> Held {
    let lowest = leases.clone().min_by_key(|lease| lease.power);
    let (mut power, mut source, mut by) = match (lowest, &config.schedule) {
        (Some(lease), _) => (lease.power, Source::Lease, Some(&lease.by)),
        (None, Some(_)) => (base, Source::Schedule, None),
        (None, None) => (base, Source::Config, None),
    };
    // A reload may have lowered it since a lease began.
    let most = config.most();
    if most < power {
        (power, source, by) = (most, Source::MaxLimit, None);
    }
    let least = lowerings.iter().min_by_key(|it| it.power_mw);
    if let Some(least) = least.filter(|it| it.power_mw < power.0) {
        (power, source, by) = (Milliwatts(least.power_mw), Source::Socket, Some(&least.by));
    }
    let averages = lowerings.iter().filter_map(Lowering::average);
    let averages = averages.chain(leases.filter_map(|lease| lease.average));
    Held {
        limit: Limit {
            power,
            average: averages.chain(config.limit.average).reduce(lower),
            budget: config.limit.budget,
        },
        source,
        by: by.cloned(),
    }
}

/// Whether a limit is higher than another one in any respect.
pub fn is_raised(from: Limit, to: Limit) -> bool {
    let average = match (from.average, to.average) {
        (Some(from), Some(to)) => to.power > from.power || to.window > from.window,
        (Some(_), None) => true,
        (None, _) => false,
    };
    to.power > from.power || average
}

/// What of a limit may hold at once: all that is lower than before.
pub fn lowered(from: &Held, to: Held) -> Held {
    let average = match (from.limit.average, to.limit.average) {
        (Some(from), Some(to)) => Some(lower(from, to)),
        (from, to) => from.or(to),
    };
    let mut now = match to.limit.power < from.limit.power {
        true => to,
        false => from.clone(),
    };
    now.limit.average = average;
    now
}

fn lower(one: Average, other: Average) -> Average {
    Average {
        power: one.power.min(other.power),
        window: one.window.min(other.window),
    }
}
