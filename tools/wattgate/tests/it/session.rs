//! Sessions on simulated boards in simulated time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use wattgate_board::Files;
use wattgate_cli::planning::idle_modes;
use wattgate_profiler::ladder::Ladder;
use wattgate_profiler::planner::{Background, Fitted, List, Planner, PlannerError};
use wattgate_profiler::row::{CorpusFile, Feeding, Mark, Origin, Row};
use wattgate_profiler::session::{Session, SessionError, Task};
use wattgate_profiler::window::{Count, Rules};
use wattgate_profiler::world::{Event, Exit, World};
use wattgate_runtime::format::Kind;
use wattgate_runtime::{Milliwatts, PowerMode};
use wattgate_simulated_board::recording::{RecordedBoard, corpus};
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_watchdog::steps::Told;

use crate::bed::{Meter, inject};
use crate::board::{Simulated, booted, discover, highest, lowest, middle};

/// A simulated board whose workload counts its minibatches.
pub struct Bench {
    pub files: Simulated,
    counted: u64,
    /// What goes wrong while the GPU has this clock in kHz.
    trouble: Option<(u32, Trouble)>,
    /// Samples in a step, as the workload reports them.
    items: Option<u32>,
    /// How the workload is fed, as the user states it.
    stated: Feeding,
    /// A limit in W, and the time in s over it.
    limit_w: f64,
    over_s: f64,
    /// Time in s, minibatches and energy in J.
    trace: Vec<(f64, f64, f64)>,
    /// Compares the true power with a limit, if it is asked to.
    pub meter: Option<Meter>,
    /// The modes in which the idle board is measured, before this workload starts.
    idle: Option<(Vec<PowerMode>, Workload)>,
    /// Whether modes are measured with capped clocks, too.
    caps: bool,
    /// What goes wrong once the board was discovered, as commands to the simulated board.
    pub faults: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    /// No step in any mode.
    Mute,
    Silence,
    Backwards,
    End,
    Stop,
    NoSensor,
}

impl Bench {
    pub fn new(board: &str, workload: &str) -> Self {
        let mut files = booted(board);
        let workload = Workload::named(workload).expect("a shipped workload");
        files.tree.jetson_mut().set_workload(Some(workload));
        Self::from_files(files)
    }

    /// A board that runs its workload.
    pub fn from_files(files: Simulated) -> Self {
        Self {
            files,
            counted: 0,
            trouble: None,
            items: None,
            stated: Feeding::default(),
            limit_w: f64::INFINITY,
            over_s: 0.0,
            trace: Vec::new(),
            meter: None,
            idle: None,
            caps: false,
            faults: Vec::new(),
        }
    }

    fn has(&self, trouble: Trouble) -> bool {
        let gpu_khz = self.files.tree.jetson().gpu_requested_khz();
        self.trouble == Some((gpu_khz, trouble))
    }
}

impl World for Bench {
    type Files = Simulated;

    fn files(&mut self) -> &mut Simulated {
        &mut self.files
    }

    fn now(&self) -> Duration {
        self.files.tree.jetson().now()
    }

    fn wait(&mut self, until: Duration) -> Event {
        loop {
            if self.has(Trouble::End) {
                return Event::Ended(Exit::Code(1));
            }
            if self.has(Trouble::Stop) {
                return Event::Stop;
            }
            if self.has(Trouble::NoSensor) {
                self.files.absent = vec!["/sys/class/hwmon".to_owned(), "/sys/bus/i2c".to_owned()];
            }
            let minibatches = self.files.tree.jetson().minibatches() as u64;
            let is_mute = matches!(self.trouble, Some((_, Trouble::Mute)));
            if minibatches > self.counted && !is_mute && !self.has(Trouble::Silence) {
                self.counted = minibatches;
                let steps = match self.has(Trouble::Backwards) {
                    true => 0,
                    false => minibatches,
                };
                let at = self.now();
                return Event::Count(Count {
                    at,
                    steps,
                    told: Told {
                        items: self.items,
                        ..Told::default()
                    },
                });
            }
            if self.now() >= until {
                return Event::Time;
            }
            let before = self.files.tree.jetson().energy_j();
            self.files.wait(Duration::from_millis(2));
            let jetson = self.files.tree.jetson();
            let (seconds, joules) = (jetson.now().as_secs_f64(), jetson.energy_j());
            self.trace.push((seconds, jetson.minibatches(), joules));
            if let Some(meter) = &mut self.meter {
                meter.note(&self.files);
            }
            let watts = (joules - before) / 0.002;
            if watts > self.limit_w {
                self.over_s += 0.002;
            }
        }
    }
}

/// A session's folder, and how it ended.
pub struct Done {
    pub bench: Bench,
    pub rows: Vec<Row>,
    pub result: Result<(), SessionError>,
    folder: TempDir,
}

impl Done {
    fn path(&self) -> PathBuf {
        self.folder.path().join("corpus.csv")
    }
}

fn corpus(path: &Path, tpc_pg_mask: Option<u32>) -> CorpusFile {
    let origin = Origin {
        device: "board",
        workload: Some("work"),
        tpc_pg_mask,
        unit: None,
    };
    CorpusFile::open(path, &origin).expect("a corpus")
}

pub fn profile(bench: Bench, least: PowerMode, modes: &[PowerMode], limit_w: Option<u32>) -> Done {
    let folder = tempfile::tempdir().expect("a folder");
    profile_with(List(modes.to_vec().into()), bench, least, limit_w, folder)
}

fn profile_with<P: Planner + Send + 'static>(
    planner: P,
    mut bench: Bench,
    least: PowerMode,
    limit_w: Option<u32>,
    folder: TempDir,
) -> Done {
    let mut board = discover(&bench.files);
    inject(&mut bench.files, &bench.faults);
    let mut corpus = corpus(&folder.path().join("corpus.csv"), board.tpc_pg_mask());
    let task = Task {
        kind: Kind::Simulated,
        unit: None,
        device: "board".to_owned(),
        workload: "work".to_owned(),
        feeding: bench.stated.clone(),
        limit: limit_w.map(|watts| Milliwatts(1_000 * watts)),
        margin: Milliwatts(0),
        rules: Rules::default(),
        caps: bench.caps,
    };
    bench.limit_w = limit_w.map_or(f64::INFINITY, f64::from);
    let ladder = Ladder {
        lowest: least,
        start: Vec::new(),
    };
    let planner = Background::start(planner);
    let session = Session::begin(&mut bench, &mut board, ladder, task);
    let result = session.and_then(|mut it| {
        it.ready(&planner)?;
        if let Some((modes, workload)) = it.world().idle.take() {
            it.measure_idle(&modes)?;
            it.world()
                .files
                .tree
                .jetson_mut()
                .set_workload(Some(workload));
        }
        it.run(&planner, &mut corpus, &mut |_, _| {})
    });
    let rows = corpus.rows;
    Done {
        bench,
        rows,
        result,
        folder,
    }
}

/// True time of a minibatch in ms and power in mW in the window of a row.
pub fn truth(bench: &Bench, row: &Row) -> [f64; 2] {
    let begin = row.end_s - row.window_ms / 1e3;
    let [from, to] = [begin, row.end_s].map(|time| {
        let at = bench.trace.partition_point(|(then, ..)| *then < time);
        bench.trace[at]
    });
    let seconds = to.0 - from.0;
    [
        1e3 * seconds / (to.1 - from.1),
        1e3 * (to.2 - from.2) / seconds,
    ]
}

#[test]
fn rows_differ_from_the_truth_by_one_percent_in_the_median() {
    let mut errors = Vec::new();
    for (name, workload) in [
        ("orin-agx-64", "mobilenetv3"),
        ("orin-agx-64", "resnet18"),
        ("orin-nano-8-super", "yolov8n"),
        ("xavier-agx", "resnet18"),
    ] {
        let modes = [highest(name), middle(name), lowest(name)];
        let bench = Bench::new(name, workload);
        let done = profile(bench, lowest(name), &modes, None);
        done.result.expect("all are measured");
        assert_eq!(done.rows.len(), modes.len());
        // The over-current protection of the Orin Nano throttles its highest mode.
        let is_throttled = |row: &&Row| row.mark == Some(Mark::Throttled);
        let throttled = done.rows.iter().filter(is_throttled).count();
        assert_eq!(throttled > 0, name == "orin-nano-8-super");
        for row in done.rows.iter().filter(|row| row.mark.is_none()) {
            let truth = truth(&done.bench, row);
            let found = [row.time_ms, row.power_mw]
                .map(|it| it.unwrap_or_else(|| panic!("{name} {row:?}")));
            let longest = 1e3 * Rules::default().longest.as_secs_f64();
            let half_step = row.window_ms / (2.0 * row.steps as f64);
            assert!(row.steps >= 20 || row.steps >= 2 && row.window_ms + half_step >= longest);
            assert!(
                row.steps == 2 || row.window_ms - half_step <= longest,
                "{row:?}"
            );
            for (found, truth) in found.into_iter().zip(truth) {
                errors.push(100.0 * (found / truth - 1.0).abs());
            }
        }
    }
    errors.sort_by(f64::total_cmp);
    let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
    println!("errors: median {median:.2} %, worst {worst:.2} %");
    assert!(median <= 1.0 && worst <= 3.0, "{errors:.2?}");
}

/// Steps and powers of a real board, played back: a session measures what the corpus has.
#[test]
fn a_recorded_board_is_measured_as_its_corpus_says() {
    let (mut rows, mut measured) = (Vec::new(), Vec::new());
    for (at, cpu) in [345_600, 2_035_200].into_iter().enumerate() {
        for (gpu, ms, mw) in [(114_750, 310.0, 3_100.0), (1_300_500, 70.0, 9_400.0)] {
            for emc in [408_000, 1_866_000] {
                let (time, power) = (ms - 30.0 * at as f64, mw + 900.0 * at as f64);
                let knobs = [6, cpu, gpu, emc];
                rows.push(corpus::Row {
                    line: 0,
                    knobs: knobs.map(Some),
                    time_ms: time,
                    power_mw: power,
                });
                measured.push((PowerMode::from_knobs(knobs), [time, power]));
            }
        }
    }
    let corpus = corpus::Corpus {
        device: "tx2".to_owned(),
        workload: "job".to_owned(),
        minibatch: None,
        rows,
        left_out: 0,
    };
    let recorded = RecordedBoard::new(&corpus, None).expect("a recorded board");
    let tree = Tree::new(recorded.board, Unit::NOMINAL, 0, None).expect("a tree");
    let mut files = Simulated::new(tree);
    let jetson = files.tree.jetson_mut();
    jetson.set_workload(Some(recorded.workload));
    let modes: Vec<PowerMode> = measured.iter().map(|(mode, _)| *mode).collect();
    let done = profile(Bench::from_files(files), modes[0], &modes, None);
    done.result.expect("all are measured");
    assert_eq!(done.rows.len(), modes.len());
    for (row, (_, [time, power])) in done.rows.iter().zip(measured) {
        let found = [row.time_ms, row.power_mw].map(|it| it.expect("a figure"));
        assert!((found[0] / time - 1.0).abs() < 0.02, "{row:?} {time}");
        // The board is still colder, or with its automatic fan warmer, than it was recorded.
        assert!((found[1] / power - 1.0).abs() < 0.05, "{row:?} {power}");
    }
}

#[test]
fn a_mode_over_the_limit_is_left_at_once_and_has_no_measurement() {
    let name = "orin-agx-64";
    let bench = Bench::new(name, "resnet18");
    let modes = [highest(name), middle(name)];
    let done = profile(bench, lowest(name), &modes, Some(30));
    done.result.expect("the other mode is measured");
    let [high, middle] = &done.rows[..] else {
        panic!("{:?}", done.rows)
    };
    assert_eq!((high.mark, high.time_ms), (Some(Mark::OverLimit), None));
    assert!(high.peak_mw > 30_000.0, "{}", high.peak_mw);
    assert!(middle.mark.is_none() && middle.power_mw.is_some_and(|power| power < 30_000.0));
    let over_s = done.bench.over_s;
    assert!((0.05..0.4).contains(&over_s), "{over_s} s over the limit");
}

#[test]
fn a_limit_below_the_lowest_mode_ends_the_session() {
    let name = "orin-agx-64";
    let least = lowest(name);
    let done = profile(Bench::new(name, "resnet18"), least, &[least], Some(5));
    let error = done.result.expect_err("too low").to_string();
    assert!(
        error.contains("no mode is within the limit of 5 W"),
        "{error}"
    );
    // The first step would take longer than it takes to know.
    assert!(done.rows.is_empty());
}

#[test]
fn what_goes_wrong_in_the_middle_is_named_and_keeps_the_rows() {
    let name = "orin-agx-64";
    let modes = [middle(name), highest(name), lowest(name)];
    for (trouble, expected) in [
        (
            Trouble::Backwards,
            "the count of steps went backwards, from ",
        ),
        (Trouble::End, "the workload has ended with exit code 1"),
        (Trouble::Stop, "stopped"),
        (Trouble::NoSensor, "the power sensor has failed: "),
    ] {
        let mut bench = Bench::new(name, "lenet");
        bench.trouble = Some((modes[1].gpu.0, trouble));
        let done = profile(bench, lowest(name), &modes, None);
        let error = done.result.as_ref().expect_err("trouble").to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(done.rows.len(), 1, "{expected}");
        assert_eq!(corpus(&done.path(), Some(240)).rows, done.rows);
    }
}

#[test]
fn a_mode_without_a_step_is_left_and_two_of_them_end_the_session() {
    let name = "orin-agx-64";
    let fewer_cores = PowerMode {
        cores: 4,
        ..highest(name)
    };
    let [high, mid, low] = [highest(name), middle(name), lowest(name)];
    let profile = |trouble: Trouble, modes: &[PowerMode]| {
        let mut bench = Bench::new(name, "lenet");
        bench.trouble = Some((high.gpu.0, trouble));
        let done = profile(bench, low, modes, None);
        let marks: Vec<Option<Mark>> = done.rows.iter().map(|row| row.mark).collect();
        (done.result.map_err(|error| error.to_string()), marks)
    };
    let stalled = Some(Mark::Stalled);
    let (result, marks) = profile(Trouble::Silence, &[mid, high, low, fewer_cores]);
    assert_eq!(
        (result, &marks[..]),
        (Ok(()), &[None, stalled, None, stalled][..])
    );
    let (result, marks) = profile(Trouble::Silence, &[mid, high, fewer_cores, low]);
    assert!(result.is_err_and(|error| error.contains("no step for 60 s")));
    assert_eq!(marks, [None, stalled]);
    // Without any step before, the workload does not count its steps.
    let (result, marks) = profile(Trouble::Mute, &[high, mid]);
    assert!(result.is_err() && marks.is_empty());
}

#[test]
fn a_second_session_measures_what_the_first_one_did_not() {
    let name = "orin-agx-64";
    let modes = [middle(name), highest(name), lowest(name)];
    let first = profile(Bench::new(name, "lenet"), lowest(name), &modes[..2], None);
    let planner = List(modes.to_vec().into());
    let bench = Bench::new(name, "lenet");
    let second = profile_with(planner, bench, lowest(name), None, first.folder);
    second.result.expect("the rest is measured");
    let measured: Vec<PowerMode> = second.rows.iter().map(Row::mode).collect();
    assert_eq!(measured, modes);
    assert_eq!(second.rows[..2], first.rows);
}

/// A planner whose machine is gone.
struct Silent;

impl Planner for Silent {
    fn ask(&mut self, _: Option<PowerMode>) -> Result<Option<PowerMode>, PlannerError> {
        loop {
            std::thread::park();
        }
    }

    fn tell(&mut self, _: PowerMode, _: f64, _: f64) -> Result<(), PlannerError> {
        Ok(())
    }

    fn exclude(&mut self, _: PowerMode, _: Option<f64>) -> Result<(), PlannerError> {
        Ok(())
    }

    fn fit(&mut self) -> Result<Fitted, PlannerError> {
        Err(PlannerError::CannotFit)
    }
}

#[test]
fn a_session_ends_although_its_planner_does_not_answer() {
    let name = "orin-agx-64";
    let least = lowest(name);
    for (trouble, expected) in [
        (Trouble::Stop, "stopped"),
        (Trouble::NoSensor, "the power sensor has failed: "),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bench = Bench::new(name, "lenet");
        bench.trouble = Some((least.gpu.0, trouble));
        let done = profile_with(Silent, bench, least, Some(30), folder);
        let error = done.result.expect_err("trouble").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_row_counts_as_done_for_the_same_feeding_only() {
    let name = "orin-nano-8-super";
    let modes = [lowest(name), highest(name)];
    let fed = |items, workers| {
        let mut bench = Bench::new(name, "lenet");
        bench.items = items;
        bench.stated.workers = workers;
        bench
    };
    let mut folder = tempfile::tempdir().expect("a folder");
    let mut rows = Vec::new();
    for (items, workers, total) in [
        (Some(16), Some(2), 2),
        (Some(16), Some(2), 2),
        (Some(32), Some(2), 4),
        (Some(16), Some(4), 6),
        (None, None, 8),
        (Some(16), Some(4), 8),
    ] {
        let planner = List(modes.to_vec().into());
        let done = profile_with(planner, fed(items, workers), lowest(name), None, folder);
        done.result.expect("measured");
        (rows, folder) = (done.rows, done.folder);
        assert_eq!(rows.len(), total, "{items:?} {workers:?}");
        if let Some(last) = rows.last().filter(|_| total != 8) {
            assert_eq!((last.minibatch, last.workers), (items, workers));
        }
    }
    assert_eq!(rows[7].feeding(), Feeding::default());
}

#[test]
fn a_workload_that_tells_another_minibatch_than_the_user_ends_the_session() {
    let name = "orin-nano-8-super";
    let mut bench = Bench::new(name, "lenet");
    bench.items = Some(16);
    bench.stated.minibatch = Some(32);
    let done = profile(bench, lowest(name), &[highest(name)], None);
    let error = done.result.expect_err("another size").to_string();
    assert_eq!(
        error,
        "the workload reports 16 samples in a step, but --minibatch is 32; leave --minibatch out"
    );
    assert!(done.rows.is_empty());
}

/// A board whose workload starts after its idle power was measured.
fn idle_bench(name: &str, workload: &str) -> Bench {
    let mut bench = Bench::from_files(booted(name));
    bench.files.tree.jetson_mut().follow_load();
    let jetson = bench.files.tree.jetson();
    let axes = jetson.board().axes();
    let modes = idle_modes(axes.each_ref().map(|axis| &axis[..]));
    let modes = modes.map(PowerMode::from_knobs).to_vec();
    let workload = Workload::named(workload).expect("a shipped workload");
    bench.idle = Some((modes, workload));
    bench
}

#[test]
fn the_idle_board_is_measured_before_the_workload_starts() {
    for name in ["orin-agx-64", "orin-nano-8-super", "xavier-agx"] {
        let mut bench = idle_bench(name, "lenet");
        bench.caps = true;
        let done = profile(bench, lowest(name), &[highest(name), middle(name)], None);
        done.result.expect("all are measured");
        let (idle, busy): (Vec<&Row>, _) = done
            .rows
            .iter()
            .partition(|row| row.mark == Some(Mark::Idle));
        assert_eq!((idle.len(), busy.len()), (5, 2), "{name}");
        for row in idle {
            let [_, truth] = truth(&done.bench, row);
            // The window of the row is that of the capped clocks.
            let (pinned, capped) = (row.idle_mw.expect("a power"), row.capped_idle_mw);
            let capped = capped.expect("a power");
            // An idle board draws more in short bursts.
            assert!(
                (capped / truth - 1.0).abs() < 0.06,
                "{name}: {capped} {truth}"
            );
            assert!(capped < 1.01 * pinned, "{name}: {capped} {pinned}");
            assert_eq!((row.time_ms, row.power_mw), (None, None));
        }
        for row in busy.iter().filter(|row| row.mark.is_none()) {
            let (time, power) = (row.time_ms.expect("a time"), row.power_mw.expect("a power"));
            let capped = (
                row.capped_time_ms.expect("a time"),
                row.capped_power_mw.expect("a power"),
            );
            assert!(
                capped.0 > 0.97 * time && capped.1 < 1.03 * power,
                "{name}: {row:?}"
            );
        }
    }
}

#[test]
fn a_busy_board_has_no_idle_power_and_a_limit_holds_while_it_is_measured() {
    let name = "orin-agx-64";
    let mut bench = idle_bench(name, "resnet18");
    let busy = Workload::named("resnet18").expect("a shipped workload");
    bench.files.tree.jetson_mut().set_workload(Some(busy));
    let done = profile(bench, lowest(name), &[middle(name)], None);
    done.result.expect("the mode is measured");
    assert!(done.rows.iter().all(|row| row.mark != Some(Mark::Idle)));
    // The idle board draws 23 W in its highest mode.
    let bench = idle_bench(name, "resnet18");
    let done = profile(bench, lowest(name), &[lowest(name)], Some(16));
    done.result.expect("the mode is measured");
    let idle = done.rows.iter().filter_map(|row| row.idle_mw);
    let idle: Vec<f64> = idle.collect();
    assert!((2..5).contains(&idle.len()), "{idle:?}");
    assert!(idle.iter().all(|power| *power < 16_000.0));
    assert!(
        done.bench.over_s < 2.0,
        "{} s over the limit",
        done.bench.over_s
    );
}

#[test]
fn a_second_session_knows_the_idle_power_of_the_first() {
    let name = "orin-nano-8-super";
    let first = profile(
        idle_bench(name, "lenet"),
        lowest(name),
        &[middle(name)],
        None,
    );
    let folder = first.folder;
    let mask = first.rows[0].tpc_pg_mask;
    let mut corpus = corpus(&folder.path().join("corpus.csv"), mask);
    assert_eq!(corpus.idle().count(), 5);
    assert!(corpus.keeps_idle());
    let before = corpus.rows.len();
    corpus.append(first.rows[0].clone()).expect("it is written");
    assert_eq!(corpus.rows.len(), before + 1);
}
