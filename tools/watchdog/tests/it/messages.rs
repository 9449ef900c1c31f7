//! The messages that a user of `wattgated` may meet. tests/golden/messages.txt has those that a command makes where no
//! daemon runs, tests/golden/messages-of-daemon.txt what a daemon refuses, and tests/golden/messages-of-states.txt the
//! messages and log lines that need a state of the board.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-watchdog --test it messages` writes them anew.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, iter};

use wattgate_board::{
    ApplyError, AveragingError, BackstopError, ChangeError, DiscoverError, Disobedience, KnobError,
    Missing, RestoreError, SampleError, SampleFault, SavedError, SettableError,
};
use wattgate_runtime::grid::Axis;
use wattgate_runtime::{Milliseconds, Milliwatts, PowerMode};
use wattgate_watchdog::cli::Failure;
use wattgate_watchdog::client::ClientError;
use wattgate_watchdog::control::Event;
use wattgate_watchdog::distrust::Distrust;
use wattgate_watchdog::lesson::{NoLesson, Unusable};
use wattgate_watchdog::limits::Lowerings;
use wattgate_watchdog::lock::LockError;
use wattgate_watchdog::meter::MeterFault;
use wattgate_watchdog::observer::{self, Would};
use wattgate_watchdog::quantity::{Place, Placed};
use wattgate_watchdog::saved_state::SavedStateError;
use wattgate_watchdog::setup::SetupError;

use crate::common::weights;
use crate::transcript;
use crate::wattgated::{Rig, with_board};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
const PROGRAM: &str = env!("CARGO_BIN_EXE_wattgated");

/// A folder with a board, two models and, as `head`, a config.
fn folder(root: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    symlink(root, folder.path().join("board")).expect("linked");
    for (model, name) in [
        ("orin-agx-64-resnet18.wgt", "model.wgt"),
        ("orin-nano-8-super-resnet18.wgt", "other.wgt"),
    ] {
        fs::copy(weights(model), folder.path().join(name)).expect("copied");
    }
    folder
}

#[test]
fn messages_without_a_daemon_are_the_golden_ones() {
    // The files of a board at rest.
    let (rig, _mirror) = Rig::new("25W");
    let folder = folder(&rig.root);
    let golden = Path::new(GOLDEN).join("messages.txt");
    transcript::compare(&golden, folder.path(), &[PROGRAM]);
}

#[test]
fn refusals_of_a_daemon_are_the_golden_ones() {
    with_board("25W", |rig| {
        rig.configure_copy("limit = \"25W\"");
        let folder = rig.config.parent().expect("a folder");
        let other = weights("orin-nano-8-super-resnet18.wgt");
        fs::copy(other, folder.join("other.wgt")).expect("copied");
        let _daemon = rig.run("tracking");
        let golden = Path::new(GOLDEN).join("messages-of-daemon.txt");
        transcript::compare(&golden, folder, &[PROGRAM]);
    });
}

/// What is said of the board's files, and of the daemon's own.
fn of_files() -> Vec<String> {
    let shunt: Arc<Path> = Arc::from(Path::new("/sys/class/hwmon/hwmon0/shunt1_resistor"));
    let backstops = [
        BackstopError::NoLimit,
        BackstopError::Shunt {
            path: Arc::clone(&shunt),
        },
        BackstopError::NoVoltage {
            path: Arc::from(Path::new("/sys/class/hwmon/hwmon0/in1_input")),
            millivolts: 0,
        },
        BackstopError::Knob(KnobError::NotANumber { path: shunt }),
    ];
    let backstops = backstops.map(|why| SetupError::Backstop(why).to_string());
    let nothing = SetupError::Nothing {
        path: "model.wgt".into(),
        why: SettableError::NothingInCommon { axis: Axis::Gpu },
    };
    let prior = || PathBuf::from("/var/lib/wattgate/prior");
    let knob = || Arc::from(Path::new("/sys/class/devfreq/17000000.ga10b/max_freq"));
    let differs = KnobError::Differs {
        path: knob(),
        wanted: 306_000_000,
        found: 1_300_500_000,
    };
    let restores = [
        RestoreError::UnknownKnob { path: knob() },
        RestoreError::Incomplete {
            count: 2,
            first: differs,
        },
    ];
    let restores = restores.map(|why| SavedStateError::Restore { path: prior(), why });
    let defects = [
        SavedError::NoEnd,
        SavedError::NoPair { line: 2 },
        SavedError::NotANumber {
            line: 2,
            word: "fast".to_owned(),
        },
        SavedError::Twice {
            line: 3,
            path: "/sys/devices/system/cpu/cpu4/online".into(),
        },
    ];
    let defects = defects.map(|why| SavedStateError::Defect { path: prior(), why });
    let faults = [
        SampleFault::NotANumber,
        SampleFault::Negative(-120),
        SampleFault::NoVoltage(0),
        SampleFault::NoPower(0),
        SampleFault::AbsurdPower(2_000_000_000),
        SampleFault::FullScale {
            millivolts: 32_760,
            milliamperes: 32_760,
        },
    ];
    let faults = faults.map(|fault| {
        let rail = "VDD_CPU_CV".into();
        Event::NoSample(&SampleError { rail, fault }).to_string()
    });
    let samples = || Arc::from(Path::new("/sys/class/hwmon/hwmon0/samples"));
    let fixed = KnobError::Differs {
        path: samples(),
        wanted: 64,
        found: 512,
    };
    let undone = ChangeError::Undone {
        cause: fixed.clone(),
    };
    let not_undone = ChangeError::NotUndone {
        cause: fixed.clone(),
        left: 1,
        first: fixed,
    };
    let averagings = [
        AveragingError::Unavailable { path: samples() },
        AveragingError::Fixed {
            device: "/sys/class/hwmon/hwmon0".into(),
        },
        AveragingError::Unknown(KnobError::NotANumber { path: samples() }),
        AveragingError::Failed(undone),
        AveragingError::Failed(not_undone),
    ];
    let averagings = averagings.map(|why| Event::NotAveraged(&why).to_string());
    let apply = ApplyError::NotOnBoard {
        axis: Axis::Gpu,
        value: 306_001,
    };
    let folder = tempfile::tempdir().expect("a folder");
    let lowerings = folder.path().join("limits");
    fs::write(&lowerings, "{\"version\":1").expect("written");
    let (_, unknown) = Lowerings::read(&[lowerings]);
    let unknown = unknown.expect_err("cut").to_string();
    let unknown = unknown.replace(&folder.path().display().to_string(), "/var/lib/wattgate");
    let lines = backstops.into_iter().chain([nothing.to_string(), unknown]);
    let lines = lines.chain(restores.iter().map(SavedStateError::to_string));
    let lines = lines.chain(defects.iter().map(SavedStateError::to_string));
    let lines = lines.chain(faults).chain(averagings);
    lines.chain([apply.to_string()]).collect()
}

#[test]
fn messages_of_states_are_the_golden_ones() {
    let path = || PathBuf::from("/run/wattgated/socket");
    let client = [
        io::ErrorKind::PermissionDenied.into(),
        io::ErrorKind::ConnectionRefused.into(),
        io::ErrorKind::WouldBlock.into(),
        io::ErrorKind::UnexpectedEof.into(),
        io::Error::other("the answer has another protocol version"),
    ];
    let client = client.map(|why| ClientError::NoDaemon { path: path(), why }.to_string());
    let root = || PathBuf::from("/");
    let labels = ["VDD_CPU_GPU_CV", "VDD_SOC"].map(str::to_owned);
    let setup = [
        SetupError::Board(DiscoverError::PowerUnknown {
            root: root(),
            labels: labels.to_vec(),
        }),
        SetupError::Board(DiscoverError::PowerUnknown {
            root: root(),
            labels: Vec::new(),
        }),
        SetupError::Board(DiscoverError::NoBoard { root: root() }),
        SetupError::Board(DiscoverError::NothingToSet {
            root: root(),
            missing: vec![Missing {
                what: "cores",
                path: "/sys/devices/system/cpu".into(),
                why: io::ErrorKind::NotFound,
            }],
        }),
        SetupError::Board(DiscoverError::TooManyCores { cores: 128 }),
        SetupError::NoPower {
            path: "time.wgt".into(),
        },
        SetupError::OtherTpcs {
            path: "model.wgt".into(),
            profiled: 0,
            board: 0xf0,
        },
        SetupError::NotProfiled {
            path: "model.wgt".into(),
        },
        SetupError::NoInput,
        SetupError::MeterOfModule {
            path: "/sys/class/hwmon/hwmon3/power1_input".into(),
            rail: "VDD_IN".to_owned(),
        },
    ];
    let lock = LockError::Held {
        path: "/run/wattgated/lock".into(),
        holder: "4711".to_owned(),
    };
    let distrusts = [
        Distrust::Flat {
            span: 180.0,
            rise: 1.02,
        },
        Distrust::TooLow {
            highest: Milliwatts(40),
            idle: Milliwatts(7_100),
        },
        Distrust::Contradicted {
            measured: Milliwatts(24_900),
            predicted: Milliwatts(6_100),
        },
    ];
    let lessons = [
        NoLesson::NoLoad,
        NoLesson::FarOff { ratio: 1.31 },
        NoLesson::NoUnit,
        NoLesson::NoSensor,
    ];
    let unusable = [
        Unusable::NoFile {
            path: "/var/lib/wattgate/unit".into(),
        },
        Unusable::Damaged {
            path: "/var/lib/wattgate/unit".into(),
        },
        Unusable::Other("unit"),
        Unusable::Future,
        Unusable::Old { days: 500 },
    ];
    let knob = Disobedience {
        path: Arc::from(Path::new("/sys/devices/system/cpu/cpu4/online")),
        wanted: 0,
        is: Some(1),
        why: None,
    };
    let sample = SampleError {
        rail: "VIN_SYS_5V0".into(),
        fault: SampleFault::Missing,
    };
    let knobs = [
        [8, 1_728_000, 918_000, 3_199_000],
        [6, 1_190_400, 612_000, 2_133_000],
    ];
    let [present, mode] = knobs.map(PowerMode::from_knobs);
    let would = Would {
        mode,
        power: Milliwatts(18_200),
        speed: Some(0.814),
        is_over: false,
    };
    let choice = observer::Choice {
        would,
        present: Some(present),
        measured: Some(Milliwatts(27_100)),
        allowed: Milliwatts(19_800),
    };
    let over = Would {
        is_over: true,
        speed: None,
        ..would
    };
    let summary = observer::Summary {
        time: Milliseconds(3_600_000),
        over: Milliseconds(312_000),
        times: 14,
        highest: Some(Milliwatts(27_100)),
        allowed: Milliwatts(19_800),
        over_pct: Some(81),
        within_pct: Some(112),
    };
    let events = [
        Event::NoReading(&sample),
        Event::WouldSet(choice),
        Event::WouldSet(observer::Choice {
            present: Some(mode),
            ..choice
        }),
        Event::WouldSet(observer::Choice {
            would: over,
            ..choice
        }),
        Event::Observed(summary),
        Event::Distrusted(distrusts[0]),
        Event::Disobeys(&knob),
        Event::Obeys(&knob.path),
        Event::NoSample(&sample),
        Event::SampleAgain,
        Event::Slept(Milliseconds(90_000)),
        Event::BackstopChanged,
        Event::Derated("too hot"),
        Event::CannotHold {
            measured: Placed(Milliwatts(21_500), None),
            limit: Placed(Milliwatts(20_000), None),
        },
        Event::CannotHold {
            measured: Placed(Milliwatts(21_500), Some(Place::Supply)),
            limit: Placed(Milliwatts(20_000), Some(Place::Supply)),
        },
        Event::HoldsAgain,
        Event::Lowered,
        Event::Capped,
        Event::NotCapped,
        Event::NotThrottled,
    ];
    let meter = Path::new("/sys/class/hwmon/hwmon9/power1_input");
    let [shown, module] = [36, 24_900].map(Milliwatts);
    let faults = [
        MeterFault::NoFile,
        MeterFault::NoNumber,
        MeterFault::Silent,
        MeterFault::NoPower,
        MeterFault::Absurd(Milliwatts(20_000_000)),
        MeterFault::Still,
        MeterFault::FarBelow { shown, module },
    ];
    let of_meter = faults.map(|fault| Event::NoMeter { path: meter, fault });
    let of_meter = of_meter.into_iter().chain([Event::MeterAgain(meter)]);
    let lines = client.into_iter();
    let lines = lines.chain(setup.iter().map(SetupError::to_string));
    let lines = lines.chain(of_files());
    let lines = lines.chain(iter::once(lock.to_string()));
    let lines = lines.chain(distrusts.iter().map(Distrust::to_string));
    let failures = [
        Failure::NoJetson,
        Failure::Distrusted {
            limit: Placed(Milliwatts(20_000), None),
            why: distrusts[1],
        },
        Failure::Disobeyed(vec![knob.clone()]),
    ];
    let lines = lines.chain(failures.iter().map(Failure::to_string));
    let lines = lines.chain(lessons.iter().map(NoLesson::to_string));
    let lines = lines.chain(unusable.iter().map(Unusable::to_string));
    let events = events.into_iter().chain(of_meter);
    let lines: Vec<String> = lines.chain(events.map(|it| it.to_string())).collect();
    let golden = Path::new(GOLDEN).join("messages-of-states.txt");
    transcript::settle(&golden, &format!("{}\n", lines.join("\n")));
}
