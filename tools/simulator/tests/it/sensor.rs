//! The power sensor: how its registers follow the true power, compared with recorded boards
//! (`../shared/data/traces`). Sections are those of `jetson-platform.md`.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::{agx, booted, ina, load, ms, nano, number, order, pass, write};
use crate::recorded::recorded;
use wattgate_board_tables::Board;
use wattgate_simulated_board::sampling::Chip;
use wattgate_simulated_board::tree::{Errno, Tree};
use wattgate_simulated_board::unit::Unit;

/// The time constant as L4T sets the sensor: 512 cycles of 0.84 ms.
const TIME_CONSTANT_S: f64 = 0.430_08;

fn current(tree: &Tree) -> f64 {
    number(tree, &ina("curr1_input")) as f64
}

#[test]
fn a_register_follows_a_step_as_a_first_order_low_pass() {
    // Section 6.3: 63, 90, 95 and 99 %.
    const STEP_MA: f64 = 16_000.0;
    let mut tree = nano();
    for (from, to) in [(0.0, STEP_MA), (STEP_MA, 0.0)] {
        pass(&mut tree, Duration::from_secs(10));
        let before = current(&tree);
        let start = tree.jetson().now();
        order(&mut tree, &format!("offset VDD_IN {to}"));
        for (seconds, reached) in [(0.43, 0.632), (1.0, 0.902), (1.3, 0.951), (2.0, 0.990)] {
            tree.advance(start + Duration::from_secs_f64(seconds));
            let part = (current(&tree) - before) / (to - from);
            assert!((part - reached).abs() < 0.01, "{part} in {seconds} s");
        }
    }
}

#[test]
fn the_bus_voltage_goes_through_the_same_low_pass() {
    let mut tree = nano();
    assert_eq!(number(&tree, &ina("in1_input")), 5_000);
    order(&mut tree, "supply 4000 0");
    pass(&mut tree, ms(430));
    let bus_mv = number(&tree, &ina("in1_input"));
    assert!((4_352..=4_384).contains(&bus_mv), "{bus_mv} mV");
}

#[test]
fn a_register_changes_when_a_conversion_ends_and_not_before() {
    // Section 6.3: a cycle of 3 channels × 2 × 140 µs. One sample is no filter. A write of the
    // number of samples begins a cycle.
    let mut tree = nano();
    write(&mut tree, &ina("samples"), 1);
    pass(&mut tree, Duration::from_micros(8_400));
    order(&mut tree, "offset VDD_IN 8000");
    let before = current(&tree);
    pass(&mut tree, Duration::from_micros(839));
    assert_eq!(current(&tree), before);
    pass(&mut tree, Duration::from_micros(1));
    assert!(
        (current(&tree) - before - 8_000.0).abs() < 200.0,
        "{} after {before} mA",
        current(&tree)
    );
}

#[test]
fn registers_do_not_depend_on_the_time_step() {
    for board in ["orin-agx-64", "orin-nano-8-super"] {
        let [mut whole, mut parts] = [(), ()].map(|()| booted(board, None));
        for (at, step) in [310_u64, 839, 841, 1_700, 4_900].into_iter().enumerate() {
            let end = ms(700) * (1 + at as u32);
            for tree in [&mut whole, &mut parts] {
                match at % 2 {
                    0 => load(tree, "resnet18"),
                    _ => tree.jetson_mut().set_workload(None),
                }
            }
            whole.advance(end);
            while parts.jetson().now() < end {
                let next = parts.jetson().now() + Duration::from_micros(step);
                parts.advance(next.min(end));
            }
            for rail in 0..whole.jetson().board().rails.len() {
                let [whole, parts] = [&whole, &parts].map(|it| it.jetson().channel(rail));
                assert_eq!(whole.reading(), parts.reading(), "{board}, {step} µs");
            }
        }
    }
}

#[test]
fn another_number_of_samples_keeps_the_registers_and_changes_the_time_constant() {
    let mut tree = nano();
    order(&mut tree, "offset VDD_IN 16000");
    pass(&mut tree, ms(200));
    let before = current(&tree);
    write(&mut tree, &ina("samples"), 64);
    assert_eq!(current(&tree), before);
    pass(&mut tree, ms(54));
    let part = (current(&tree) - before) / (17_000.0 - before);
    assert!((0.60..0.66).contains(&part), "{part} of the way left");
}

#[test]
fn each_chip_has_its_own_time_constant() {
    let mut tree = agx();
    let path_of = |chip: u32, file: &str| {
        let device = format!("/sys/bus/i2c/drivers/ina3221/1-004{chip}");
        format!("{device}/hwmon/hwmon{chip}/{file}")
    };
    write(&mut tree, &path_of(1, "samples"), 64);
    assert_eq!(number(&tree, &path_of(0, "update_interval")), 430);
    assert_eq!(number(&tree, &path_of(1, "update_interval")), 54);
    let currents = |tree: &Tree| {
        [path_of(0, "curr1_input"), path_of(1, "curr2_input")]
            .map(|path| number(tree, &path) as f64)
    };
    let before = currents(&tree);
    for rail in ["VDD_GPU_SOC", "VDDQ_VDD2_1V8AO"] {
        order(&mut tree, &format!("offset {rail} 10000"));
    }
    pass(&mut tree, ms(54));
    let [first, second] = currents(&tree);
    let [first, second] = [first - before[0], second - before[1]];
    assert!((1_100.0..1_250.0).contains(&first), "{first} mA");
    assert!((6_200.0..6_450.0).contains(&second), "{second} mA");
}

#[test]
fn fewer_samples_show_more_noise() {
    // Section 6.3. An eighth of the time constant gives √8 times the spread.
    let spread = |samples| {
        let mut tree = nano();
        load(&mut tree, "resnet18");
        // Until the temperatures are steady.
        pass(&mut tree, Duration::from_secs(3600));
        write(&mut tree, &ina("samples"), samples);
        let currents: Vec<f64> = (0..400)
            .map(|_| {
                pass(&mut tree, ms(2_000));
                current(&tree)
            })
            .collect();
        let mean = currents.iter().sum::<f64>() / 400.0;
        let squares = currents.iter().map(|ma| (ma - mean).powi(2));
        (squares.sum::<f64>() / 400.0).sqrt() / mean
    };
    let ratio = spread(64) / spread(512);
    assert!((2.3..3.4).contains(&ratio), "{ratio} times");
}

/// The time at which the first cycle of a chip ends.
fn first_cycle(mut chip: Chip) -> Duration {
    let times = (0..2_000).map(Duration::from_micros);
    let mut ended = times.skip_while(|time| chip.pass(*time).is_none());
    ended.next().expect("a cycle takes 0.84 ms")
}

#[test]
fn each_chip_has_its_own_phase() {
    // Section 6.1: two chips, each with its own oscillator. The phases differ from boot to boot.
    let times: BTreeSet<Duration> = (0..3)
        .flat_map(|seed| [0, 1].map(|chip| first_cycle(Chip::new(chip, 1.0, seed))))
        .collect();
    assert_eq!(times.len(), 6, "two chips under three seeds: {times:?}");
    assert!(times.iter().all(|time| *time <= Duration::from_micros(840)));
    let [first, again] = [(), ()].map(|()| first_cycle(Chip::new(0, 1.0, 1)));
    assert_eq!(first, again);
}

#[test]
fn the_oscillator_of_each_chip_is_up_to_10_percent_slow_or_fast() {
    // TI: a conversion of 140 µs takes 154 at most.
    let of_units: Vec<[f64; 2]> = (0..40)
        .map(|seed| {
            let slowness = Unit::drawn(seed).sensor_time;
            [0, 1].map(|chip| {
                let chip = Chip::new(chip, slowness[chip], 0);
                chip.time_constant().as_secs_f64()
            })
        })
        .collect();
    assert!(of_units.iter().all(|[first, second]| first != second));
    let all = of_units.iter().flatten();
    let least = all.clone().copied().fold(f64::INFINITY, f64::min);
    let most = all.copied().fold(0.0, f64::max);
    assert!((0.387..0.400).contains(&least), "{least} s");
    assert!((0.460..=0.4732).contains(&most), "{most} s");
}

#[test]
fn the_critical_alarm_compares_single_conversions() {
    // Section 6.3. A load of 50 ms shows little in the register.
    let mut tree = nano();
    pass(&mut tree, ms(100));
    let idle = number(&tree, &ina("curr1_input"));
    for limit in ["curr1_max", "curr1_crit"] {
        write(&mut tree, &ina(limit), idle + 500);
    }
    load(&mut tree, "resnet18");
    pass(&mut tree, ms(50));
    tree.jetson_mut().set_workload(None);
    pass(&mut tree, ms(300));
    assert_eq!(number(&tree, &ina("curr1_max_alarm")), 0);
    assert_eq!(number(&tree, &ina("curr1_crit_alarm")), 1);
    pass(&mut tree, ms(1_000));
    assert_eq!(number(&tree, &ina("curr1_crit_alarm")), 0);
}

#[test]
fn the_driver_takes_the_closest_samples_and_interval() {
    // Section 6.3: the interval is channels × samples × 2 × conversion time. KDOC: the driver takes
    // the closest number of samples and conversion time, and 0 ms for the shortest one.
    let mut tree = agx();
    let (samples, interval) = (ina("samples"), ina("update_interval"));
    let both = |tree: &Tree| [&samples, &interval].map(|path| number(tree, path));
    assert_eq!(both(&tree), [512, 430]);
    for (path, written, expected) in [
        (&samples, 64, [64, 54]),
        (&samples, 1024, [1024, 860]),
        (&samples, 40, [16, 13]),
        (&samples, 41, [64, 54]),
        (&samples, -1, [1, 1]),
        (&samples, 100_000, [1024, 860]),
        (&interval, 5000, [1024, 3613]),
        (&samples, 64, [64, 226]),
        (&interval, 54, [64, 54]),
        (&interval, 100, [64, 78]),
        (&interval, 0, [64, 54]),
        (&interval, i64::MAX, [64, 3166]),
    ] {
        write(&mut tree, path, written);
        assert_eq!(both(&tree), expected, "{written} into {path}");
    }
    for path in [&samples, &interval] {
        assert_eq!(tree.write(path, "64 samples"), Err(Errno::Einval));
    }
}

#[test]
fn since_jetpack_6_the_interval_is_that_of_a_cycle() {
    // Linux 6.1 shows the time of a cycle (`ina3221_reg_to_interval_us`), but takes a written number
    // for the time constant. The real driver gave these answers (tools/kernel/sensor.txt).
    let mut tree = nano();
    let (samples, interval) = (ina("samples"), ina("update_interval"));
    for (path, written, expected) in [
        (&samples, 1, [1, 1]),
        (&interval, 430, [1, 49]),
        (&samples, 512, [512, 49]),
        (&interval, 430, [512, 1]),
        (&samples, 40, [16, 1]),
        (&samples, 41, [64, 1]),
        (&samples, 3, [4, 1]),
        (&samples, 512, [512, 1]),
        (&interval, 5000, [512, 13]),
    ] {
        write(&mut tree, path, written);
        let shown = [&samples, &interval].map(|path| number(&tree, path));
        assert_eq!(shown, expected, "{written} into {path}");
    }
}

#[test]
fn a_limit_is_cut_to_a_step_of_the_register() {
    // Linux 6.1, `ina3221_write_curr`: full scale, then 5 µV, then the step below. The driver gave
    // these answers at 5 mΩ and 2 mΩ (tools/kernel/sensor.txt).
    let at_5_mohm = [
        (4984, 4984),
        (4985, 4984),
        (4990, 4984),
        (4991, 4984),
        (4992, 4992),
        (7, 0),
        (8, 8),
        (0, 0),
        (-1, -8),
        (-8, -8),
        (32_760, 32_760),
        (32_761, 32_760),
        (100_000, 32_760),
        (500_000, 32_760),
        (-40_000, -32_760),
    ];
    let at_2_mohm = [(4980, 4980), (4999, 5000), (5000, 5000)];
    for (mut tree, answers) in [(nano(), &at_5_mohm[..]), (agx(), &at_2_mohm[..])] {
        for limit in ["curr1_max", "curr1_crit"].map(ina) {
            for (written, shown) in answers {
                write(&mut tree, &limit, written);
                assert_eq!(number(&tree, &limit), *shown, "{written} into {limit}");
            }
            assert_eq!(tree.write(&limit, "soon"), Err(Errno::Einval));
        }
    }
}

#[test]
fn currents_and_voltages_are_multiples_of_the_register_step() {
    // Section 6.3: 20 mA at 2 mΩ, 8 mA at 5 mΩ, 8 mV.
    for (mut tree, step_ma) in [(agx(), 20), (nano(), 8)] {
        load(&mut tree, "resnet18");
        let mut seen = BTreeSet::new();
        for _ in 0..50 {
            pass(&mut tree, ms(430));
            for channel in 1..=3 {
                let ma = number(&tree, &ina(&format!("curr{channel}_input")));
                let mv = number(&tree, &ina(&format!("in{channel}_input")));
                assert_eq!((ma % step_ma, mv % 8), (0, 0), "{ma} mA, {mv} mV");
                seen.insert(ma);
            }
        }
        assert!(seen.len() > 5, "the readings do not change");
    }
}

#[test]
fn offset_and_gain_of_a_sensor_are_fixed_for_a_unit() {
    // Section 6.3: at 5 mΩ the offset is ±8 mA typically and ±16 at most.
    let nominal = Unit::NOMINAL;
    let mut shunt_offset_uv = nominal.shunt_offset_uv;
    shunt_offset_uv[0] = 80.0;
    let offset = Unit {
        shunt_offset_uv,
        ..nominal
    };
    let mean = |unit| {
        let board = Board::named("orin-nano-8-super").expect("a board");
        let mut tree = Tree::new(board, unit, 0, None).expect("its default mode");
        let readings = (0..100).map(|_| {
            pass(&mut tree, ms(430));
            number(&tree, &ina("curr1_input")) as f64
        });
        readings.sum::<f64>() / 100.0
    };
    let difference = mean(offset) - mean(nominal);
    assert!((15.0..17.0).contains(&difference), "{difference} mA");
}

/// The lines of a trace as their columns, without the heading.
fn trace(name: &str) -> Option<Vec<Vec<String>>> {
    let text = recorded(name)?;
    let columns = |line: &str| line.split(',').map(str::to_owned).collect();
    Some(text.lines().skip(1).map(columns).collect())
}

/// The lines of each run.
fn runs(lines: &[Vec<String>]) -> impl Iterator<Item = &[Vec<String>]> {
    lines.chunk_by(|a, b| a[0] == b[0])
}

fn float(column: &str) -> f64 {
    column.parse().unwrap_or_else(|_| panic!("`{column}`"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One step of the current at the input of an Orin NX, in mW: 8 mA × 5.07 V.
const STEP_MW: f64 = 40.6;

/// How a low-pass shows steps down of the power: medians over the falling edges of a series.
#[derive(Debug)]
struct Edges {
    number: usize,
    /// Time constant of the exponential that fits the first second, in s.
    time_constant_s: f64,
    /// Height of the edge, in mW.
    height_mw: f64,
    /// Share of the polls within one time constant that differ from the poll before.
    differing: f64,
    /// Longest time within one time constant for which polls are equal, in s.
    hold_s: f64,
}

impl Edges {
    /// Measures the edges in runs of polls. A poll is a time in s and a power in mW.
    fn measure(runs: &[Vec<[f64; 2]>]) -> Self {
        let falls: Vec<&[[f64; 2]]> = runs.iter().flat_map(|run| falls(run)).collect();
        let within = |seconds: f64| {
            falls.iter().map(move |fall| {
                let count = fall.partition_point(|[at, _]| at - fall[0][0] <= seconds);
                &fall[..count]
            })
        };
        let median_figure =
            |seconds, figure: fn(&[[f64; 2]]) -> f64| median(within(seconds).map(figure).collect());
        Self {
            number: falls.len(),
            time_constant_s: median_figure(1.0, |fall| fit(fall)[0]),
            height_mw: median_figure(1.0, |fall| fit(fall)[1]),
            differing: median_figure(TIME_CONSTANT_S, |fall| {
                let pairs = fall.windows(2);
                pairs
                    .clone()
                    .filter(|pair| pair[0][1] != pair[1][1])
                    .count() as f64
                    / pairs.count() as f64
            }),
            hold_s: median_figure(TIME_CONSTANT_S, |fall| {
                let holds = fall.chunk_by(|a, b| a[1] == b[1]);
                // The last one has no end.
                let begins: Vec<f64> = holds.map(|hold| hold[0][0]).collect();
                let holds = begins.windows(2).map(|pair| pair[1] - pair[0]);
                holds.fold(0.0, f64::max)
            }),
        }
    }
}

/// The parts of a series that fall by at least ten steps in at least 0.3 s, and never rise.
fn falls(run: &[[f64; 2]]) -> Vec<&[[f64; 2]]> {
    let falling = run.chunk_by(|a, b| b[1] <= a[1] + 1.0 && b[0] - a[0] < 0.05);
    let trimmed = falling.map(|part| {
        let flat = part.partition_point(|[_, mw]| *mw >= part[0][1] - 1.0);
        &part[flat - 1..]
    });
    let is_edge = |part: &&[[f64; 2]]| {
        let [first, last] = [part[0], part[part.len() - 1]];
        first[1] - last[1] >= 10.0 * STEP_MW && last[0] - first[0] >= 0.3
    };
    trimmed.filter(is_edge).collect()
}

/// Least-squares fit of an exponential: time constant in s and height in mW.
fn fit(fall: &[[f64; 2]]) -> [f64; 2] {
    let candidates = (10..200).map(|hundredths| {
        let tau = f64::from(hundredths) / 100.0;
        let n = fall.len() as f64;
        let points = fall.iter();
        let points = points.map(|[at, mw]| ((-(at - fall[0][0]) / tau).exp(), *mw));
        let sum = |term: fn((f64, f64)) -> f64| points.clone().map(term).sum::<f64>();
        let [x, y] = [sum(|p| p.0), sum(|p| p.1)];
        let [xx, xy] = [sum(|p| p.0 * p.0), sum(|p| p.0 * p.1)];
        let height = (n * xy - x * y) / (n * xx - x * x);
        let level = (y - height * x) / n;
        let squares = points.map(|(x, y)| (level + height * x - y).powi(2));
        (squares.sum::<f64>(), [tau, height])
    });
    let best = candidates.min_by(|(a, _), (b, _)| a.total_cmp(b));
    best.expect("candidates").1
}

#[test]
fn falling_edges_match_those_of_a_measured_orin_nx() {
    // Polls of VDD_IN every 11.6 ms.
    let Some(lines) = trace("orin-nx__start-up-and-training__e2fl.csv") else {
        return;
    };
    let polls = |run: &[Vec<String>]| -> Vec<[f64; 2]> {
        let poll = |line: &Vec<String>| [float(&line[1]) / 1e6, float(&line[3])];
        run.iter().map(poll).collect()
    };
    let measured = Edges::measure(&runs(&lines).map(polls).collect::<Vec<_>>());
    // The simulated current falls by the same height in one step.
    let step_ma = measured.height_mw / 5.0;
    let simulated = (0..30).map(|seed| {
        let board = Board::named("orin-nx-16").expect("a board");
        let tree = Tree::new(board, Unit::NOMINAL, seed, None);
        let mut tree = tree.expect("its default mode");
        order(&mut tree, &format!("offset VDD_IN {step_ma}"));
        pass(&mut tree, Duration::from_secs(4));
        order(&mut tree, "offset VDD_IN 0");
        let poll = |_| {
            let reading = tree.jetson().channel(0).reading();
            let mw = reading.millivolts as f64 * reading.milliamperes as f64 / 1e3;
            let at = tree.jetson().now().as_secs_f64();
            pass(&mut tree, Duration::from_micros(11_600));
            [at, mw]
        };
        (0..120).map(poll).collect()
    });
    let simulated = Edges::measure(&simulated.collect::<Vec<_>>());
    assert!(measured.number >= 15 && simulated.number >= 15);
    assert!((0.39..0.45).contains(&measured.time_constant_s));
    let near = |figure: fn(&Edges) -> f64, most: f64| {
        let off = figure(&simulated) / figure(&measured) - 1.0;
        assert!(
            off.abs() <= most,
            "{simulated:?} where {measured:?} was measured"
        );
    };
    near(|it| it.time_constant_s, 0.1);
    near(|it| it.differing, 0.15);
    near(|it| it.hold_s, 0.3);
}

/// The autocorrelation of a series at a lag in polls.
fn autocorrelation(series: &[f64], lag: usize) -> f64 {
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    let product = |(a, b): (&f64, &f64)| (a - mean) * (b - mean);
    let shifted = series.iter().zip(&series[lag..]);
    let all = series.iter().zip(series);
    shifted.map(product).sum::<f64>() / all.map(product).sum::<f64>()
}

fn spread(series: &[f64]) -> f64 {
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    let squares = series.iter().map(|it| (it - mean).powi(2));
    (squares.sum::<f64>() / series.len() as f64).sqrt()
}

/// The longest time in s in which no series changes, polled every 0.1 s.
fn longest_hold_s(polls: &[Vec<f64>]) -> f64 {
    let holds = polls.chunk_by(|a, b| a == b).map(<[_]>::len);
    0.1 * (holds.max().unwrap_or(1) - 1) as f64
}

/// Polls of all rails of an idle AGX Orin every 0.1 s for a minute: GPU_SOC, CPU_CV, VIN_SYS_5V0
/// and VDDQ in mW.
type Idle = Vec<Vec<f64>>;

fn total(idle: &Idle) -> Vec<f64> {
    idle.iter().map(|rails| rails[..3].iter().sum()).collect()
}

#[test]
fn idle_registers_fluctuate_as_on_measured_agx_orins() {
    let Some(lines) = trace("agx-orin-64__llm-phases__jetson-llm-maxperf.csv") else {
        return;
    };
    let idle = |run: &[Vec<String>]| -> Idle {
        let idle = run.iter().filter(|line| line[2] == "idle_pre");
        idle.map(|line| line[3..7].iter().map(|it| float(it)).collect())
            .collect()
    };
    // The runs with locked clocks, without the one that was cut short.
    let measured = runs(&lines).filter(|run| run[0][0].starts_with("maxn"));
    let measured: Vec<Idle> = measured.map(idle).collect();
    assert_eq!(measured.len(), 18);
    let simulated: Vec<Idle> = (0..18)
        .map(|seed| {
            let board = Board::named("orin-agx-64-jp6").expect("a board");
            let tree = Tree::new(board, Unit::drawn(seed), seed, Some(0));
            let mut tree = tree.expect("MAXN");
            order(&mut tree, "jetson-clocks");
            pass(&mut tree, Duration::from_secs(10));
            let poll = |_| {
                pass(&mut tree, ms(100));
                let readings = (0..4).map(|rail| tree.jetson().channel(rail).reading());
                readings
                    .map(|it| (it.millivolts * it.milliamperes / 1000) as f64)
                    .collect()
            };
            (0..620).map(poll).collect()
        })
        .collect();
    for (what, figure, slack) in [
        (
            "0.1 s",
            (|idle| autocorrelation(&total(idle), 1)) as fn(&Idle) -> f64,
            0.02,
        ),
        ("0.5 s", |idle| autocorrelation(&total(idle), 5), 0.02),
        ("spread", |idle| spread(&total(idle)), 0.0),
        ("hold", |idle| longest_hold_s(idle), 0.5),
    ] {
        let figures = |all: &[Idle]| all.iter().map(figure).collect::<Vec<_>>();
        let (measured, simulated) = (figures(&measured), figures(&simulated));
        let least = measured.iter().copied().fold(f64::INFINITY, f64::min);
        let most = measured.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let median = median(simulated);
        assert!(
            (least - slack..=most + slack).contains(&median),
            "{what}: {median}"
        );
    }
}
