//! The workload of a command: what runs, and how its steps are counted.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lexopt::{Parser, ValueExt};
use rustix::process::Pid;

use wattgate_watchdog::steps;
use wattgate_watchdog::sudo_user::SudoUser;

use super::Failure;
use crate::name;
use crate::process::{Process, Source, Stop};
use crate::steps::output::Output;
use crate::steps::pattern::Pattern;
use crate::steps::relay::Relay;
use crate::steps::socket::StepSocket;

/// Help for the options.
pub const OPTIONS: &str = "\
Workload:
  PROGRAM          Started once, in a process group of its own, and ended by SIGTERM at the end
  --as-root        Start PROGRAM as root, not as the user who typed sudo
  --attach PID     A process that runs already; it is neither started nor ended
  --steps-from HOW Count the steps in the output. HOW is a tool whose output is known: tqdm, hf,
                   keras, lightning, ultralytics, llama.cpp, vllm, ros2-hz, trtexec or deepstream;
                   or a regular expression, whose group `count`, or first group, is the count of
                   steps, `total` where it ends, `steps` the steps of a line, `rate` steps per second,
                   and `period` the time of a step. Without a group each line that matches is a step
  --log FILE       With --attach: the output is in this file, which is followed like `tail -F`
  --socket PATH    The socket for steps [PID/steps in $RUNTIME_DIRECTORY or /run/wattgate, else in
                   a temporary directory; with --attach /run/wattgate/steps, or the daemon, which
                   has that one]

Without --steps-from the workload sends its steps to a Unix datagram socket, a line `steps=N` with
the number of steps since its start. PROGRAM has the socket's path in WATTGATE_SOCKET; without it a
workload sends them to /run/wattgate/steps.
";

/// Number of words of a command that a message shows.
const SHOWN_WORDS: usize = 2;

/// What runs and how its steps are counted, as the user says.
#[derive(Debug, Default)]
pub struct Workload {
    command: Vec<OsString>,
    attach: Option<Pid>,
    steps_from: Option<Pattern>,
    log: Option<PathBuf>,
    socket: Option<PathBuf>,
    as_root: bool,
}

impl Workload {
    /// Takes the program, with all arguments that follow it.
    pub fn take_program(&mut self, program: OsString, parser: &mut Parser) -> Result<(), Failure> {
        self.command = vec![program];
        self.command.extend(parser.raw_args()?);
        Ok(())
    }

    /// Whether the process ran before.
    pub fn is_attached(&self) -> bool {
        self.attach.is_some()
    }

    /// Takes an option of this group.
    pub fn take(&mut self, option: &str, parser: &mut Parser) -> Result<bool, Failure> {
        match option {
            "--attach" => {
                let value = parser.value()?.string()?;
                let pid = value.parse().ok().filter(|pid| *pid > 0);
                self.attach = pid.and_then(Pid::from_raw);
                if self.attach.is_none() {
                    return Err(Failure::Value {
                        option: "--attach",
                        value,
                        expected: "the number of a process",
                    });
                }
            }
            "--steps-from" => {
                let text = parser.value()?.string()?;
                self.steps_from = Some(Pattern::new(&text)?);
            }
            "--log" => self.log = Some(PathBuf::from(parser.value()?)),
            "--socket" => self.socket = Some(PathBuf::from(parser.value()?)),
            "--as-root" => self.as_root = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks what was taken, as a whole.
    pub fn check(&self) -> Result<(), Failure> {
        if self.attach.is_some() && !self.command.is_empty() {
            return Err(Failure::Exclusive("--attach", "PROGRAM"));
        }
        if self.socket.is_some() && self.steps_from.is_some() {
            return Err(Failure::Exclusive("--socket", "--steps-from"));
        }
        if self.as_root && self.attach.is_some() {
            return Err(Failure::Exclusive("--as-root", "--attach"));
        }
        if self.log.is_some() && self.attach.is_none() {
            return Err(Failure::Missing("--attach, which --log is for"));
        }
        if self.attach.is_none() && self.command.is_empty() {
            return Err(Failure::Missing(
                "PROGRAM: write the workload's command after `--`, such as `-- python3 train.py`, or name a process with --attach",
            ));
        }
        match (&self.log, &self.steps_from, self.attach) {
            (Some(_), None, _) => Err(Failure::Missing("--steps-from, which says what counts")),
            (None, Some(_), Some(_)) => Err(Failure::Missing("--log, the output of the process")),
            _ => Ok(()),
        }
    }

    /// The name that the program has; `None` if its command does not tell.
    pub fn name(&self) -> Option<String> {
        match self.attach {
            None => name::from_command(&self.command),
            Some(pid) => {
                let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let words = command.split(|byte| *byte == 0);
                let words: Vec<_> = words.map(OsStr::from_bytes).collect();
                name::from_command(&words)
            }
        }
    }

    /// Whether it can tell its name with its steps.
    pub fn may_tell_name(&self) -> bool {
        self.steps_from.is_none()
    }

    /// The command, or the process that runs already, for messages.
    pub fn shown(&self) -> String {
        match self.attach {
            Some(pid) => format!("process {pid}"),
            None => {
                let words = self.command.iter().take(SHOWN_WORDS);
                let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
                format!("`{}`", words.join(" "))
            }
        }
    }

    /// Opens the source of the steps, and finds a process that runs already. `root` is the root of
    /// the board's files.
    pub fn open(&self, root: &Path, speed: f64, stop: Stop) -> Result<Process, Failure> {
        let source = match &self.steps_from {
            Some(pattern) => {
                let mut output = Output::new(pattern.clone())?;
                if let Some(path) = &self.log {
                    output.follow(path).map_err(|source| Failure::Log {
                        path: path.clone(),
                        source,
                    })?;
                }
                Source::Output(output)
            }
            None => self.source(root).map_err(Failure::Socket)?,
        };
        let mut process = Process::new(speed, source, stop);
        if let Some(pid) = self.attach {
            let attached = process.attach(pid);
            attached.map_err(|source| Failure::Attach { pid, source })?;
        }
        Ok(process)
    }

    fn source(&self, root: &Path) -> std::io::Result<Source> {
        let socket = match (&self.socket, self.attach) {
            (Some(path), _) => StepSocket::at(path),
            (None, Some(pid)) => match StepSocket::at(&steps::socket(root)) {
                // Where the daemon does not answer, the first error says more.
                Err(why) if why.kind() == ErrorKind::AddrInUse => {
                    let relay = Relay::new(root, pid);
                    return relay.map(Source::Daemon).map_err(|_| why);
                }
                socket => socket,
            },
            (None, None) => {
                // systemd may name several, separated by colons.
                let runtime = env::var("RUNTIME_DIRECTORY").unwrap_or_default();
                let first = runtime.split(':').find(|path| !path.is_empty());
                let directory = steps::directory(root);
                StepSocket::below(first.map_or(&directory, Path::new))
            }
        };
        socket.map(Source::Socket)
    }

    /// Starts the program, unless the workload runs already. Its standard output goes to standard
    /// error if ours is for a program.
    pub fn start(&self, process: &mut Process, is_for_program: bool) -> Result<(), Failure> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Ok(());
        };
        let user = match self.as_root {
            true => None,
            false => SudoUser::find()?,
        };
        let started = process.start(program, arguments, is_for_program, user.as_ref());
        started.map_err(|source| Failure::Start {
            program: program.to_string_lossy().into_owned(),
            source,
        })
    }
}
