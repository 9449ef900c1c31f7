//! Dynamics: what is known of hand-made traces is found again, bad traces are named, and the loads are like the recorded ones.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use tempfile::NamedTempFile;
use wattgate_judge::dynamics::comparison::{Figure, Lag, Row};
use wattgate_judge::dynamics::edges::{Direction, durations, largest_change, undone};
use wattgate_judge::dynamics::statistics::Statistics;
use wattgate_judge::dynamics::trace::Phase;
use wattgate_judge::dynamics::{Comparison, Trace};
use wattgate_simulated_board::load::Kind;

use crate::common::missing;

const AGX_ORIN: &str = "run,t_ms,phase,gpu_soc_mw,cpu_cv_mw,vin_sys_5v0_mw,vddq_mw,total_mw";
const ORIN_NX: &str = "run,t_us,what,vdd_in_mw";
const ORIN_NANO: &str =
    "run,t_ms,gpu_percent,gpu_mhz,cpu_percent,tj_c,vdd_in_mw,cpu_gpu_cv_mw,soc_mw";

fn read(text: &str) -> Result<Trace, String> {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    let name = file.path().display().to_string();
    Trace::read(file.path()).map_err(|why| why.to_string().replace(&name, "t.csv"))
}

/// A trace with the columns of the Orin NX: of each poll the time in s and the power in W.
fn polled(period_s: f64, seconds: f64, watts: impl FnMut(f64) -> f64) -> Trace {
    let times = (0..(seconds / period_s) as u32).map(|at| f64::from(at) * period_s);
    let mut text = format!("{ORIN_NX}\n");
    let rows: Vec<(f64, f64)> = times.clone().zip(times.map(watts)).collect();
    for (seconds, watts) in rows {
        let (us, mw) = ((1e6 * seconds).round(), 1e3 * watts);
        writeln!(text, "a,{us},training,{mw:.1}").expect("a text");
    }
    read(&text).expect("a trace")
}

/// A power through a low-pass of first order, polled at a period that divides 1 ms.
fn through_low_pass(time_constant_s: f64, power: impl Fn(f64) -> f64) -> impl FnMut(f64) -> f64 {
    const STEP_S: f64 = 1e-4;
    let (mut now, mut shown) = (0.0, power(0.0));
    move |until| {
        while now < until {
            shown += (power(now) - shown) * STEP_S / time_constant_s;
            now += STEP_S;
        }
        shown
    }
}

/// 15 W and 5 W for 4 s each.
fn square(seconds: f64) -> f64 {
    match (seconds / 4.0) as u32 % 2 {
        0 => 5.0,
        _ => 15.0,
    }
}

#[test]
fn a_known_low_pass_is_recovered() {
    for (period_s, time_constant_s, expected_s, within) in [
        (0.0116, 0.43, 0.43, 0.01),
        (0.0116, 0.3, 0.43, 0.01),
        (0.0116, 0.06, 0.054, 0.003),
        (0.1, 0.43, 0.43, 0.01),
        (0.1, 0.6, 0.43, 0.015),
    ] {
        let trace = polled(period_s, 60.0, through_low_pass(time_constant_s, square));
        let lag = Lag::of(&trace.runs, expected_s, 0.0406).expect("decays");
        // Fourteen changes, and nothing is after the last one for long enough to be sure.
        assert!((12..=14).contains(&lag.count), "{lag:?}");
        let [low, found, high] = lag.quartiles_s;
        let case = format!("{time_constant_s} s polled each {period_s} s: {lag:?}");
        assert!((found - time_constant_s).abs() < within, "{case}");
        assert!(high - low < 2.0 * within, "{case}");
        assert!(lag.renewed > 0.8, "{case}");
    }
}

#[test]
fn what_is_no_decay_tells_no_time_constant() {
    let ramp = polled(0.1, 60.0, |seconds| 5.0 + seconds / 6.0);
    assert!(Lag::of(&ramp.runs, 0.43, 0.0406).is_none());
    let sine = polled(0.1, 60.0, |seconds| 10.0 + 5.0 * seconds.sin());
    assert!(Lag::of(&sine.runs, 0.43, 0.0406).is_none());
}

#[test]
fn the_lag_of_a_step_is_undone() {
    let step = |seconds| if seconds < 10.0 { 5.0 } else { 15.0 };
    let trace = polled(0.1, 20.0, through_low_pass(0.43, step));
    let [run] = &trace.runs[..] else {
        panic!("{} runs", trace.runs.len())
    };
    let phases: Vec<Phase> = run.stretches.iter().map(|it| it.phase).collect();
    assert_eq!(phases, [Phase::StartUp, Phase::Training]);
    // 1 − exp(−0.1/0.43) = 0.207, and nearly all of it once the lag is undone.
    let raw = largest_change(&run.readings, 0.1).expect("polls");
    assert!((raw - 2.07).abs() < 0.03, "{raw} W in 0.1 s");
    let power = undone(run);
    let all = largest_change(&power, 0.43).expect("polls");
    assert!((all - 10.0).abs() < 0.6, "{all} W in 0.43 s");
    let rises = durations(run, Direction::Up);
    assert!(rises.len() == 1 && rises[0] < 0.2, "{rises:?}");
    assert!(durations(run, Direction::Down).is_empty());
    // Polls of half a second are too far apart.
    let trace = polled(0.5, 20.0, through_low_pass(0.43, step));
    assert_eq!(undone(&trace.runs[0]), trace.runs[0].readings);
    assert_eq!(largest_change(&trace.runs[0].readings, 0.43), None);
}

#[test]
fn a_known_ripple_is_recovered() {
    // A sine of 1.2 s on a line. Its octave is that from 0.8 to 1.6 s.
    let power = |at: u32| {
        let seconds = 0.1 * f64::from(at);
        20.0 + 0.02 * seconds + 0.5 * (std::f64::consts::TAU * seconds / 1.2).sin()
    };
    let watts: Vec<f64> = (0..600).map(power).collect();
    let found = Statistics::of_watts(&watts, 0.1).expect("statistics");
    assert!((found.mean_w - 20.6).abs() < 0.01, "{found:?}");
    assert!(
        (found.ripple_w - 0.5 / 2.0_f64.sqrt()).abs() < 0.01,
        "{found:?}"
    );
    assert!((found.drift_w - 1.2).abs() < 0.05, "{found:?}");
    // cos(2π t / 1.2 s) = 1/e.
    assert!((found.correlation_s - 0.228).abs() < 0.01, "{found:?}");
    let most = found
        .octaves
        .iter()
        .max_by(|a, b| a.share.total_cmp(&b.share));
    assert!(
        (most.expect("octaves").period_s - 1.6).abs() < 1e-9,
        "{found:?}"
    );
    let sum: f64 = found.octaves.iter().map(|it| it.share).sum();
    assert!((0.95..=1.05).contains(&sum), "{found:?}");
    assert!(Statistics::of_watts(&watts[..15], 0.1).is_none());
}

#[test]
fn a_figure_is_off_from_twice_the_range_on() {
    let row = |simulated| Row {
        kind: Kind::Llm,
        key: (Some(Phase::Decode), Figure::Ripple),
        recorded: [1.0, 2.0, 3.0],
        count: 3,
        simulated,
    };
    for (simulated, is_off) in [(0.49, true), (0.51, false), (5.9, false), (6.1, true)] {
        assert_eq!(row(simulated).is_off(), is_off, "{simulated}");
    }
    assert_eq!(row(5.0).ratio(), 2.5);
}

/// Rows of a run with the columns of the AGX Orin.
fn rows(count: u32, phase: &str, mw: f64) -> String {
    let row = |at: u32| format!("a,{},{phase},1,1,1,1,{mw}\n", 100 * at);
    (0..count).map(row).collect()
}

#[test]
fn each_defect_of_a_trace_is_named_with_its_line() {
    let agx = |rows: &str| format!("{AGX_ORIN}\n{rows}");
    let known = format!("{AGX_ORIN} or {ORIN_NX} or {ORIN_NANO}");
    let number = "expected a number, 0 … 200000, found";
    let cases = [
        (
            String::new(),
            "t.csv: the file is empty; expected a header with the columns run and those of a board".to_owned(),
        ),
        (
            "t_ms,total_mw\n0,9000\n".to_owned(),
            format!("t.csv: line 1: expected the columns {known}, found `t_ms,total_mw`"),
        ),
        (agx(""), "t.csv: no rows after the header".to_owned()),
        (
            agx("a,0,idle_pre,1,1,1,9000\n"),
            "t.csv: line 2: expected 8 fields as in the header, found 7; complete the row, or delete it".to_owned(),
        ),
        (
            agx("a,0,warm,1,1,1,1,9000\n"),
            "t.csv: line 2: column `phase`: expected one of idle_pre, load, prefill, decode, teardown, idle_post, found `warm`"
                .to_owned(),
        ),
        (
            agx("a,0,load,1,1,1,1,\n"),
            format!("t.csv: line 2: column `total_mw`: {number} ``"),
        ),
        (
            agx("a,0,load,1,1,1,1,-5\n"),
            format!("t.csv: line 2: column `total_mw`: {number} `-5`"),
        ),
        (
            agx("a,0,load,1,1,1,1,NaN\n"),
            format!("t.csv: line 2: column `total_mw`: {number} `NaN`"),
        ),
        (
            agx("a,100,load,1,1,1,1,9000\na,100,load,1,1,1,1,9000\n"),
            "t.csv: line 3: column `t_ms`: expected more than 100, the time of the row before, found `100`".to_owned(),
        ),
        (
            agx("a,0,load,1,1,1,1,9000\nb,0,load,1,1,1,1,9000\na,100,load,1,1,1,1,9000\n"),
            "t.csv: line 4: column `run`: expected the rows of a run in one piece, found `a`".to_owned(),
        ),
        (
            agx(&rows(19, "load", 9000.0)),
            "t.csv: line 20: column `run`: expected at least 20 readings of `a`, found `19`".to_owned(),
        ),
        (
            agx(&rows(20, "load", 45.5)),
            "t.csv: column `total_mw`: expected a highest power of 1000 mW or more, found `45.5`".to_owned(),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(read(&text).map(|_| ()), Err(expected), "{text}");
    }
    // As a spreadsheet writes it.
    let text = agx(&rows(100, "idle_pre", 9_000.0)).replace(',', ";");
    let trace = read(&text).expect("a trace");
    let why = Comparison::new(vec![trace]).expect_err("no work");
    let why = why.to_string();
    assert!(
        why.contains("no run has both a phase that waits and one that works"),
        "{why}"
    );
}

#[test]
fn a_stalled_poll_has_the_time_of_its_reading() {
    let row = |at: u32| {
        let us = 11_600 * at + if at > 10 { 270_000 } else { 0 };
        format!("a,{us},start-up,5000\n")
    };
    let rows: String = (0..40).map(row).collect();
    let trace = read(&format!("{ORIN_NX}\n{rows}")).expect("a trace");
    let readings = &trace.runs[0].readings;
    assert!((readings[11].seconds - readings[10].seconds - 0.0116).abs() < 1e-9);
}

/// The recorded traces, or none where they are absent.
fn recorded() -> Option<Vec<Trace>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/traces");
    let files = [
        "agx-orin-64__llm-phases__jetson-llm-maxperf.csv",
        "orin-nx__start-up-and-training__e2fl.csv",
        "orin-nano-8-super__llm__jetsonfabric.csv",
    ]
    .map(|name| folder.join(name));
    if files.iter().any(|path| missing(path)) {
        return None;
    }
    let traces = files.iter().map(|path| Trace::read(path));
    Some(traces.collect::<Result<_, _>>().expect("traces"))
}

#[test]
fn loads_and_sensor_move_as_recorded() {
    let Some(traces) = recorded() else {
        return;
    };
    let comparison = Comparison::new(traces).expect("a comparison");
    let names: Vec<String> = comparison.groups.iter().map(|it| it.name()).collect();
    assert_eq!(
        names,
        [
            "orin-agx-64, MAXN",
            "orin-agx-64, MODE_30W",
            "orin-nx-16, 15W",
            "orin-nano-8-super, MAXN_SUPER"
        ]
    );
    let rows = comparison
        .groups
        .iter()
        .flat_map(|group| group.rows.iter().map(|row| (group.name(), row)));
    let rows: Vec<(String, &Row)> = rows
        .filter(|(_, row)| matches!(row.kind, Kind::Llm | Kind::Training))
        .collect();
    assert!(rows.len() >= 80, "{}", rows.len());
    let off = rows.iter().filter(|(_, row)| row.is_off());
    let off: Vec<String> = off
        .map(|(group, row)| {
            let phase = row.key.0.map_or("run", Phase::name);
            format!("{group}: {phase}, {}", row.key.1.name())
        })
        .collect();
    // tools/simulator/README.md says why these stay.
    assert_eq!(
        off,
        [
            "orin-agx-64, MODE_30W: run, fall, s",
            "orin-agx-64, MODE_30W: idle, ripple, %",
            "orin-agx-64, MODE_30W: model load, ripple, %",
            "orin-agx-64, MODE_30W: model load, peak, %",
            "orin-agx-64, MODE_30W: decode, duration, s",
            "orin-nx-16, 15W: training, ripple, %",
        ]
    );
    assert!(comparison.loads.iter().all(|load| !load.is_off));
    // The Orin Nano was polled too seldom for a decay.
    for group in comparison.groups.iter().take(3) {
        let [recorded, simulated] = group.lags.map(|lag| lag.expect("decays").quartiles_s[1]);
        let ratio = simulated / recorded;
        assert!(
            (0.9..1.1).contains(&ratio),
            "{}: {recorded} s, {simulated} s simulated",
            group.name()
        );
    }
    for (samples, nominal_s, lag) in comparison.samples {
        let found = lag.expect("decays").quartiles_s[1];
        assert!(
            (found / nominal_s - 1.0).abs() < 0.12,
            "{samples}: {found} s, not {nominal_s}"
        );
    }
}
