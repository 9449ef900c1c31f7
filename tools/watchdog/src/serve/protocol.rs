//! The protocol of the sockets, version 1: `/run/wattgated/socket` for all clients, and `/run/wattgated-root/socket`,
//! which is root's alone. Containers mount the folder of the first one; over it, uid 0 is a client like any other.
//!
//! # Lines
//!
//! The transport is a Unix stream socket. Each message is one line: a JSON object in UTF-8 that
//! ends with a newline, at most 4096 bytes. Each request gets one line as its answer, in order.
//! Powers are whole mW, times whole ms, clocks kHz. In a limit, a power or a time may also be a text with a unit, as in
//! the config: `"power_mw":"15W"`, `"window_ms":"60s"`, `"for_ms":"10min"`. The daemon refuses unknown keys in a request.
//! A client must ignore unknown keys in an answer, because later releases add keys. Within a
//! version, existing keys keep their name and meaning.
//!
//! An answer has either `ok` or `error`. `ok` is always the daemon's current status ([`Report`]).
//! `error` has one of the names below, for programs, and a message, for people:
//!
//! ```json
//! {"version":1,"ok":{"holding":true,"state":"tracking","cores":8,"cpu_khz":1728000,"gpu_khz":918000,"emc_khz":3199000,"measured_mw":14210,"predicted_mw":13900,"allowed_mw":14962,"ratio_ppm":1022302,"limit_mw":15000,"limit_from":"config","max_limit_mw":30000,"unsaved":false,"limit_at":"module","least_mw":6100,"model":"model.wgt","unit":"8ff8117c, profiled for the model","violations":2,"changes":17,"over_limit_ms":860,"unknown_ms":0,"energy_mj":1234567,"sensor_errors":0,"failed_changes":0,"late_looks":0,"claims":[],"disobedient":[],"last_violations":[]}}
//! {"version":1,"error":{"name":"out_of_range","message":"power_mw is 0, expected 1 to 1000000"}}
//! ```
//!
//! `holding` is whether the daemon sets modes for its limit. `state` is `booting`, `settling`, `tracking`, `stepping_down`,
//! `probing_up`, `safe_no_sensor`, `safe_cannot_hold`, `safe_nothing_applies`, `yielded`, `observing` or `over_limit`: the measured power has been over the limit
//! for more than a second, and nothing lower can be set. It ends when a higher mode has been within the limit for a second,
//! or the least one for 10 s; `over_for_ms` is the time since it began. Averages do not count.
//!
//! What holds is the lowest of `max_limit_mw`, of every lowering, and of the lowest lease; without a lease, of the
//! config's limit. `limit_from` is `config`, `schedule`, `max_limit`, `socket` (a lowering) or `lease`. `limit_by` is the client that set
//! it, and `limit_for_ms` the time after which it ends. `claims` has all lowerings and leases. A client's `owner` is
//! `{"uid":1000}`, or `"root"` over root's socket; owner and `pid` are Linux's words, `program` is the client's.
//! `unsaved` is true while a change of the lowerings is not on the disk.
//!
//! ```json
//! {"source":"lease","by":{"owner":{"uid":1000},"pid":4711,"program":"train.py"},"limit_mw":25000,"for_ms":600000}
//! ```
//!
//! All limits are of the module, or with the config's `supply` of the supply that feeds it: `limit_at` says which, `module` or
//! `supply`. Then `module_limit_mw` is what the limit leaves for the module, `supply_mw` the supply's power, `meter_mw` what its
//! meter shows, `supply_added_mw` what the meter showed above what follows from the module's power, and `meter_fault` why the
//! meter counts as absent. `measured_mw`, `predicted_mw`, `allowed_mw`, `least_mw`, `energy_mj` and `last_violations` are the
//! module's in any case, and `budget_left_mj` is where the limit is.
//!
//! `measured_mw`,
//! `module_limit_mw`, `supply_mw`, `supply_added_mw`, `meter_mw`, `meter_fault`, `limit_by`, `limit_for_ms`, `over_for_ms`, `average_mw`, `average_window_ms`, `throttled` (what makes the board slower than its
//! mode: `cooling`, `firmware`, or both with a comma), `temperature_mc`, `input_mv`, `input_ma`, the
//! clocks that run (`delivered_cpu_khz`, `delivered_gpu_khz`, `delivered_emc_khz`), the over-current events
//! since the boot (`oc1_events` to `oc3_events`) and in the last minute (`oc1_per_min` to `oc3_per_min`)
//! are absent if there is no value. `last_violations` has at most eight, the newest first:
//!
//! ```json
//! {"ago_ms":12345,"over_ms":280,"highest_mw":16210,"allowed_mw":14962,"cores":4,"cpu_khz":1190400,"gpu_khz":612000,"emc_khz":2133000}
//! ```
//!
//! The mean over 430 ms was above `allowed_mw` for `over_ms`, and at most `highest_mw`, which is absent
//! if the daemon answered before the mean was above. It answered `ago_ms` ago with the mode.
//!
//! `workloads` has at most eight of the workloads that tell their steps to `/run/wattgate/steps`: each name of each user is one. First
//! comes the last one of each user to tell steps, then each user's one before. `step_us` and `step_uj`, time and energy of a step, are means of the last ten seconds; the energy is the module's, so
//! it is absent while several tell steps, and both are while the workload is idle. `at_ms` is when the steps last became more, in ms since the board's boot; a minute later
//! the workload is not shown any more. `idle` is whether it has done none for two seconds, and for the time of three steps.
//! `fetch_us` and `compute_us`, sums since its start, and `items` are what it tells beside. `flooded_by` is the user who has sent most of the datagrams of a
//! second in which more than 2000 came; 65534 is one whom Linux does not tell. Keys without a value are absent.
//!
//! ```json
//! {"name":"yolo","uid":1000,"pid":4712,"steps":86400,"at_ms":3600000,"idle":false,"step_us":23200,"step_uj":431000,"items":16}
//! ```
//!
//! Anybody may send any steps. They never permit more power: they are shown, and a deadline goes by them if no lease has an aim or
//! tells steps, and only one workload does.
//!
//! A daemon whose config has `observe = true` writes nothing to the board. Its state is `observing`, and `observed` has what it
//! would set and what that would be worth. Of the requests below it answers `status` and `subscribe`, and refuses all others that
//! set something. Its violations name the mode in which the board was, as nothing answered them.
//!
//! ```json
//! {"for_ms":3600000,"highest_mw":27100,"speed_over_pct":81,"speed_within_pct":112,"would_set":{"cores":8,"cpu_khz":1728000,"gpu_khz":612000,"emc_khz":3199000,"power_mw":18200,"speed_pct":84}}
//! ```
//!
//! # Requests
//!
//! `status` returns the status:
//!
//! ```json
//! {"version":1,"request":"status"}
//! ```
//!
//! `set_limit` *lowers* the limit. What a user has set holds beside all other limits, until the user sets another one or
//! lifts it by `null`. It
//! survives SIGHUP, crash, restart and reboot. A file of lowerings that is damaged, or of another version, means the
//! least mode, until root lifts it. With `for_ms` (1000 to 86400000) it ends after that time, in which the
//! daemon ran. It holds at once, and is saved within a second; until then, `unsaved` is true. A limit over
//! `max_limit_mw` is refused; one over the config's limit changes nothing by itself. `average` holds beside the
//! config's. A limit below the predicted power of the safe mode is accepted: the daemon sets the safe mode,
//! and the state is `safe_cannot_hold`. A user has one lowering, and there are at most 16, and root's.
//!
//! ```json
//! {"version":1,"request":{"set_limit":{"power_mw":15000}}}
//! {"version":1,"request":{"set_limit":{"power_mw":15000,"average":{"power_mw":12000,"window_ms":60000}}}}
//! {"version":1,"request":{"set_limit":{"power_mw":15000,"for_ms":600000,"program":"guard.py"}}}
//! {"version":1,"request":{"set_limit":null}}
//! ```
//!
//! `lift` lifts another user's lowering, or root's own. Over root's socket only.
//!
//! ```json
//! {"version":1,"request":{"lift":{"uid":1000}}}
//! {"version":1,"request":{"lift":"root"}}
//! ```
//!
//! `set_model` loads another workload's model: a regular file in the folder of the config's model,
//! given by its name or path. The daemon reads no other folder and follows no symbolic link, so a
//! client can choose only among files that root put there. The file is checked as at the start of
//! the daemon; if it is refused, the old model stays. The highest load that is remembered stays known, as its power;
//! all else that was learned is discarded. The model does **not** survive a restart. The daemon accepts one model in 10 s.
//! While another user has a lease, only root may change the model, also by a lease of its own.
//!
//! ```json
//! {"version":1,"request":{"set_model":"night.wgt"}}
//! ```
//!
//! `lease` holds a limit in place of the config's, up to `max_limit_mw`, and a model if one is named. It ends with this
//! connection, with the process that connected (a child that inherits the connection does not have the lease), after
//! `for_ms`, or if no line arrives for 2 s, whichever comes first; the connection is then closed. A client renews it by
//! any request, such as `status`. SIGHUP does not end it. Model and averages follow the rules of `set_model` and
//! `set_limit`. If anything is refused, nothing changes. A second `lease` of a connection replaces its first one. If
//! several connections have leases, the daemon holds the lowest power, the lowest average power and the
//! shortest window of all, with the model of the newest lease that names one.
//!
//! ```json
//! {"version":1,"request":{"lease":{"power_mw":20000}}}
//! {"version":1,"request":{"lease":{"power_mw":20000,"average":{"power_mw":15000,"window_ms":60000},"model":"night.wgt","for_ms":600000,"program":"train.py"}}}
//! ```
//!
//! A lease may have an `aim`. Its `objective` is `fastest`, `least-power`, `least-energy` or `least-edp`. All but `fastest`
//! may have a deadline: `deadline_us` for each step, or `within_ms` (60000 to 864000000, from the beginning of the
//! lease) for a number of `steps`. If the limit does not allow the deadline, the limit holds, and `unmet` in the status says what the
//! deadline needs. If several leases have an aim, that of the newest one holds. Without any, the aim of `set_aim` holds, and
//! without that one the config's.
//!
//! ```json
//! {"version":1,"request":{"lease":{"power_mw":20000,"aim":{"objective":"least-power","deadline_us":33000}}}}
//! {"version":1,"request":{"lease":{"power_mw":20000,"aim":{"objective":"least-energy","steps":50000,"within_ms":21600000}}}}
//! ```
//!
//! With `steps` a client says how many steps the workload has done since the client's lease began. It sends the number at least
//! every 2 s. The daemon learns from these numbers how long steps really take; without them it uses the times of the model, with
//! their margins. It uses the numbers of one lease: the one whose aim holds or, if no lease has an aim, the newest one that has
//! sent some. Wrong numbers make the workload slower or faster, but the limit holds.
//!
//! ```json
//! {"version":1,"request":{"steps":1200}}
//! ```
//!
//! `set_aim` sets an aim, over root's socket only, until the daemon ends or `null` lifts it. Steps that were done
//! before do not count.
//!
//! ```json
//! {"version":1,"request":{"set_aim":{"objective":"least-energy"}}}
//! {"version":1,"request":{"set_aim":null}}
//! ```
//!
//! `yield` gives the board to this client, over root's socket only: after the answer, whose state is `yielded`, the daemon
//! writes nothing to the board until this connection ends. **Meanwhile nothing holds the limit but
//! the client.** Then, or when the client closes its side, the daemon sets a mode of its own at once.
//! It keeps what it learned, but the workload may be another one by now: so its first mode fits the
//! limit both by what it learned and by the model alone. The client must send a line at least every
//! 2 s (any request, such as `status`); otherwise, or when its process ends, the daemon closes the connection and takes the
//! board over. Only one client may have the board. The daemon goes on reading the power
//! sensor and counting energy and the time over the limit, answers all clients, and keeps its lock and the saved state. A daemon
//! that stops meanwhile sets a mode of its own first. The mode in the status is the last one that the daemon wanted.
//!
//! ```json
//! {"version":1,"request":"yield"}
//! ```
//!
//! `{"yield":null}` is the same request.
//!
//! `subscribe` sends a line at once, then whenever state, mode, limit or model change, and at least
//! every `every_ms` (100 to 60000). Lines are at least 100 ms apart. The subscription ends with the
//! connection.
//!
//! ```json
//! {"version":1,"request":{"subscribe":{"every_ms":1000}}}
//! ```
//!
//! # Errors
//!
//! | name | what is wrong | the connection |
//! |---|---|---|
//! | `malformed` | The line is not JSON, a request or key is unknown or missing, a text is no power or time, or the keys of an aim contradict each other. | stays open |
//! | `malformed` | The client closed its side in the middle of a line. | is closed |
//! | `not_utf8` | The line is not UTF-8. | stays open |
//! | `version` | The request has another version. | stays open |
//! | `out_of_range` | A number is out of range. | stays open |
//! | `over_max_limit` | The limit is over the config's `max_limit`, or its highest limit. | stays open |
//! | `too_many_lowerings` | 16 users have lowered the limit. | stays open |
//! | `leased` | Another user has a lease, and only root may change the model. | stays open |
//! | `observing` | The daemon only observes, as its config says: it takes no limit, model or aim, and does not yield the board. | stays open |
//! | `no_lowering` | The owner has set no limit. | stays open |
//! | `no_lease` | `steps` needs a lease of this client. | stays open |
//! | `not_root` | The request is for the socket that is root's alone. | stays open |
//! | `too_many_requests` | More than 40 requests of the user in a second, one model in 10 s, or an attempt of the user in a second. | is closed at 80 |
//! | `too_long` | The line has more than 4096 bytes. | is closed |
//! | `waiting` | The board lacks a sensor or a clock; the least mode is set meanwhile. | is closed |
//! | `too_many_clients` | The user has 8 connections, or 4 subscriptions, or made 40 connections in a second; or there are 128. | is closed |
//! | `already_yielded` | Another client has the board. | stays open |
//! | `model_not_allowed` | The model is not in the folder of the config's model. | stays open |
//! | `model_unreadable` | The model's file does not exist or is not a regular file. | stays open |
//! | `model_defective` | The file is not a valid model. | stays open |
//! | `model_unsuitable` | The model lacks power, confidence or a supported mode. | stays open |
//! | `model_for_other_board` | The model was made for another board. | stays open |
//!
//! A client that sends nothing for 60 s and has not subscribed is disconnected; so is one that sends open files (`SCM_RIGHTS`),
//! a client that has the board or a lease and sends no line for 2 s, and a client with more than 16 KiB of unread answers. When a client closes its side, the daemon sends the
//! pending answers and closes the connection. The daemon accepts at most 5000 connections per
//! second; further ones wait in the backlog. The budgets of a user do not apply to root's socket. It raises the limit at most four times a second, and lowers it at once.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use wattgate_cli::aim::{AimError, By, Said, Wanted};
use wattgate_runtime::governor::Average;
use wattgate_runtime::{Limit, Microseconds, Milliseconds, Milliwatts};

use crate::limits::Owner;
use crate::quantity::{self, Aimed};
use crate::report::Report;

/// Version of the protocol.
pub const VERSION: u32 = 1;

/// Maximum length of a line with its newline, in bytes.
pub const MAX_LINE_BYTES: usize = 4_096;

/// A line from a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    version: u32,
    request: Request,
}

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Status,
    /// `None` lifts this user's lowering.
    SetLimit(Option<WantedLimit>),
    /// Lifts another owner's lowering.
    Lift(Owner),
    SetModel(String),
    Lease(WantedLease),
    /// Over root's socket only. `None` lifts it.
    SetAim(Option<WantedAim>),
    /// The number of steps that the workload has done under this client's lease.
    Steps(u64),
    Yield,
    Subscribe(Subscription),
}

/// A lowering.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedLimit {
    #[serde(deserialize_with = "quantity::power_mw")]
    pub power_mw: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<WantedAverage>,
    /// The time after which the limit expires.
    #[serde(
        default,
        deserialize_with = "quantity::for_ms",
        skip_serializing_if = "Option::is_none"
    )]
    pub for_ms: Option<u64>,
    /// The client's name for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

/// A limit, and perhaps a model, for as long as the client is connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedLease {
    #[serde(deserialize_with = "quantity::power_mw")]
    pub power_mw: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<WantedAverage>,
    /// Name or path of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The time after which the lease ends.
    #[serde(
        default,
        deserialize_with = "quantity::for_ms",
        skip_serializing_if = "Option::is_none"
    )]
    pub for_ms: Option<u64>,
    /// What is wanted below the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<WantedAim>,
    /// The client's name for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

/// An aim in a request: an objective, and a deadline of a step or of all steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedAim {
    pub objective: Aimed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_us: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

/// An average in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedAverage {
    #[serde(deserialize_with = "quantity::power_mw")]
    pub power_mw: u32,
    #[serde(deserialize_with = "quantity::window_ms")]
    pub window_ms: u64,
}

/// A request for regular status lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    pub every_ms: u64,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The error's stable name, for programs.
    pub name: Cow<'static, str>,
    /// The error's message, for people.
    pub message: String,
}

impl Refused {
    /// Creates an error with a name from the table above.
    pub fn new(name: &'static str, message: impl ToString) -> Self {
        Self {
            name: name.into(),
            message: message.to_string(),
        }
    }
}

/// A line from the daemon.
#[derive(Serialize, Deserialize)]
struct Answer {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refused>,
}

impl Request {
    /// Parses a line without its newline.
    pub fn parse(line: &[u8]) -> Result<Self, Refused> {
        // Check the version first: another version may have other requests.
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let line = std::str::from_utf8(line).map_err(|error| Refused::new("not_utf8", error))?;
        let malformed = |error| Refused::new("malformed", error);
        let Version { version } = serde_json::from_str(line).map_err(malformed)?;
        if version != VERSION {
            let message = format!("version is {version}, expected {VERSION}");
            return Err(Refused::new("version", message));
        }
        let line: Line = serde_json::from_str(line).map_err(malformed)?;
        Ok(line.request)
    }

    /// Formats the request as a line with its newline.
    pub fn line(self) -> Vec<u8> {
        line(&Line {
            version: VERSION,
            request: self,
        })
    }
}

/// Formats an answer as a line with its newline.
pub fn answer(result: Result<Report, Refused>) -> Vec<u8> {
    let (ok, error) = match result {
        Ok(report) => (Some(report), None),
        Err(refused) => (None, Some(refused)),
    };
    line(&Answer {
        version: VERSION,
        ok,
        error,
    })
}

/// Parses an answer; `None` if the line is not an answer of this version.
pub fn parse_answer(line: &str) -> Option<Result<Report, Refused>> {
    let answer: Answer = serde_json::from_str(line).ok()?;
    match answer {
        Answer {
            version: VERSION,
            ok: Some(report),
            error: None,
        } => Some(Ok(report)),
        Answer {
            version: VERSION,
            ok: None,
            error: Some(refused),
        } => Some(Err(refused)),
        _ => None,
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    // Serialising strings and numbers to memory does not fail.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

impl WantedLimit {
    /// A limit of the power, and nothing else.
    pub fn from_power(power: Milliwatts) -> Self {
        Self {
            power_mw: power.0,
            average: None,
            for_ms: None,
            program: None,
        }
    }

    /// The limit without what the config adds, and the time after which it ends; `None`: not by itself.
    pub fn checked(&self) -> Result<(Limit, Option<Milliseconds>), Refused> {
        let mut limit = Limit::from_power(milliwatts(self.power_mw)?);
        if let Some(average) = self.average {
            limit.average = Some(Average {
                power: milliwatts(average.power_mw)?,
                window: milliseconds("window_ms", average.window_ms, 1_000, 86_400_000)?,
            });
        }
        let in_range = |ms| milliseconds("for_ms", ms, 1_000, 86_400_000);
        Ok((limit, self.for_ms.map(in_range).transpose()?))
    }
}

impl WantedLease {
    /// A lease of a limit, and of nothing else.
    pub fn from_power(power: Milliwatts) -> Self {
        Self::with(WantedLimit::from_power(power), None)
    }

    /// A lease of this limit, and of a model if one is named.
    pub fn with(limit: WantedLimit, model: Option<String>) -> Self {
        let WantedLimit {
            power_mw,
            average,
            for_ms,
            program,
        } = limit;
        Self {
            power_mw,
            average,
            model,
            for_ms,
            aim: None,
            program,
        }
    }

    /// The limit, the model and the aim.
    pub fn parts(self) -> (WantedLimit, Option<String>, Option<WantedAim>) {
        let Self {
            power_mw,
            average,
            model,
            for_ms,
            aim,
            program,
        } = self;
        let limit = WantedLimit {
            power_mw,
            average,
            for_ms,
            program,
        };
        (limit, model, aim)
    }
}

impl WantedAim {
    /// The request for an aim.
    pub fn from_wanted(wanted: Wanted) -> Self {
        let (mut deadline_us, mut work) = (None, None);
        match wanted.by {
            Some(By::Step(time)) => deadline_us = Some(time.0),
            Some(By::Work { steps, within }) => work = Some((steps, within.0)),
            None => {}
        }
        let (steps, within_ms) = work.unzip();
        Self {
            objective: Aimed(wanted.objective),
            deadline_us,
            steps,
            within_ms,
        }
    }

    /// What is wanted.
    pub fn checked(&self) -> Result<Wanted, Refused> {
        let Self {
            objective,
            deadline_us,
            steps,
            within_ms,
        } = *self;
        if let Some(us) = deadline_us {
            in_range("deadline_us", u64::from(us), 1, 3_600_000_000)?;
        }
        let in_range = |ms| milliseconds("within_ms", ms, 60_000, 864_000_000);
        let within = within_ms.map(in_range).transpose()?;
        let deadline = deadline_us.map(Microseconds);
        let said = Said {
            objective: Some(objective.0),
            deadline,
            steps,
            within,
            ..Said::default()
        };
        match said.wanted() {
            Ok(wanted) => Ok(wanted.unwrap_or(Wanted::FASTEST)),
            Err(why) => {
                let is_number = matches!(why, AimError::Steps(_));
                let name = if is_number {
                    "out_of_range"
                } else {
                    "malformed"
                };
                Err(Refused::new(name, why))
            }
        }
    }
}

impl Subscription {
    /// The longest time between two lines.
    pub fn every(self) -> Result<Milliseconds, Refused> {
        milliseconds("every_ms", self.every_ms, 100, 60_000)
    }
}

fn milliwatts(value: u32) -> Result<Milliwatts, Refused> {
    in_range("power_mw", u64::from(value), 1, 1_000_000)?;
    Ok(Milliwatts(value))
}

fn milliseconds(key: &str, value: u64, least: u64, most: u64) -> Result<Milliseconds, Refused> {
    in_range(key, value, least, most)?;
    Ok(Milliseconds(value))
}

fn in_range(key: &str, value: u64, least: u64, most: u64) -> Result<(), Refused> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => {
            let message = format!("{key} is {value}, expected {least} to {most}");
            Err(Refused::new("out_of_range", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Observed, Source, state_names};
    use wattgate_runtime::Objective;

    /// The example lines of the module's documentation that contain `part`.
    fn examples(part: &'static str) -> impl Iterator<Item = &'static str> {
        let lines = include_str!("protocol.rs").lines();
        let lines = lines.filter_map(|line| line.strip_prefix("//! "));
        lines.filter(move |line| line.starts_with("{\"version\":1,") && line.contains(part))
    }

    #[test]
    fn the_examples_are_requests() {
        let found: Vec<Request> = examples("\"request\"")
            .map(|line| Request::parse(line.as_bytes()).expect(line))
            .collect();
        let limit = |average, for_ms: Option<u64>| {
            Request::SetLimit(Some(WantedLimit {
                average,
                for_ms,
                program: for_ms.map(|_| "guard.py".to_owned()),
                ..WantedLimit::from_power(Milliwatts(15_000))
            }))
        };
        let aim = WantedAim::from_wanted(Wanted {
            objective: Objective::Energy,
            by: None,
        });
        let aimed = |aim| {
            Request::Lease(WantedLease {
                aim: Some(aim),
                ..WantedLease::from_power(Milliwatts(20_000))
            })
        };
        let all = [
            Request::Status,
            limit(None, None),
            limit(
                Some(WantedAverage {
                    power_mw: 12_000,
                    window_ms: 60_000,
                }),
                None,
            ),
            limit(None, Some(600_000)),
            Request::SetLimit(None),
            Request::Lift(Owner::Uid(1_000)),
            Request::Lift(Owner::Root),
            Request::SetModel("night.wgt".to_owned()),
            Request::Lease(WantedLease::from_power(Milliwatts(20_000))),
            Request::Lease(WantedLease {
                power_mw: 20_000,
                average: Some(WantedAverage {
                    power_mw: 15_000,
                    window_ms: 60_000,
                }),
                model: Some("night.wgt".to_owned()),
                for_ms: Some(600_000),
                aim: None,
                program: Some("train.py".to_owned()),
            }),
            aimed(WantedAim {
                objective: Aimed(Objective::Power),
                deadline_us: Some(33_000),
                ..aim
            }),
            aimed(WantedAim {
                steps: Some(50_000),
                within_ms: Some(21_600_000),
                ..aim
            }),
            Request::Steps(1_200),
            Request::SetAim(Some(aim)),
            Request::SetAim(None),
            Request::Yield,
            Request::Subscribe(Subscription { every_ms: 1_000 }),
        ];
        assert_eq!(found, all);
        for (request, line) in all.into_iter().zip(examples("\"request\"")) {
            assert_eq!(request.line(), format!("{line}\n").into_bytes());
        }
        let line = b"{\"version\":1,\"request\":{\"yield\":null}}";
        assert_eq!(Request::parse(line), Ok(Request::Yield));
    }

    #[test]
    fn the_examples_are_answers() {
        let mut oks = examples("\"ok\"");
        let line = oks.next().expect("an example");
        let report = parse_answer(line).expect("an answer").expect("a report");
        assert_eq!(report.limit_from, Source::Config);
        assert_eq!(answer(Ok(report)), format!("{line}\n").into_bytes());
        let line = examples("\"error\"").next().expect("an example");
        let refused = parse_answer(line)
            .expect("an answer")
            .expect_err("an error");
        assert_eq!(Err(refused.clone()), milliwatts(0));
        assert_eq!(answer(Err(refused)), format!("{line}\n").into_bytes());
        assert_eq!(parse_answer("{\"version\":2,\"ok\":1}"), None);
        assert_eq!(parse_answer("{\"version\":1}"), None);
    }

    #[test]
    fn the_example_of_what_was_observed_is_one() {
        let lines = include_str!("protocol.rs").lines();
        let mut lines = lines.filter_map(|line| line.strip_prefix("//! "));
        let line = lines.find(|line| line.starts_with("{\"for_ms\":"));
        let line = line.expect("an example");
        let observed: Observed = serde_json::from_str(line).expect("observed");
        assert_eq!(serde_json::to_string(&observed).expect("a text"), line);
    }

    #[test]
    fn a_limit_may_have_units() {
        let limit = "{\"power_mw\":\"15W\",\"average\":{\"power_mw\":\"12.5 W\",\"window_ms\":\"1min\"},\"for_ms\":\"0.5h\"}";
        let parsed = |request: &str| {
            let line = format!("{{\"version\":1,\"request\":{{\"{request}\":{limit}}}}}");
            Request::parse(line.as_bytes()).expect("a request")
        };
        let wanted = WantedLimit {
            average: Some(WantedAverage {
                power_mw: 12_500,
                window_ms: 60_000,
            }),
            for_ms: Some(1_800_000),
            ..WantedLimit::from_power(Milliwatts(15_000))
        };
        let lease = WantedLease::with(wanted.clone(), None);
        assert_eq!(parsed("set_limit"), Request::SetLimit(Some(wanted)));
        assert_eq!(parsed("lease"), Request::Lease(lease));
        let line =
            b"{\"version\":1,\"request\":{\"set_limit\":{\"power_mw\":15000,\"for_ms\":null}}}";
        let wanted = WantedLimit::from_power(Milliwatts(15_000));
        assert_eq!(Request::parse(line), Ok(Request::SetLimit(Some(wanted))));
    }

    #[test]
    fn every_state_is_documented() {
        for state in state_names() {
            let name = format!("`{state}`");
            assert!(include_str!("protocol.rs").contains(&name), "{name}");
        }
    }

    #[test]
    fn invalid_requests_get_a_named_error() {
        let cases: &[(&[u8], &str, &str)] = &[
            (b"", "malformed", "EOF while parsing a value"),
            (b"GET / HTTP/1.1\r", "malformed", "expected value"),
            (
                b"[]",
                "malformed",
                "invalid length 0, expected struct Version with 1 element",
            ),
            (b"{}", "malformed", "missing field `version`"),
            (b"{\"version\":1}", "malformed", "missing field `request`"),
            (
                b"{\"version\":2,\"ask\":\"status\"}",
                "version",
                "version is 2, expected 1",
            ),
            (
                b"{\"version\":\"1\"}",
                "malformed",
                "invalid type: string \"1\", expected u32",
            ),
            (
                b"{\"version\":1,\"request\":\"stop\"}",
                "malformed",
                "unknown variant `stop`, expected one of `status`, `set_limit`, `lift`, `set_model`, \
                 `lease`, `set_aim`, `steps`, `yield`, `subscribe`",
            ),
            (
                b"{\"version\":1,\"request\":\"status\",\"now\":1}",
                "malformed",
                "unknown field `now`, expected `version` or `request`",
            ),
            (
                b"{\"version\":1,\"request\":{\"set_limit\":{\"power_mw\":\"15\"}}}",
                "malformed",
                "power_mw is `15`, expected a power of 1mW to 1000W with its unit, such as \"15W\" or \"900mW\"",
            ),
            (
                b"{\"version\":1,\"request\":{\"set_limit\":{\"power_mw\":-1}}}",
                "malformed",
                "invalid type: integer `-1`, expected a whole number, or a power of 1mW to 1000W with its unit",
            ),
            (
                b"{\"version\":1,\"request\":{\"lease\":{\"power_mw\":15000,\"for_ms\":\"25h\"}}}",
                "malformed",
                "for_ms is `25h`, expected a time of 1s to 24h with its unit, such as \"10min\" or \"8h\"",
            ),
            (
                b"\xFF\xFE{",
                "not_utf8",
                "invalid utf-8 sequence of 1 bytes from index 0",
            ),
            (
                b"{\"version\":1,\"request\":\"stat",
                "malformed",
                "EOF while parsing a string",
            ),
        ];
        for (line, name, message) in cases {
            let refused = Request::parse(line).expect_err(message);
            assert_eq!(refused.name, *name);
            assert!(refused.message.starts_with(message), "{}", refused.message);
        }
        // Deeper than a recursive parser's stack allows.
        let deep = "[".repeat(4_000);
        let deep = format!("{{\"version\":1,\"request\":{deep}");
        let refused = Request::parse(deep.as_bytes()).expect_err("too deep");
        assert_eq!(refused.name, "malformed");
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let limit = |power_mw, average| {
            let wanted = WantedLimit {
                average,
                ..WantedLimit::from_power(Milliwatts(power_mw))
            };
            wanted.checked().map(|(limit, _)| limit)
        };
        let average = |power_mw, window_ms| {
            Some(WantedAverage {
                power_mw,
                window_ms,
            })
        };
        for (limit, message) in [
            (limit(0, None), "power_mw is 0, expected 1 to 1000000"),
            (
                limit(1_000_001, None),
                "power_mw is 1000001, expected 1 to 1000000",
            ),
            (
                limit(1, average(0, 1_000)),
                "power_mw is 0, expected 1 to 1000000",
            ),
            (
                limit(1, average(1, 999)),
                "window_ms is 999, expected 1000 to 86400000",
            ),
            (
                limit(1, average(1, 86_400_001)),
                "window_ms is 86400001, expected 1000 to 86400000",
            ),
        ] {
            assert_eq!(limit, Err(Refused::new("out_of_range", message)));
        }
        for (for_ms, is_right) in [(999, false), (1_000, true), (86_400_001, false)] {
            let wanted = WantedLimit {
                for_ms: Some(for_ms),
                ..WantedLimit::from_power(Milliwatts(1))
            };
            let time = wanted.checked().map(|(_, time)| time);
            let time = time.map_err(|refused| refused.name);
            match is_right {
                true => assert_eq!(time, Ok(Some(Milliseconds(for_ms)))),
                false => assert_eq!(time, Err("out_of_range".into())),
            }
        }
        for every_ms in [0, 99, 60_001] {
            let error = Subscription { every_ms }.every().expect_err("out of range");
            assert_eq!(error.name, "out_of_range");
        }
        assert_eq!(
            limit(1_000_000, None).map(|it| it.power),
            Ok(Milliwatts(1_000_000))
        );
    }
}
