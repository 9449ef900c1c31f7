//! The messages that a user of `wattgate` may meet. tests/golden/messages.txt has those that a command makes anywhere,
//! tests/golden/messages-of-states.txt those that need a state of the board, the workload or the planner.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-profiler --test it messages` writes them anew.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wattgate_board::{ApplyError, Disobedience, SampleError};
use wattgate_board_tables::Board as Description;
use wattgate_profiler::cli::Failure;
use wattgate_profiler::planner::PlannerError;
use wattgate_profiler::row::{CorpusError, Mark, Of};
use wattgate_profiler::session::SessionError;
use wattgate_profiler::steps::pattern::NoCount;
use wattgate_profiler::steps::tally::Notice;
use wattgate_profiler::world::Exit;
use wattgate_runtime::grid::Axis;
use wattgate_runtime::{FormatError, Milliwatts};
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::tree::mirror::Mirror;
use wattgate_simulated_board::unit::Unit;
use wattgate_watchdog::sudo_user::SudoUser;

use crate::board::{highest, lowest};
use crate::transcript;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../watchdog/tests/models");

#[test]
fn messages_are_the_golden_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    // The files of a board at rest.
    let description = Description::named("orin-agx-64").expect("a board");
    let tree = Tree::new(description, Unit::NOMINAL, 1, None).expect("a tree");
    let _mirror = Mirror::create(&path.join("board"), tree).expect("a tree on the disk");
    for (model, name) in [
        ("orin-agx-64-resnet18.wgt", "model.wgt"),
        ("orin-nano-8-super-resnet18.wgt", "other.wgt"),
    ] {
        fs::copy(Path::new(MODELS).join(model), path.join(name)).expect("copied");
    }
    let mut modes = "cores,cpu_khz,gpu_khz,emc_khz\n".to_owned();
    for mode in [lowest("orin-agx-64"), highest("orin-agx-64")] {
        let [cores, cpu, gpu, emc] = mode.knobs();
        modes += &format!("{cores},{cpu},{gpu},{emc}\n");
    }
    fs::write(path.join("modes.csv"), modes).expect("written");
    let golden = Path::new(GOLDEN).join("messages.txt");
    transcript::compare(&golden, path, &[env!("CARGO_BIN_EXE_wattgate")]);
}

#[test]
fn messages_of_states_are_the_golden_ones() {
    let (limit, margin) = (Milliwatts(20_000), Milliwatts(354));
    let knob = Disobedience {
        path: Arc::from(Path::new("/sys/class/devfreq/17000000.ga10b/max_freq")),
        wanted: 306_000_000,
        is: Some(1_300_500_000),
        why: None,
    };
    let telling = "let the workload send its steps to the socket that WATTGATE_SOCKET names, which is /run/wattgate/7.sock, one \
                   line `steps=N` with the steps since its start, or count those of its output with --steps-from"
        .to_owned();
    let pattern =
        "--steps-from `tqdm` has found no count; there is no output: a program may buffer it (start it with \
                   `stdbuf -oL`), and some bars are drawn only in a terminal"
            .to_owned();
    let command = "wattgate-trainer plan --ask-tell".to_owned();
    let path = || Path::new("yolo.csv").to_owned();
    let sensor = SampleError {
        rail: "VDD_CPU_CV".into(),
        fault: wattgate_board::SampleFault::NotReady,
    };
    let mut sessions = vec![
        SessionError::NoSteps {
            waited: Duration::from_secs(60),
            telling: telling.clone(),
        },
        SessionError::NoCount { telling: pattern },
        SessionError::Backwards { from: 100, to: 3 },
        SessionError::Minibatch {
            stated: 16,
            told: 32,
        },
        SessionError::Ended(Exit::Code(0)),
        SessionError::Ended(Exit::Code(1)),
        SessionError::Ended(Exit::Signal(9)),
        SessionError::Stopped,
        SessionError::Lost,
        SessionError::Sensor(sensor),
        SessionError::Stale,
        SessionError::Lowest(ApplyError::NotOnBoard {
            axis: Axis::Cpu,
            value: 115_201,
        }),
        SessionError::LimitTooLow {
            power: Milliwatts(21_000),
            limit,
            margin,
        },
        SessionError::Disobeys {
            power: Milliwatts(21_000),
            limit,
            knob,
        },
    ];
    let marks = [
        Mark::OverLimit,
        Mark::Refused,
        Mark::Throttled,
        Mark::Changed,
        Mark::Stalled,
        Mark::Idle,
    ];
    sessions.extend(marks.map(SessionError::Unmeasured));
    let planners = [
        PlannerError::Absent {
            command: command.clone(),
        },
        PlannerError::CannotFit,
        PlannerError::Io {
            command,
            source: io::Error::from_raw_os_error(32),
        },
    ];
    let counts = [
        NoCount::Fraction("1.5".to_owned()),
        NoCount::Part {
            found: "86".to_owned(),
            number: "5.86k".to_owned(),
        },
        NoCount::Rounded("5.86k".to_owned()),
        NoCount::Unit("3 ms".to_owned()),
    ];
    let failures = [
        Failure::Few {
            measured: 3,
            corpus: path(),
        },
        Failure::ToldName {
            told: "my model".to_owned(),
        },
        Failure::Refused {
            why: "its highest mode draws 0.04 W".to_owned(),
            corpus: path(),
        },
        Failure::Model(FormatError::Checksum),
        Failure::Exceeded,
        Failure::Yielded,
        Failure::Folder {
            path: "yolo.wgt".into(),
            folder: "/var/lib/wattgate/models/orin-agx-64".into(),
        },
    ];
    let corpora = [
        CorpusError::Other {
            path: path(),
            line: 2,
            what: Of::Workload,
            found: "resnet18".to_owned(),
            expected: "yolo".to_owned(),
        },
        CorpusError::Other {
            path: path(),
            line: 2,
            what: Of::Board,
            found: "tx2".to_owned(),
            expected: "orin-agx-64".to_owned(),
        },
        CorpusError::NotFed { path: path() },
    ];
    let notices = [
        Notice::Several {
            counted: "`Train` to 250".to_owned(),
            other: "`Valid` to 50".to_owned(),
        },
        Notice::Many,
        Notice::Mean {
            from: 100.0,
            to: 90.0,
        },
        Notice::Fell { from: 61, to: 5 },
        Notice::Stuck(10_000),
    ];
    let lines = sessions.iter().map(SessionError::to_string);
    let lines = lines.chain(planners.iter().map(PlannerError::to_string));
    let lines = lines.chain(corpora.iter().map(CorpusError::to_string));
    let lines = lines.chain(counts.iter().map(NoCount::to_string));
    let user = SudoUser::from_uid(4_000_000).expect_err("no such user");
    let lines: Vec<String> = lines
        .chain([user.to_string()])
        .chain(failures.iter().map(Failure::to_string))
        .chain(notices.iter().map(Notice::to_string))
        .collect();
    let golden = Path::new(GOLDEN).join("messages-of-states.txt");
    transcript::settle(&golden, &format!("{}\n", lines.join("\n")));
}
