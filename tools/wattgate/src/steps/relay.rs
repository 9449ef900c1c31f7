//! Steps of a workload that the daemon has taken: its socket is where a workload that `wattgate` has not started sends them.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use wattgate_cli::exit::note;
use wattgate_runtime::Milliseconds;
use wattgate_watchdog::client::{Client, ClientError};
use wattgate_watchdog::report::{NAMELESS, ReportedWorkload};
use wattgate_watchdog::serve::protocol::{Request, Subscription};
use wattgate_watchdog::steps::Told;

/// Interval of the daemon's lines, the shortest that it has. A count has its own time.
const EVERY_MS: u64 = 100;

/// Interval between attempts to connect again.
const CONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// The steps of a process, or of the only workload of its user that tells any.
#[derive(Debug)]
pub struct Relay {
    root: PathBuf,
    process: Pid,
    /// Its user.
    uid: Option<u32>,
    /// `None` while the daemon does not run.
    client: Option<Client>,
    tried: Instant,
    /// Never readable: to be waited for without a daemon.
    never: UnixDatagram,
    /// User and name of the workload that was picked.
    picked: Option<(Option<u32>, Option<String>)>,
    last: Option<u64>,
    /// The workloads of the last line, if none is the one.
    others: Vec<String>,
}

/// A count, when it came, and what came with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed {
    pub steps: u64,
    pub at: Milliseconds,
    pub told: Told,
}

impl Relay {
    /// Asks the daemon of the board below `root` for the steps of a process.
    pub fn new(root: &Path, process: Pid) -> Result<Self, ClientError> {
        let client = subscribed(root)?;
        let never = UnixDatagram::unbound();
        let never = never.map_err(|why| ClientError::NoDaemon {
            path: root.to_owned(),
            why,
        })?;
        Ok(Self {
            root: root.to_owned(),
            process,
            client: Some(client),
            tried: Instant::now(),
            never,
            uid: fs::metadata(format!("/proc/{process}"))
                .ok()
                .map(|it| it.uid()),
            picked: None,
            last: None,
            others: Vec::new(),
        })
    }

    /// The name that the workload tells.
    pub fn name(&self) -> Option<&str> {
        let (_, name) = self.picked.as_ref()?;
        name.as_deref()
    }

    /// The workloads that tell steps, if none of them is the one.
    pub fn others(&self) -> &[String] {
        &self.others
    }

    /// The next count, if there is one that has changed.
    pub fn take(&mut self) -> Option<Relayed> {
        if self.client.is_none() && self.tried.elapsed() >= CONNECT_INTERVAL {
            self.tried = Instant::now();
            self.client = subscribed(&self.root).ok();
        }
        while let Some(client) = &mut self.client {
            if !client.has_answer() {
                return None;
            }
            let Ok(report) = client.next_report() else {
                self.client = None;
                return None;
            };
            if let Some(relayed) = self.pick(&report.workloads) {
                return Some(relayed);
            }
        }
        None
    }

    fn pick(&mut self, workloads: &[ReportedWorkload]) -> Option<Relayed> {
        let process = self.process.as_raw_nonzero().get();
        let of_process = || workloads.iter().find(|it| it.pid == Some(process));
        let of_user = || {
            // In a container Linux does not tell the user.
            let is_his = |it: &&ReportedWorkload| it.uid.is_none() || it.uid == self.uid;
            let mut of_user = workloads.iter().filter(is_his);
            of_user.next().filter(|_| of_user.next().is_none())
        };
        // The first workload that is picked is counted to the end: no other one takes its place.
        let picked = match &self.picked {
            Some((uid, name)) => workloads
                .iter()
                .find(|it| (&it.uid, &it.name) == (uid, name)),
            None => of_process().or_else(of_user),
        };
        self.others = match picked {
            Some(_) => Vec::new(),
            None => workloads.iter().map(told_by).collect(),
        };
        let picked = picked?;
        if self.picked.is_none() && picked.pid != Some(process) {
            note(format_args!(
                "process {process} itself tells no steps: those of {} are taken, which alone tells some",
                told_by(picked)
            ));
        }
        self.picked = Some((picked.uid, picked.name.clone()));
        if self.last.replace(picked.steps) == Some(picked.steps) {
            return None;
        }
        Some(Relayed {
            steps: picked.steps,
            at: Milliseconds(picked.at_ms),
            told: Told {
                fetch_us: picked.fetch_us,
                compute_us: picked.compute_us,
                items: picked.items,
            },
        })
    }
}

fn subscribed(root: &Path) -> Result<Client, ClientError> {
    let mut client = Client::connect(root)?;
    client.ask(Request::Subscribe(Subscription { every_ms: EVERY_MS }))?;
    Ok(client)
}

impl AsFd for Relay {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.client {
            Some(client) => client.as_fd(),
            None => self.never.as_fd(),
        }
    }
}

/// As `yolo of process 4712`.
fn told_by(workload: &ReportedWorkload) -> String {
    let name = workload.name.as_deref().unwrap_or(NAMELESS);
    match workload.pid {
        Some(pid) => format!("{name} of process {pid}"),
        None => name.to_owned(),
    }
}
