//! The command line: `wattgated COMMAND`.

mod check;
mod client;
mod kept;
mod lease;
mod lessons;
mod metrics;
mod once;
pub mod restore;
mod run;
pub mod set;
mod signals;
pub mod status;
mod waiting;
pub mod watch;

use std::env;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::{Arg, Parser};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use thiserror::Error;
use wattgate_board::{ApplyError, Board, Disobedience};
use wattgate_cli::aim::AimError;
use wattgate_cli::arguments::{Given, Told};
use wattgate_cli::exit::{self, Failed, end, end_with};
use wattgate_cli::program::{Command, Does, Program};

use crate::client::ClientError;
use crate::clock::{Clock, System};
use crate::config::{self, Config, ConfigError};
use crate::control::Priority;
use crate::deadline::InTime;
use crate::distrust::Distrust;
use crate::group::GroupError;
use crate::hardware_watchdog::HardwareWatchdogError;
use crate::lock::LockError;
use crate::log::finish;
use crate::meter::MeterFault;
use crate::quantity::Placed;
use crate::saved_state::SavedStateError;
use crate::setup::{Setup, SetupError};
use crate::sudo_user::UserError;

/// Runs a command with the arguments that follow its name.
enum Run {
    /// Its error is printed.
    Print(fn(Parser) -> Result<(), Failure>),
    /// Its error is logged.
    Log(fn(Parser) -> Result<(), Failure>),
    /// Its error is printed; it returns the exit code of another program.
    Lease(fn(Parser) -> Result<u8, Failure>),
}

const PROGRAM: Program<Run> = Program {
    name: "wattgated",
    version: env!("CARGO_PKG_VERSION"),
    does: Does::Commands {
        about: "Keep a Jetson under a power limit while its workload runs as fast as the limit allows",
        notes: "`wattgated COMMAND --help` prints the options of a command.\n",
        commands: &[
            Command::new("check", check::help, Run::Print(check::run)),
            Command::new("once", once::help, Run::Log(once::run)),
            Command::new("run", run::help, Run::Log(run::run)),
            Command::new("status", status::help, Run::Print(status::run)),
            Command::new("watch", watch::help, Run::Print(watch::run)),
            Command::new("set-limit", set::limit_help, Run::Print(set::limit)),
            Command::new("lease", lease::help, Run::Lease(lease::run)),
            Command::new("set-aim", set::aim_help, Run::Print(set::aim)),
            Command::new("set-model", set::model_help, Run::Print(set::model)),
            Command::new("metrics", metrics::help, Run::Print(metrics::run)),
            Command::new("restore", restore::help, Run::Print(restore::run)),
        ],
    },
};

/// Why a command failed.
#[derive(Debug, Error)]
pub enum Failure {
    #[error("{}", Told(.0))]
    Arguments(#[from] lexopt::Error),
    #[error("missing {0}")]
    Missing(&'static str),
    /// Neither of two arguments is given, or both are.
    #[error("expected either {0}")]
    Either(&'static str),
    /// A workstation, for example.
    #[error(
        "this machine is no Jetson, so its cores and clocks stay as they are; name the folder of a simulated board with --root"
    )]
    NoJetson,
    #[error("{0} and {1} exclude each other; give one of them")]
    Exclusive(&'static str, &'static str),
    #[error("{0}")]
    User(#[from] UserError),
    #[error("{0}")]
    Aim(#[from] AimError),
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Setup(#[from] SetupError),
    #[error(
        "no mode stays within {limit}: the least power with its guard band is {least}; raise the limit"
    )]
    OverLimit { limit: Placed, least: Placed },
    #[error("no mode is known to stay within {limit}: {why}")]
    Distrusted { limit: Placed, why: Distrust },
    /// `check` found what the daemon would do without.
    #[error("supply: the meter {}: {fault}; the daemon does without it until it can be trusted", path.display())]
    Meter { path: PathBuf, fault: MeterFault },
    #[error("{}: cannot be written: {why}{}", path.display(), as_root(why))]
    NotWritable { path: PathBuf, why: io::Error },
    #[error("{0}{advice}", advice = match .0 {
        LockError::Io { source, .. } => as_root(source),
        LockError::Held { .. } => "",
    })]
    Lock(#[from] LockError),
    #[error("{0}{advice}", advice = match .0 {
        SavedStateError::Io { source, .. } => as_root(source),
        _ => "",
    })]
    SavedState(#[from] SavedStateError),
    /// The mode is set as far as the knobs obey.
    #[error("the mode is set, but for knobs that do not obey ({}): {}; end other programs that set clocks or cores", .0.len(), list(.0))]
    Disobeyed(Vec<Disobedience>),
    #[error("{0}")]
    Apply(#[from] ApplyError),
    #[error("{0}")]
    Client(#[from] ClientError),
    #[error("{0}")]
    Group(#[from] GroupError),
    #[error("{0}")]
    HardwareWatchdog(#[from] HardwareWatchdogError),
    #[error("{}: cannot be started: {why}; name a program that is in PATH, or its path", name.display())]
    Program { name: PathBuf, why: io::Error },
    #[error("{address}: cannot listen: {why}; name another port with --listen")]
    Listen { address: SocketAddr, why: io::Error },
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    #[error("cannot install signal handlers: {0}")]
    Signals(io::Error),
    #[error("NOTIFY_SOCKET: {0}")]
    Notify(io::Error),
    /// Nothing is left half done.
    #[error("stopped by a signal")]
    Stopped,
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// What to do about a permission that is missing.
fn as_root(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::PermissionDenied => "; run wattgated as root",
        io::ErrorKind::ReadOnlyFilesystem => "; in a container, start it with --privileged",
        _ => "",
    }
}

impl Failed for Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Arguments(_)
            | Self::Missing(_)
            | Self::Either(_)
            | Self::Exclusive(..)
            | Self::Aim(_)
            | Self::Group(GroupError::Unknown(_)) => exit::ARGUMENTS,
            Self::NoJetson | Self::Meter { .. } => exit::INPUT,
            Self::Config(why) => why.exit_code(),
            Self::Setup(why) => why.exit_code(),
            Self::Client(why) => why.exit_code(),
            Self::User(_)
            | Self::NotWritable { .. }
            | Self::Lock(_)
            | Self::SavedState(_)
            | Self::Apply(_)
            | Self::Group(GroupError::Unreadable(_))
            | Self::HardwareWatchdog(_)
            | Self::Listen { .. }
            | Self::Thread(_)
            | Self::Signals(_)
            | Self::Notify(_)
            | Self::Stopped
            | Self::Print(_) => exit::OTHER,
            Self::OverLimit { .. } | Self::Distrusted { .. } => exit::LIMIT,
            Self::Disobeyed(_) => exit::DISOBEYED,
            Self::Program { .. } => exit::NOT_STARTED,
        }
    }

    fn print_error(&self) -> Option<&io::Error> {
        match self {
            Self::Print(error) => Some(error),
            _ => None,
        }
    }

    fn argument_error(&self) -> Option<&lexopt::Error> {
        match self {
            Self::Arguments(error) => Some(error),
            _ => None,
        }
    }
}

/// Runs the program.
pub fn run() -> ExitCode {
    let (mut is_logged, mut code) = (false, exit::SUCCESS);
    let arguments = env::args_os().skip(1).collect();
    let result = PROGRAM.run(arguments, |run, arguments| match run {
        Run::Print(run) => run(arguments),
        Run::Log(run) => {
            is_logged = true;
            run(arguments)
        }
        Run::Lease(run) => run(arguments).map(|of_program| code = of_program),
    });
    match result {
        result if is_logged => logged(result),
        Ok(()) => ExitCode::from(code),
        result => end(result),
    }
}

/// Logs the error, if any, instead of printing it.
fn logged(result: Result<(), Failure>) -> ExitCode {
    let code = end_with(result, |failure| finish(Some((Priority::Error, failure))));
    finish(None);
    code
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

fn list(knobs: &[Disobedience]) -> String {
    let knobs: Vec<String> = knobs.iter().map(Disobedience::to_string).collect();
    knobs.join("; ")
}

/// The arguments of all commands that access the board: the config and the board's root.
#[derive(Debug)]
struct BoardArguments {
    config: PathBuf,
    root: PathBuf,
}

impl BoardArguments {
    /// Fails on a machine that is surely no Jetson. The least mode needs no more of a board than cores, so it would switch off those
    /// of any machine.
    fn check_machine(&self) -> Result<(), Failure> {
        let root = self.root.canonicalize();
        let is_this_machine = root.is_ok_and(|root| root == Path::new("/"));
        match is_this_machine && !cfg!(target_arch = "aarch64") {
            true => Err(Failure::NoJetson),
            false => Ok(()),
        }
    }

    fn setup(&self) -> Result<Setup, Failure> {
        let config = Config::read(&self.config)?;
        Ok(Setup::new(config, &InTime::plain(), &self.root)?)
    }

    /// The setup with the limit for the present time of day.
    fn setup_now(&self) -> Result<Setup, Failure> {
        let mut setup = self.setup()?;
        setup.config.limit = setup.config.limit_at(System.utc());
        Ok(setup)
    }
}

/// Parses the arguments. `flag` handles other arguments and returns whether it knows them.
fn parse(
    mut parser: Parser,
    mut flag: impl FnMut(&Arg<'_>) -> bool,
) -> Result<BoardArguments, Failure> {
    let (mut config, mut root) = (None, PathBuf::from("/"));
    let mut given = Given::default();
    while let Some(argument) = parser.next()? {
        given.add(&argument)?;
        match argument {
            Arg::Long("config") => config = Some(PathBuf::from(parser.value()?)),
            Arg::Long("root") => root = PathBuf::from(parser.value()?),
            argument if flag(&argument) => {}
            argument => return Err(argument.unexpected().into()),
        }
    }
    let config = config.unwrap_or_else(|| config::path(&root));
    Ok(BoardArguments { config, root })
}

/// The knobs that this process may not write.
fn unwritable(board: &Board) -> impl Iterator<Item = (&Path, Errno)> {
    board.knob_paths().filter_map(|path| {
        // A knob may be absent for now, such as the clock of an offline cluster.
        match access(path, Access::WRITE_OK) {
            Err(why @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Some((path, why)),
            _ => None,
        }
    })
}

/// Fails if this process may write no knob at all. A single one counts as one that does not obey.
fn check_writable(board: &Board) -> Result<(), Failure> {
    let is_writable = |path| access(path, Access::WRITE_OK).is_ok();
    match unwritable(board).next() {
        Some((path, why)) if !board.knob_paths().any(is_writable) => Err(Failure::NotWritable {
            path: path.to_owned(),
            why: why.into(),
        }),
        _ => Ok(()),
    }
}

/// The path of an absolute directory below `root`.
fn below(root: &Path, directory: &Path) -> PathBuf {
    root.join(directory.strip_prefix("/").unwrap_or(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workstation_is_no_board() {
        let is_refused = |root: &str| {
            let place = BoardArguments {
                config: "wattgated.toml".into(),
                root: root.into(),
            };
            matches!(place.check_machine(), Err(Failure::NoJetson))
        };
        assert!(
            ["/", "/.", "/etc/.."].into_iter().all(is_refused) != cfg!(target_arch = "aarch64")
        );
        assert!(!is_refused("/etc") && !is_refused("/no/such/folder"));
    }
}
