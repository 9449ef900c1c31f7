//! Recorded boards: a corpus is met in its modes, followed between them, and refused by name if it cannot be played back.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use wattgate_board_tables::Board;
use wattgate_judge::files::corpus;
use wattgate_simulated_board::pipeline::Clocks;
use wattgate_simulated_board::recording::corpus::Row;
use wattgate_simulated_board::recording::{Measured, RecordedBoard, record};
use wattgate_simulated_board::steady::Steady;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;

use crate::common::missing;

const HEADER: &str = "device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw";

/// Clocks of a TX2.
const CPU: [u32; 3] = [345_600, 1_113_600, 2_035_200];
const GPU: [u32; 4] = [114_750, 522_750, 930_750, 1_300_500];
const EMC: [u32; 2] = [408_000, 1_866_000];
const CORES: [u32; 3] = [2, 4, 6];

/// Time in ms and power in mW that no physics of ours has.
fn measured([cores, cpu, gpu, emc]: [u32; 4]) -> (f64, f64) {
    let [cores, cpu, gpu, emc] = [cores, cpu / 1_000, gpu / 1_000, emc / 1_000].map(f64::from);
    let ripple = 1.0 + 0.1 * (cores + cpu / 300.0 + gpu / 90.0).sin();
    let time_ms = ripple * (20.0 + 3e4 / cpu + 2e4 / gpu + 1e4 / emc);
    let power_mw = 800.0 + 150.0 * cores + 0.5 * cpu + 3.0 * gpu * ripple + 0.4 * emc;
    (time_ms, power_mw)
}

/// All modes of the clocks above.
fn grid() -> Vec<[u32; 4]> {
    let mut modes = Vec::new();
    for cores in CORES {
        for cpu in CPU {
            for gpu in GPU {
                modes.extend(EMC.map(|emc| [cores, cpu, gpu, emc]));
            }
        }
    }
    modes
}

/// The rows of some modes.
fn rows(modes: &[[u32; 4]]) -> String {
    let row = |mode: &[u32; 4]| {
        let (time_ms, power_mw) = measured(*mode);
        let [cores, cpu, gpu, emc] = mode;
        format!("tx2,work,{cores},{cpu},{gpu},{emc},{time_ms},{power_mw}\n")
    };
    modes.iter().map(row).collect()
}

/// A corpus in a folder of its own.
struct Written {
    _folder: TempDir,
    path: PathBuf,
}

impl Written {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("corpus.csv");
        fs::write(&path, text).expect("written");
        Self {
            _folder: folder,
            path,
        }
    }

    fn read(&self) -> RecordedBoard {
        read(&self.path)
    }

    /// Why the corpus is refused, without its path.
    fn refused(&self, board: Option<&str>, workload: Option<&str>) -> String {
        let refused = recorded(&self.path, board, workload);
        let why = refused.expect_err("a corpus that is refused");
        why.replace(self.path.to_str().expect("text"), "FILE")
    }
}

/// The recorded board of a file, or why there is none.
fn recorded(
    path: &Path,
    board: Option<&str>,
    workload: Option<&str>,
) -> Result<RecordedBoard, String> {
    let corpus = corpus::read(path, workload).map_err(|why| why.to_string())?;
    RecordedBoard::new(&corpus, board).map_err(|why| why.to_string())
}

fn read(path: &Path) -> RecordedBoard {
    recorded(path, None, None).unwrap_or_else(|why| panic!("{why}"))
}

fn whole() -> Written {
    Written::new(&format!("{HEADER}\n{}", rows(&grid())))
}

/// Time in ms and settled power in mW of a mode with the fan at full speed.
fn steady(recorded: &RecordedBoard, unit: &Unit, knobs: [u32; 4]) -> [f64; 2] {
    let RecordedBoard {
        board, workload, ..
    } = recorded;
    let clocks = Clocks::from_knobs(board, knobs);
    let steady = Steady::compute(board, unit, workload, &clocks);
    [1e3 * steady.step.period, 1e3 * steady.watts.total()]
}

/// The greatest errors of time and power in the rows of a corpus that has no repeats, in %.
fn worst(recorded: &RecordedBoard, path: &Path) -> [f64; 2] {
    let corpus = corpus::read(path, None).expect("a corpus");
    let mut worst = [0.0_f64; 2];
    for row in &corpus.rows {
        let axes = recorded.board.axes();
        let knobs = std::array::from_fn(|axis| match row.knobs[axis] {
            // The clock of the table that a rounded one means.
            Some(value) => *axes[axis]
                .iter()
                .min_by_key(|known| known.abs_diff(value))
                .expect("a table"),
            None => *axes[axis].last().expect("a table"),
        });
        let found = steady(recorded, &Unit::NOMINAL, knobs);
        for (worst, (found, measured)) in worst
            .iter_mut()
            .zip(found.into_iter().zip([row.time_ms, row.power_mw]))
        {
            *worst = worst.max(100.0 * (found / measured - 1.0).abs());
        }
    }
    worst
}

#[test]
fn a_recorded_board_has_the_measured_time_and_power_in_each_mode() {
    let written = whole();
    let recorded = written.read();
    assert_eq!(
        recorded.remarks,
        ["cores is 2 to 6: what other numbers do is simulated, and no mode has them"]
    );
    assert_eq!(recorded.workload.name, "work");
    assert_eq!(recorded.board.figures(), "recorded");
    assert_eq!(recorded.board.axes()[0], CORES);
    assert_eq!(recorded.board.cpu_khz, CPU);
    assert_eq!(recorded.board.gpu_khz, GPU);
    assert_eq!(recorded.board.emc_khz, EMC);
    let [time, power] = worst(&recorded, &written.path);
    assert!(time < 1e-6 && power < 0.1, "{time} {power}");
}

/// As a spreadsheet writes it, with another workload's rows between those of the wanted one.
#[test]
fn a_corpus_has_any_dialect_and_the_rows_of_one_workload_are_read() {
    let text = format!("\u{feff}{HEADER}\n{}", rows(&grid()));
    let text = text.replace("\n", "\r\n").replace(',', ";");
    let other = "tx2;other;;5;;;-;-\r\n# a comment\r\ntx2;work;";
    let written = Written::new(&text.replacen("tx2;work;", other, 1));
    let recorded = recorded(&written.path, None, Some("work")).expect("a corpus");
    let corpus = corpus::read(&written.path, Some("work")).expect("a corpus");
    assert_eq!(corpus.rows[0].line, 4);
    let [time, power] = worst(&recorded, &whole().path);
    assert!(time < 1e-6 && power < 0.1, "{time} {power}");
}

/// Another unit draws and takes as much more as on the simulated board.
#[test]
fn units_of_a_recorded_board_differ_as_simulated_ones_do() {
    let recorded = whole().read();
    let unit = Unit {
        module: 1.1,
        time: 1.05,
        ..Unit::NOMINAL
    };
    for knobs in [[2, CPU[0], GPU[0], EMC[0]], [6, CPU[2], GPU[3], EMC[1]]] {
        let (_, power_mw) = measured(knobs);
        let [_, found] = steady(&recorded, &unit, knobs);
        // It is warmer, too.
        assert!((1.1..1.16).contains(&(found / power_mw)), "{found}");
    }
}

#[test]
fn a_living_board_settles_at_the_measured_power_and_pace() {
    const SETTLED_S: u64 = 2_000;
    let RecordedBoard {
        board, workload, ..
    } = whole().read();
    for knobs in [[4, CPU[1], GPU[2], EMC[1]], [2, CPU[0], GPU[0], EMC[0]]] {
        let mut tree = Tree::new(board.clone(), Unit::NOMINAL, 1, Some(0)).expect("a mode");
        let jetson = tree.jetson_mut();
        jetson.set_workload(Some(workload.clone()));
        jetson.request(|settings| {
            settings.pin(&board, knobs);
            settings.fan_pwm = Some(255);
        });
        let mut done_after = |seconds: u64| {
            tree.advance(Duration::from_secs(seconds));
            [tree.jetson().calm_energy_j(), tree.jetson().minibatches()]
        };
        let [before, after] = [SETTLED_S, 2 * SETTLED_S].map(&mut done_after);
        let [joules, minibatches] = [0, 1].map(|at| after[at] - before[at]);
        let seconds = SETTLED_S as f64;
        let (time_ms, power_mw) = measured(knobs);
        let found = [1e3 * seconds / minibatches, 1e3 * joules / seconds];
        assert!((found[0] / time_ms - 1.0).abs() < 1e-3, "{found:?}");
        assert!(
            (found[1] / power_mw - 1.0).abs() < 1e-3,
            "{found:?} {power_mw}"
        );
    }
}

/// Without the workload the board is the simulated one.
#[test]
fn the_idle_board_is_simulated() {
    let RecordedBoard { board, .. } = whole().read();
    let plain = Board {
        recorded_cores: Vec::new(),
        ..board.clone()
    };
    let energy = |board: Board| {
        let mut tree = Tree::new(board, Unit::NOMINAL, 1, None).expect("a mode");
        tree.advance(Duration::from_secs(10));
        tree.jetson().energy_j()
    };
    assert_eq!(energy(board), energy(plain));
}

#[test]
fn the_files_say_that_the_board_is_recorded_and_it_runs_its_workload_alone() {
    let RecordedBoard {
        board, workload, ..
    } = whole().read();
    let mut tree = Tree::new(board, Unit::NOMINAL, 1, None).expect("a mode");
    tree.play_back(workload);
    let release = tree.read("/etc/nv_tegra_release").expect("there");
    let conf = tree.read("/etc/nvpmodel.conf").expect("there");
    for text in [release, conf] {
        assert!(
            text.contains("recorded") && !text.contains("simulated"),
            "{text}"
        );
    }
    tree.control("load work").expect("the recorded workload");
    let refused = tree.control("load resnet18").expect_err("not recorded");
    assert_eq!(
        refused.to_string(),
        "`resnet18` was not recorded; this board plays back `work` alone"
    );
    let refused = tree.control("load work minibatch 4").expect_err("another");
    assert!(
        refused.to_string().contains("are those of the recording"),
        "{refused}"
    );
}

/// On lines through the grid with holes: no step of the ratio is greater than the way allows, and none leaves the range of
/// the measured modes.
#[test]
fn between_measured_modes_the_ratio_is_continuous_and_within_their_range() {
    const STEPS: usize = 4_000;
    let modes: Vec<[u32; 4]> = grid().into_iter().step_by(3).collect();
    let recorded = Written::new(&format!("{HEADER}\n{}", rows(&modes))).read();
    let recording = recorded.workload.recording.as_ref().expect("a recording");
    let logs = |clocks: &Clocks| {
        let ratio = recording.ratio(clocks.knobs());
        [ratio.time.ln(), ratio.power_log]
    };
    let of_modes: Vec<[f64; 2]> = modes
        .iter()
        .map(|knobs| logs(&Clocks::from_knobs(&recorded.board, *knobs)))
        .collect();
    let ends = [0, 1].map(|at| {
        let values = of_modes.iter().map(|logs| logs[at]);
        let least = values.clone().fold(f64::INFINITY, f64::min);
        (least, values.fold(f64::NEG_INFINITY, f64::max))
    });
    for (from, to) in modes.iter().zip(modes.iter().skip(7)) {
        let [from, to] = [from, to].map(|knobs| Clocks::from_knobs(&recorded.board, *knobs));
        let mut before = logs(&from);
        for step in 1..=STEPS {
            let way = step as f64 / STEPS as f64;
            let between = |from: f64, to: f64| from * (to / from).powf(way);
            let clocks = Clocks {
                cores: between(from.cores, to.cores),
                cpu_ghz: between(from.cpu_ghz, to.cpu_ghz),
                gpu_ghz: between(from.gpu_ghz, to.gpu_ghz),
                emc_ghz: between(from.emc_ghz, to.emc_ghz),
                ..from
            };
            let logs = logs(&clocks);
            for at in 0..2 {
                let (least, most) = ends[at];
                assert!((least - 1e-9..=most + 1e-9).contains(&logs[at]));
                let jump = (logs[at] - before[at]).abs();
                assert!(jump < 0.01 * (most - least), "{jump} at {way} {clocks:?}");
            }
            before = logs;
        }
        let there = of_modes[modes
            .iter()
            .position(|it| Clocks::from_knobs(&recorded.board, *it) == to)
            .expect("a mode")];
        assert!((before[0] - there[0]).abs() < 1e-6 && (before[1] - there[1]).abs() < 1e-6);
    }
}

#[test]
fn a_blank_knob_has_its_highest_value_and_constant_ones_are_told() {
    let row = |(at, gpu): (usize, &u32)| {
        format!(
            "orin-agx-64-jp6,yolo,,1190400,{gpu},,{},{}\n",
            90 - at,
            9_000 + at
        )
    };
    let gpu = [
        306_000, 408_000, 510_000, 612_000, 714_000, 816_000, 918_000, 1_020_000,
    ];
    let text: String = gpu.iter().enumerate().map(row).collect();
    let written = Written::new(&format!("{HEADER}\n{text}"));
    let recorded = written.read();
    assert_eq!(recorded.board.emc_khz, [3_199_000]);
    assert_eq!(recorded.board.cpu_khz, [1_190_400]);
    assert_eq!(
        recorded.remarks,
        [
            "cores is blank: 12 is assumed; write it into each row before you fit a model",
            "cpu_khz is 1190400 in every row: the board has no other",
            "emc_khz is blank: 3199000 is assumed; write it into each row before you fit a model",
        ]
    );
    let [time, power] = worst(&recorded, &written.path);
    assert!(time < 1e-6 && power < 0.1, "{time} {power}");
    // JetPack 5 has another table of the GPU.
    let remarks = Written::new(&format!("{HEADER}\n{}", text.replace("-jp6", "")))
        .read()
        .remarks;
    assert!(
        remarks[2].ends_with(
            "1020000, which the table of orin-agx-64 lacks: the recorded board has them; --board orin-agx-64-jp6 has \
             them in its table"
        ),
        "{remarks:?}"
    );
}

#[test]
fn clocks_that_the_table_lacks_are_the_boards_own_and_rounded_ones_the_tables() {
    let text = rows(&grid())
        .replace("930750", "828750")
        .replace("1866000", "1867000");
    let recorded = Written::new(&format!("{HEADER}\n{text}")).read();
    assert_eq!(
        recorded.board.gpu_khz,
        [114_750, 522_750, 828_750, 1_300_500]
    );
    assert_eq!(recorded.board.emc_khz, [408_000, 1_866_000]);
    let strange = "gpu_khz has 828750, which the table of tx2 lacks: the recorded board has them";
    assert!(
        recorded.remarks.iter().any(|it| it == strange),
        "{:?}",
        recorded.remarks
    );
}

#[test]
fn holes_repeats_and_missing_powers_are_told() {
    let mut text = rows(&grid()[..20]);
    // Repeats of the first mode, whose median is played back, and a row without a power.
    let [cores, cpu, gpu, emc] = grid()[0];
    let (time_ms, power_mw) = measured(grid()[0]);
    for factor in [2.0, 0.5] {
        let (time_ms, power_mw) = (factor * time_ms, 1.1 * power_mw);
        text += &format!("tx2,work,{cores},{cpu},{gpu},{emc},{time_ms},{power_mw}\n");
    }
    text += &format!("tx2,work,{cores},{cpu},{gpu},{emc},{time_ms},\n");
    let recorded = Written::new(&format!("{HEADER}\n{text}")).read();
    let [time, power] = steady(&recorded, &Unit::NOMINAL, grid()[0]);
    assert!((time / time_ms - 1.0).abs() < 1e-9, "{time}");
    assert!((power / (1.1 * power_mw) - 1.0).abs() < 1e-3, "{power}");
    let remarks = recorded.remarks.join("\n");
    for expected in [
        "rows without a time or a power are left out: 1",
        "modes whose repeats differ by more than 1.5 times: 1, the most in lines 23 and 22, where time_ms is ",
        "; their medians are played back",
        "20 of the 24 modes of its grid are measured: the others are interpolated",
    ] {
        assert!(remarks.contains(expected), "{expected}\n{remarks}");
    }
}

#[test]
fn times_that_look_like_seconds_are_told() {
    let row = |mode: &[u32; 4]| {
        let (time_ms, power_mw) = measured(*mode);
        let [cores, cpu, gpu, emc] = mode;
        format!(
            "tx2,work,{cores},{cpu},{gpu},{emc},{},{power_mw}\n",
            time_ms / 1e3
        )
    };
    let text: String = grid().iter().map(row).collect();
    let recorded = Written::new(&format!("{HEADER}\n{text}")).read();
    assert!(
        recorded.remarks[0].contains("are these seconds?"),
        "{:?}",
        recorded.remarks
    );
}

#[test]
fn what_cannot_be_played_back_is_refused_by_name() {
    let all = rows(&grid());
    let with =
        |change: &dyn Fn(String) -> String| Written::new(&change(format!("{HEADER}\n{all}")));
    let (first, _) = all.split_once('\n').expect("a row");
    let changed = |column: usize, value: &str| {
        let mut cells: Vec<&str> = first.split(',').collect();
        cells[column] = value;
        let line = cells.join(",");
        with(&|text| text.replacen(first, &line, 1)).refused(None, None)
    };
    for (found, expected) in [
        (
            changed(7, "5.5"),
            "FILE: line 2: column `power_mw`: expected a power in mW from 100 to below 1000000 (1 kW), or a blank, found \
             `5.5`; if the column is in W, multiply it by 1000",
        ),
        (
            changed(6, "-3"),
            "FILE: line 2: column `time_ms`: expected a time in ms above zero and below 4294967 (71 minutes), or a blank, \
             found `-3`",
        ),
        (
            changed(3, "345.6"),
            "FILE: line 2: column `cpu_khz`: expected a frequency in kHz from 10000 to 10000000, found `345.6`; if the \
             column is in MHz, multiply it by 1000",
        ),
        (
            changed(0, ""),
            "FILE: line 2: column `device`: expected a name of 1 to 64 characters, found ``",
        ),
        (
            changed(2, "9"),
            "line 2: column `cores`: expected 1 … 6, the cores of `tx2`, found `9`",
        ),
        (
            changed(4, ""),
            "FILE: line 3: column `gpu_khz`: blank in some rows; a knob that is constant or not shown may be blank, but \
             then in every row",
        ),
        (
            changed(0, "tx1"),
            "FILE: line 3: column `device`: expected `tx1` as in the rows before, found `tx2`: one file holds one \
             workload on one board; write a file for each",
        ),
        (
            changed(1, "other"),
            "FILE: the file has the workloads other, work; name one with --workload beside --truth, or write a file for \
             each",
        ),
        (
            with(&|text| text.replace("power_mw", "power_w")).refused(None, None),
            "FILE: line 1: column `power_mw`: missing; the header has `power_w`: multiply it by 1000 and rename it \
             `power_mw`",
        ),
        (
            with(&|text| text.replace("tx2,", "jetson,")).refused(None, None),
            "`jetson` in `device` is no board that is known; name the board with --board",
        ),
        (
            whole().refused(Some("orin-agx-64"), None),
            "the corpus is of `tx2`, which has another chip than `orin-agx-64`; leave --board out",
        ),
        (
            whole().refused(None, Some("bert")),
            "FILE: no row of the workload `bert`; the file has work",
        ),
        (
            Written::new(&format!("{HEADER}\n{}", rows(&grid()[..7]))).refused(None, None),
            "modes with a time and a power: 7, expected at least 8; measure more of the grid",
        ),
        (
            Written::new(&format!("{HEADER},kind\n{first},simulated\n")).refused(None, None),
            "FILE: line 2: column `kind`: expected `measured`, which is what a real board did, found `simulated`",
        ),
        (
            Written::new(&format!("{HEADER}\ntx2,work,2,345600,114750,408000,90,\n"))
                .refused(None, None),
            "FILE: no row has both a time and a power, expected `time_ms` and `power_mw` in each; take a corpus with both",
        ),
        (
            Written::new(&format!("{HEADER}\n")).refused(None, None),
            "FILE: no rows after the header",
        ),
    ] {
        assert_eq!(found, expected);
    }
    let nano = with(&|text| text.replace("tx2,", "nano,")).refused(None, None);
    assert!(
        nano.starts_with("`nano` cannot be played back: nothing is known of its rails"),
        "{nano}"
    );
    assert!(nano.ends_with("xavier-agx, xavier-nx, tx2, tx1"), "{nano}");
    let unknown = whole().refused(Some("pi"), None);
    assert!(unknown.starts_with("unknown board `pi`"), "{unknown}");
}

/// No table and no physics of the TX1 are known; its corpus has its clocks, and corrects the TX2's physics.
#[test]
fn the_tx1_is_recorded_though_it_cannot_be_simulated() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../trainer/corpora/tx1-image5000.csv");
    let recorded = read(&path);
    assert_eq!(
        recorded.remarks,
        ["736 of the 2720 modes of its grid are measured: the others are interpolated"]
    );
    assert_eq!(recorded.board.all_modes().len(), 2_720);
    let [time, power] = worst(&recorded, &path);
    assert!(time < 1e-6 && power < 0.1, "{time} {power}");
    Board::named("tx1").expect_err("it cannot be simulated");
}

fn shared(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../../shared/data")
        .join(name)
}

/// A recording of every second row, in the others: median errors of time and power in %.
fn left_out(recorded: &RecordedBoard, path: &Path) -> [f64; 2] {
    let corpus = corpus::read(path, None).expect("a corpus");
    let mut physics = recorded.workload.clone();
    physics.recording = None;
    let measured = |row: &Row| {
        let axes = recorded.board.axes();
        let knobs = std::array::from_fn(|axis| {
            let value = row.knobs[axis].unwrap_or(u32::MAX);
            let near = axes[axis].iter().min_by_key(|known| known.abs_diff(value));
            *near.expect("a table")
        });
        Measured {
            knobs,
            seconds: row.time_ms / 1e3,
            watts: row.power_mw / 1e3,
        }
    };
    // By a hash, so that no knob alternates.
    let is_kept = |mode: &&Measured| {
        let mixed = mode.knobs.iter().fold(7_u64, |mixed, knob| {
            (mixed ^ u64::from(*knob)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        (mixed >> 20).is_multiple_of(2)
    };
    let all: Vec<Measured> = corpus.rows.iter().map(measured).collect();
    let kept: Vec<Measured> = all.iter().filter(is_kept).copied().collect();
    let recording = record(&recorded.board, &physics, &kept);
    let half = RecordedBoard {
        workload: wattgate_simulated_board::workload::Workload {
            recording: Some(std::sync::Arc::new(recording)),
            ..physics
        },
        ..recorded.clone()
    };
    let mut errors = [Vec::new(), Vec::new()];
    for mode in all.iter().filter(|mode| !is_kept(mode)) {
        let found = steady(&half, &Unit::NOMINAL, mode.knobs);
        errors[0].push(100.0 * (found[0] / (1e3 * mode.seconds) - 1.0).abs());
        errors[1].push(100.0 * (found[1] / (1e3 * mode.watts) - 1.0).abs());
    }
    errors.map(|mut errors| {
        errors.sort_by(f64::total_cmp);
        errors[errors.len() / 2]
    })
}

/// Full sweeps of real boards are met in each mode. Half of their modes tell the other half well enough to fill holes.
#[test]
fn sweeps_of_real_boards_are_met() {
    for (name, most) in [
        ("xavier-agx__train-vit-cifar10-mb32__bofl.csv", [0.5, 1.5]),
        (
            "xavier-agx__train-resnet50-imagenet-mb8__bofl.csv",
            [0.5, 1.5],
        ),
        ("tx2__train-vit-cifar10-mb32__bofl.csv", [1.5, 3.0]),
        (
            "orin-agx__infer-yolov8-640__distributed-learning.csv",
            [2.0, 2.0],
        ),
    ] {
        let path = shared(name);
        if missing(&path) {
            return;
        }
        let recorded = read(&path);
        let [time, power] = worst(&recorded, &path);
        assert!(time < 1e-6 && power < 0.1, "{name}: {time} {power}");
        let errors = left_out(&recorded, &path);
        println!("{name}: time {:.2} %, power {:.2} %", errors[0], errors[1]);
        assert!(
            errors[0] < most[0] && errors[1] < most[1],
            "{name}: {errors:?}"
        );
    }
}

/// Every corpus of a board that we know is played back, or refused by name.
#[test]
fn all_measured_corpora_are_read() {
    for name in [
        "orin-agx__llm-decode-mb1__energyllm.csv",
        "tx1__image5000__translucence.csv",
        "tx2__image5000__translucence.csv",
        "tx2__xception-200x200__flexibo.csv",
        "xavier-agx__infer-triton-c1__loudva.csv",
        "xavier-nx__infer-triton-c1__loudva.csv",
    ] {
        let path = shared(name);
        if missing(&path) {
            return;
        }
        match recorded(&path, None, None) {
            Ok(recorded) => println!("{name}: {:#?}", recorded.remarks),
            Err(why) => {
                assert!(name.contains("flexibo"), "{why}");
                assert!(why.contains("no row has both a time and a power"), "{why}");
            }
        }
    }
}
