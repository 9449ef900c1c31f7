//! The total power, and what becomes of it when a sensor fails.

mod common;

use std::time::Duration;

use common::{Simulated, apply, boards, booted, description, discover, highest, lowest};
use wattgate_board::{Files, SampleFault};
use wattgate_runtime::Milliwatts;
use wattgate_simulator::tree::{Errno, Tree};
use wattgate_simulator::unit::Unit;
use wattgate_simulator::workload::Workload;

const UPDATE: Duration = Duration::from_millis(430);

fn load(files: &mut Simulated) {
    let workload = Workload::named("resnet18").expect("a shipped workload");
    files.tree.jetson_mut().set_workload(Some(workload));
}

/// Lets time pass until a result is ready, and gives the true mean power over it in mW.
fn next_result(files: &mut Simulated) -> f64 {
    let now = files.tree.jetson().now().as_micros() as u64;
    let update = UPDATE.as_micros() as u64;
    let before = files.tree.jetson().energy_j();
    assert_eq!(now % update, 0, "at the end of a result");
    files.wait(UPDATE);
    1000.0 * (files.tree.jetson().energy_j() - before) / UPDATE.as_secs_f64()
}

fn to_the_end_of_a_result(files: &mut Simulated) {
    let over = files.tree.jetson().now().as_micros() as u64 % UPDATE.as_micros() as u64;
    files.wait(UPDATE - Duration::from_micros(over));
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
            to_the_end_of_a_result(&mut files);
            for _ in 0..20 {
                let truth = next_result(&mut files);
                let power = board.sample(&files).expect("a result").total();
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
                        let lost = before.power.0 - after.power.0;
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
fn the_fingerprint_tells_a_new_result_from_a_repeated_one() {
    for name in boards() {
        let mut files = booted(name);
        let mut board = discover(&files);
        apply(&mut board, &mut files, highest(name));
        load(&mut files);
        to_the_end_of_a_result(&mut files);
        let mut news = 0;
        for _ in 0..20 {
            let first = board.sample(&files).expect("a result");
            files.wait(UPDATE - Duration::from_millis(1));
            assert_eq!(
                board.sample(&files),
                Ok(first),
                "{name}: between two results"
            );
            files.wait(Duration::from_millis(1));
            let next = board.sample(&files).expect("a result");
            news += u32::from(next != first);
        }
        assert!(news >= 15, "{name}: {news} of 20");
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
