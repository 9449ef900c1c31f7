//! The total power, and what becomes of it when a sensor fails.

mod common;

use std::time::Duration;

use common::{Simulated, apply, boards, booted, description, discover, highest, lowest};
use wattgate_board::{Files, SampleFault};
use wattgate_runtime::MOST_CHIPS;
use wattgate_runtime::Milliwatts;
use wattgate_simulator::tree::{Errno, Tree};
use wattgate_simulator::unit::Unit;
use wattgate_simulator::workload::Workload;

const UPDATE: Duration = Duration::from_millis(430);

fn load(files: &mut Simulated) {
    let workload = Workload::named("resnet18").expect("a shipped workload");
    files.tree.jetson_mut().set_workload(Some(workload));
}

/// When each chip of the total has its next result, in the order of a sample.
fn next_results(files: &Simulated) -> Vec<Duration> {
    let jetson = files.tree.jetson();
    let rails = jetson.board().rails.iter().enumerate();
    let of_total = rails.filter(|(_, rail)| rail.total);
    let mut times: Vec<_> = of_total.map(|(at, _)| jetson.next_result(at)).collect();
    times.dedup();
    times
}

/// The true mean power in mW that each rail of the total has a result of.
struct Truth {
    /// Since the last result, in J and s.
    since: Vec<[f64; 2]>,
    mean_mw: Vec<Option<f64>>,
}

impl Truth {
    fn of(files: &Simulated) -> Self {
        let rails = files.tree.jetson().board().rails.len();
        Self {
            since: vec![[0.0; 2]; rails],
            mean_mw: vec![None; rails],
        }
    }

    /// Lets time pass until some chip has a result.
    fn pass_to_result(&mut self, files: &mut Simulated) {
        let all = |files: &Simulated| -> Vec<Duration> {
            let rails = 0..files.tree.jetson().board().rails.len();
            rails
                .map(|rail| files.tree.jetson().next_result(rail))
                .collect()
        };
        let due = all(files);
        let next = *due.iter().min().expect("a rail");
        while files.tree.jetson().now() < next {
            let now = files.tree.jetson().now();
            // Power changes at whole ms, but for events of 1.07 ms.
            let ms = Duration::from_millis(now.as_millis() as u64 + 1);
            let until = next.min(ms);
            files.tree.advance(until);
            let jetson = files.tree.jetson();
            let seconds = (until - now).as_secs_f64();
            for (rail, since) in jetson.board().rails.iter().zip(&mut self.since) {
                let domains = rail.domains.iter();
                let watts: f64 = domains.map(|&domain| jetson.watts().of(domain)).sum();
                since[0] += seconds * watts;
                since[1] += seconds;
            }
        }
        for (at, due) in due.into_iter().enumerate() {
            if due == next {
                let [joules, seconds] = std::mem::take(&mut self.since[at]);
                self.mean_mw[at] = Some(1000.0 * joules / seconds);
            }
        }
    }

    /// Of the whole module.
    fn total_mw(&self, files: &Simulated) -> f64 {
        let rails = files.tree.jetson().board().rails.iter();
        let of_total = rails.zip(&self.mean_mw).filter(|(rail, _)| rail.total);
        of_total.map(|(_, mean)| mean.expect("a result")).sum()
    }
}

#[test]
fn power_is_the_true_one_within_the_steps_of_the_sensor() {
    for name in boards() {
        let of = description(name);
        for mode in [lowest(name), highest(name)] {
            let mut files = booted(name);
            let mut board = discover(&files);
            apply(&mut board, &mut files, mode);
            load(&mut files);
            let mut truth = Truth::of(&files);
            for at in 0..24 {
                truth.pass_to_result(&mut files);
                // The first result of each chip is of the time before as well.
                if at < 4 {
                    continue;
                }
                let (truth, power) = (
                    truth.total_mw(&files),
                    board.sample(&files).expect("a result").total(),
                );
                // Half a step of the shunt's voltage, 40 µV, at the nominal voltage; up to 16 mV
                // that the bus voltage wanders, and half a step of 8 mV.
                let rails = of.rails.iter().filter(|rail| rail.total);
                let bound: f64 = rails
                    .map(|rail| {
                        let ma = 20.0 / rail.shunt_mohm.unwrap_or(5.0) + 0.5;
                        let share = truth / rail.millivolts * 20.0;
                        ma * rail.millivolts / 1000.0 + share
                    })
                    .sum();
                let off = f64::from(power.0) - truth;
                assert!(
                    off.abs() < bound + 1.0,
                    "{name}, {mode}: {power}, {truth:.0} mW"
                );
            }
        }
    }
}

#[test]
fn power_is_rounded_up() {
    let mut files = booted("orin-nano-8-super");
    let board = discover(&files);
    let device = "/sys/class/hwmon/hwmon0";
    let mut show = |millivolts: &str, milliamperes: &str| {
        let texts = [("in1", millivolts), ("curr1", milliamperes)];
        for (file, text) in texts {
            let path = format!("{device}/{file}_input");
            files.shown.insert(path, Ok(text.as_bytes().to_vec()));
        }
        board.sample(&files).map(|sample| sample.total())
    };
    assert_eq!(show("5000\n", "1600\n"), Ok(Milliwatts(8000)));
    assert_eq!(show("5001\n", "1600\n"), Ok(Milliwatts(8002)));
    // A rail without load shows its offset.
    assert_eq!(show("5000\n", "-16\n"), Ok(Milliwatts(0)));
    let mut fault = |volts, amperes| show(volts, amperes).expect_err("a fault").fault;
    assert_eq!(fault("5000", "-41"), SampleFault::Negative(-41));
    assert_eq!(fault("0", "1600"), SampleFault::NoVoltage(0));
    assert_eq!(fault("-8", "1600"), SampleFault::NoVoltage(-8));
    let full = |millivolts, milliamperes| SampleFault::FullScale {
        millivolts,
        milliamperes,
    };
    assert_eq!(fault("32760", "1600"), full(32760, 1600));
    assert_eq!(fault("5000", "32760"), full(5000, 32760));
    assert_eq!(fault("5000", "9223372036854775807"), full(5000, i64::MAX));
    for text in [
        "",
        "\n",
        "N/A",
        "1600 mA",
        "1e3",
        "9223372036854775808",
        "\0\0",
    ] {
        assert_eq!(fault("5000", text), SampleFault::NotANumber, "{text:?}");
    }
}

#[test]
fn errors_of_the_system_are_named() {
    let mut files = booted("xavier-agx");
    let board = discover(&files);
    let current = "/sys/bus/i2c/drivers/ina3221x/1-0041/iio:device1/in_current1_input";
    let mut with = |errno| {
        files.shown.insert(current.to_owned(), Err(errno));
        let error = board.sample(&files).expect_err("a fault");
        assert_eq!(&*error.rail, "VDDRQ");
        error.to_string()
    };
    assert_eq!(with(Errno::Enoent), "power of rail VDDRQ: it is not there");
    assert_eq!(with(Errno::Eagain), "power of rail VDDRQ: no result now");
    assert_eq!(
        with(Errno::Eio),
        "power of rail VDDRQ: cannot be read: Input/output error (os error 5)"
    );
    files.shown.clear();
    assert!(board.sample(&files).is_ok());
}

/// Each fault of each rail that counts; a rail that does not count harms nothing.
#[test]
fn a_failing_sensor_is_an_error_and_never_a_smaller_sum() {
    for name in boards() {
        for rail in &description(name).rails {
            for (word, fault) in [
                ("missing", SampleFault::Missing),
                (
                    "absurd",
                    SampleFault::FullScale {
                        millivolts: 0,
                        milliamperes: 0,
                    },
                ),
                ("flipped", SampleFault::Negative(0)),
            ] {
                let mut files = booted(name);
                let mut board = discover(&files);
                apply(&mut board, &mut files, highest(name));
                load(&mut files);
                files.wait(2 * UPDATE);
                let before = board.sample(&files).expect("a result");
                files
                    .tree
                    .control(&format!("sensor {} {word}", rail.label))
                    .expect("a rail");
                match board.sample(&files) {
                    Err(error) => {
                        let same = std::mem::discriminant(&fault);
                        assert_eq!(
                            std::mem::discriminant(&error.fault),
                            same,
                            "{name}: {error}"
                        );
                        assert_eq!(*error.rail, *rail.label, "{name}");
                        assert!(rail.total, "{name}: {error}");
                    }
                    // A negative current within the offset counts as none.
                    Ok(after) if word == "flipped" && rail.total => {
                        let lost = before.total().0 - after.total().0;
                        assert!(
                            lost <= 40 * rail.millivolts as u32 / 1000,
                            "{name}: {}",
                            rail.label
                        );
                    }
                    Ok(after) => {
                        assert!(!rail.total, "{name}: {} is {word}", rail.label);
                        assert_eq!(after, before, "{name}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_result_of_a_chip_changes_when_that_chip_has_a_result() {
    for name in boards() {
        let mut files = booted(name);
        let mut board = discover(&files);
        apply(&mut board, &mut files, highest(name));
        load(&mut files);
        let chips = board.chips();
        let mut news = vec![0; chips];
        for _ in 0..20 * chips {
            let due = next_results(&files);
            let next = *due.iter().min().expect("a chip");
            let at_once = due.iter().filter(|due| **due == next).count();
            assert_eq!(at_once, 1, "{name}: each chip has its own time");
            let before = board.sample(&files).expect("a result");
            files.tree.advance(next - Duration::from_nanos(1));
            assert_eq!(board.sample(&files), Ok(before), "{name}: between results");
            files.tree.advance(next);
            let after = board.sample(&files).expect("a result");
            let changed = |chip: usize| after.chips[chip].result != before.chips[chip].result;
            for (chip, due) in due.into_iter().enumerate() {
                assert!(due == next || !changed(chip), "{name}: chip {chip}");
                news[chip] += u32::from(changed(chip));
            }
            assert!(!(chips..MOST_CHIPS).any(changed), "{name}: no such chip");
        }
        assert!(
            news.iter().all(|&news| news >= 15),
            "{name}: {news:?} of 20"
        );
        let rail = board.rails().next().expect("a rail").to_owned();
        let total = board.rails().count();
        files
            .tree
            .control(&format!("sensor {rail} frozen"))
            .expect("a rail");
        let frozen = board.sample(&files).expect("a result");
        files.wait(UPDATE);
        let next = board.sample(&files).expect("a result");
        assert_eq!(
            frozen == next,
            total == 1,
            "{name}: frozen is the only rail"
        );
    }
}

/// Offsets and gains of real units; rails without load among them.
#[test]
fn every_unit_of_a_board_can_be_sampled_at_rest() {
    for name in boards() {
        for seed in 0..50 {
            let tree = Tree::new(description(name), Unit::drawn(seed), seed, None);
            let mut files = Simulated::new(tree.expect("a default mode"));
            let mut board = discover(&files);
            apply(&mut board, &mut files, lowest(name));
            files.wait(2 * UPDATE);
            let sample = board.sample(&files);
            assert!(sample.is_ok(), "{name}, unit {seed}: {sample:?}");
        }
    }
}

/// The data sheet's typical offset of 40 µV: 20 mA of a shunt of 2 mΩ, 8 mA of one of 5 mΩ.
#[test]
fn the_offset_of_the_sensor_is_told_by_shunts_and_voltages() {
    let offset = |files: &Simulated| discover(files).sensor_offset().0;
    // Two rails of 12 V and two of 5 V, which are independent.
    assert_eq!(offset(&booted("orin-agx-64")), 368);
    assert_eq!(offset(&booted("orin-nano-8")), 41);
    // The driver of JetPack 4 does not show shunts: 2 mΩ is the smallest that is known. Five rails
    // of 12 V and one of 5 V.
    assert_eq!(offset(&booted("xavier-agx")), 547);
    let mut files = booted("orin-nano-8");
    let broken = files.tree.control("sensor VDD_IN absurd");
    broken.expect("a rail");
    // The voltage is at full scale, so that the highest of any module is taken: 20 V.
    assert_eq!(offset(&files), 161);
}
