//! The control language: each fault has its effect, and each wrong line is named.

use std::time::Duration;

use crate::common::{OC2, cpu, emc, gpu, ina, load, ms, nano, number, order, pass};
use wattgate_simulated_board::tree::{Errno, Tree};

const RAILGATE: &str = "/sys/devices/platform/17000000.gpu/railgate_enable";

fn current(tree: &Tree) -> i64 {
    number(tree, &ina("curr1_input"))
}

#[test]
fn a_missing_sensor_has_no_files() {
    let mut tree = nano();
    order(&mut tree, "sensor VDD_IN missing");
    for file in ["in1_label", "in1_input", "curr1_input"] {
        assert_eq!(tree.read(&ina(file)), Err(Errno::Enoent), "{file}");
    }
    assert!(tree.read(&ina("curr2_input")).is_ok());
    order(&mut tree, "sensor VDD_IN ok");
    assert!(tree.read(&ina("curr1_input")).is_ok());
}

#[test]
fn a_frozen_sensor_keeps_its_value() {
    let mut tree = nano();
    order(&mut tree, "sensor VDD_IN frozen");
    let before = current(&tree);
    load(&mut tree, "resnet18");
    pass(&mut tree, Duration::from_secs(10));
    assert_eq!(current(&tree), before);
}

#[test]
fn a_late_sensor_shows_an_earlier_value() {
    let (mut tree, mut late) = (nano(), nano());
    order(&mut late, "sensor VDD_IN late 2.15");
    for tree in [&mut tree, &mut late] {
        load(tree, "resnet18");
        pass(tree, Duration::from_secs(10));
    }
    let then = current(&tree);
    pass(&mut late, ms(2150));
    assert_eq!(current(&late), then);
}

#[test]
fn the_delay_of_a_late_sensor_does_not_depend_on_the_samples() {
    let (mut tree, mut late) = (nano(), nano());
    order(&mut late, "sensor VDD_IN late 2.15");
    for tree in [&mut tree, &mut late] {
        order(tree, &format!("write {} 64", ina("samples")));
        load(tree, "resnet18");
        pass(tree, Duration::from_secs(10));
    }
    let then = current(&tree);
    pass(&mut tree, ms(2150));
    assert_ne!(current(&tree), then);
    pass(&mut late, ms(2150));
    assert_eq!(current(&late), then);
}

#[test]
fn a_sensor_can_be_a_minute_late() {
    for samples in [1, 64, 512] {
        let (mut tree, mut late) = (nano(), nano());
        order(&mut late, "sensor VDD_IN late 60");
        for tree in [&mut tree, &mut late] {
            order(tree, &format!("write {} {samples}", ina("samples")));
            pass(tree, Duration::from_secs(100));
        }
        let then = current(&tree);
        pass(&mut late, Duration::from_secs(60));
        assert_eq!(current(&late), then, "{samples} samples");
    }
}

#[test]
fn an_absurd_sensor_shows_full_scale() {
    let mut tree = nano();
    order(&mut tree, "sensor VDD_IN absurd");
    assert_eq!(current(&tree), 32_760);
    assert_eq!(number(&tree, &ina("in1_input")), 32_760);
}

#[test]
fn a_flipped_sensor_shows_negative_currents() {
    let mut tree = nano();
    let before = current(&tree);
    order(&mut tree, "sensor VDD_IN flipped");
    assert_eq!(current(&tree), -before);
}

#[test]
fn a_rail_offset_is_added_to_the_current() {
    let (mut plain, mut offset) = (nano(), nano());
    order(&mut offset, "offset VDD_IN 400");
    for tree in [&mut plain, &mut offset] {
        pass(tree, Duration::from_secs(10));
    }
    assert_eq!(current(&offset), current(&plain) + 400);
}

/// Events of OC1 that are visible so far.
fn under_voltage_events(tree: &Tree) -> i64 {
    number(tree, &OC2.replace("oc2", "oc1"))
}

#[test]
fn a_supply_sags_under_load_and_the_power_stays() {
    let (mut stiff, mut soft) = (nano(), nano());
    order(&mut soft, "supply 5000 60");
    for tree in [&mut stiff, &mut soft] {
        load(tree, "resnet18");
        pass(tree, Duration::from_secs(10));
    }
    let millivolts = |tree| number(tree, &ina("in1_input"));
    assert!((4_960..=5_040).contains(&millivolts(&stiff)));
    // Some 20 W at 4.76 V.
    assert!((4_700..=4_820).contains(&millivolts(&soft)));
    let [stiff_w, soft_w] = [&stiff, &soft].map(|tree| {
        let milliwatts = millivolts(tree) * current(tree) / 1000;
        milliwatts as f64 / 1e3
    });
    assert!((soft_w / stiff_w - 1.0).abs() < 0.02, "{soft_w} {stiff_w}");
    assert_eq!(under_voltage_events(&soft), 0);
}

#[test]
fn too_little_voltage_throttles_and_is_counted() {
    let (mut stiff, mut soft) = (nano(), nano());
    order(&mut soft, "supply 4600 60");
    for tree in [&mut stiff, &mut soft] {
        load(tree, "resnet18");
        pass(tree, Duration::from_secs(10));
    }
    assert_eq!(under_voltage_events(&stiff), 0);
    // One in each slice of 10 ms, published every 2 s.
    let events = under_voltage_events(&soft);
    assert!((700..=1_000).contains(&events), "{events}");
    let slower = soft.jetson().minibatches() / stiff.jetson().minibatches();
    assert!((0.85..0.99).contains(&slower), "{slower}");
}

#[test]
fn refused_writes_fail_with_their_errno_and_change_nothing() {
    let errnos = [Errno::Ebusy, Errno::Einval, Errno::Eio, Errno::Erofs];
    for errno in errnos {
        let mut tree = nano();
        order(&mut tree, &format!("refuse {RAILGATE} {errno}"));
        assert_eq!(tree.write(RAILGATE, "0"), Err(errno));
        assert_eq!(number(&tree, RAILGATE), 1);
        order(&mut tree, &format!("allow {RAILGATE}"));
        assert_eq!(tree.write(RAILGATE, "0"), Ok(()));
    }
}

#[test]
fn a_fault_of_a_file_holds_under_all_its_names() {
    let mut tree = nano();
    order(
        &mut tree,
        &format!("refuse {} EIO", cpu(2, "scaling_max_freq")),
    );
    let written = tree.write(&cpu(0, "scaling_max_freq"), "960000");
    assert_eq!(written, Err(Errno::Eio));
}

#[test]
fn ignored_writes_succeed_and_change_nothing() {
    let mut tree = nano();
    order(&mut tree, &format!("ignore {}", gpu("max_freq")));
    assert_eq!(tree.write(&gpu("max_freq"), "306000000"), Ok(()));
    assert_eq!(number(&tree, &gpu("max_freq")), 1_020_000_000);
}

#[test]
fn values_are_clamped_floored_and_rounded() {
    let max = gpu("max_freq");
    for (fault, wanted, shown) in [
        ("clamp", 1_020_000_000, 612_000_000),
        ("clamp", 306_000_000, 306_000_000),
        ("floor", 306_000_000, 612_000_000),
        ("floor", 714_000_000, 714_000_000),
        ("quantise", 714_000_000, 612_000_000),
    ] {
        let mut tree = nano();
        order(&mut tree, &format!("write {} 306000000", gpu("min_freq")));
        order(&mut tree, &format!("{fault} {max} 612000000"));
        assert_eq!(tree.write(&max, &wanted.to_string()), Ok(()), "{fault}");
        assert_eq!(number(&tree, &max), shown, "{fault} {wanted}");
        order(&mut tree, &format!("allow {max}"));
        tree.write(&max, "1020000000").expect("no fault");
        assert_eq!(number(&tree, &max), 1_020_000_000, "{fault}");
    }
}

#[test]
fn writes_take_effect_late_or_are_taken_back() {
    let max = gpu("max_freq");
    let shown = |fault: &str, after_ms| {
        let mut tree = nano();
        order(&mut tree, &format!("{fault} {max} 1"));
        tree.write(&max, "612000000").expect("a clock");
        pass(&mut tree, ms(after_ms));
        number(&tree, &max)
    };
    assert_eq!(shown("late", 990), 1_020_000_000);
    assert_eq!(shown("late", 1_010), 612_000_000);
    assert_eq!(shown("revert", 990), 612_000_000);
    assert_eq!(shown("revert", 1_010), 1_020_000_000);
}

#[test]
fn files_become_unreadable_or_vanish() {
    for (fault, errno) in [("unreadable", Errno::Eio), ("vanish", Errno::Enoent)] {
        let mut tree = nano();
        order(&mut tree, &format!("{fault} {RAILGATE}"));
        assert_eq!(tree.read(RAILGATE), Err(errno));
        let written = tree.write(RAILGATE, "0");
        assert_eq!(written.is_ok(), fault == "unreadable");
        order(&mut tree, &format!("allow {RAILGATE}"));
        assert_eq!(number(&tree, RAILGATE), i64::from(fault == "vanish"));
    }
}

#[test]
fn a_command_is_repeated_until_it_is_stopped() {
    let mut tree = nano();
    let max = gpu("max_freq");
    order(&mut tree, &format!("every 1 write {max} 1020000000"));
    for _ in 0..3 {
        tree.write(&max, "612000000").expect("a clock");
        pass(&mut tree, ms(1_000));
        assert_eq!(number(&tree, &max), 1_020_000_000);
    }
    order(&mut tree, "stop");
    tree.write(&max, "612000000").expect("a clock");
    pass(&mut tree, ms(3_000));
    assert_eq!(number(&tree, &max), 612_000_000);
}

#[test]
fn a_scheduled_load_starts_and_stops_at_its_times() {
    let mut tree = nano();
    order(&mut tree, "at 5 load resnet18");
    order(&mut tree, "at 10 load off");
    let watts_after = |tree: &mut Tree, seconds| {
        tree.advance(Duration::from_secs(seconds));
        pass(tree, ms(100));
        tree.jetson().watts().total()
    };
    let [before, during, after] = [4, 9, 14].map(|seconds| watts_after(&mut tree, seconds));
    assert!(during > 1.5 * before, "{before} {during} W");
    assert!(during > 1.5 * after, "{during} {after} W");
}

#[test]
fn a_higher_ambient_temperature_warms_the_board() {
    let mut tree = nano();
    let before = tree.jetson().die_c();
    order(&mut tree, "ambient 45");
    pass(&mut tree, Duration::from_secs(3600));
    let rise = tree.jetson().die_c() - before;
    assert!((15.0..25.0).contains(&rise), "{rise} K");
}

#[test]
fn the_factor_scales_what_the_workload_draws() {
    let energy = |workload: Option<&str>, factor: f64| {
        let mut tree = nano();
        workload.into_iter().for_each(|name| load(&mut tree, name));
        tree.nvpmodel(0).expect("a live change");
        order(&mut tree, &format!("power {factor}"));
        pass(&mut tree, Duration::from_secs(10));
        tree.jetson().energy_j()
    };
    let [low, one, high] = [0.7, 1.0, 1.3].map(|factor| energy(Some("resnet18"), factor));
    assert!(
        low < 0.95 * one && high > 1.05 * one,
        "{low} {one} {high} J"
    );
    // The way down and up are alike but for the heat.
    let ratio = (high - one) / (one - low);
    assert!((0.8..1.25).contains(&ratio), "{low} {one} {high} J");
    assert_eq!(energy(None, 0.7), energy(None, 1.3));
}

#[test]
fn nvpmodel_and_its_service_are_commands() {
    let mut tree = nano();
    order(&mut tree, "nvpmodel 1");
    order(&mut tree, &format!("write {} 510000000", gpu("max_freq")));
    order(&mut tree, "service");
    assert_eq!(number(&tree, &gpu("max_freq")), 918_000_000);
    order(&mut tree, "nvpmodel 0 container");
    assert_eq!(number(&tree, &gpu("max_freq")), 918_000_000);
    let refused = tree.control("nvpmodel 3").expect_err("another mask");
    assert!(refused.to_string().contains("Reboot required"));
}

#[test]
fn a_second_writer_writes_at_its_time() {
    let mut tree = nano();
    order(
        &mut tree,
        &format!("at 2.5 write {} 960000", cpu(0, "scaling_max_freq")),
    );
    order(&mut tree, "at 4 jetson-clocks");
    tree.advance(ms(2499));
    assert_eq!(number(&tree, &cpu(0, "scaling_max_freq")), 1_728_000);
    tree.advance(ms(2500));
    assert_eq!(number(&tree, &cpu(0, "scaling_max_freq")), 960_000);
    tree.advance(ms(4100));
    assert_eq!(number(&tree, &cpu(0, "scaling_min_freq")), 960_000);
    assert_eq!(number(&tree, &emc("mrq_rate_locked")), 1);
}

#[test]
fn a_crash_leaves_half_a_file_and_time_stands_still() {
    let mut tree = nano();
    pass(&mut tree, ms(10));
    order(&mut tree, &format!("crash {}", cpu(0, "scaling_max_freq")));
    let half = tree.read(&cpu(0, "scaling_max_freq"));
    assert_eq!(half.as_deref(), Ok("1728"));
    let before = tree.jetson().now();
    pass(&mut tree, ms(1000));
    assert_eq!(tree.jetson().now(), before);
    assert_eq!(tree.write(RAILGATE, "0"), Ok(()));
    assert_eq!(number(&tree, RAILGATE), 1);
}

#[test]
fn a_scheduled_command_that_fails_is_in_the_log() {
    let mut tree = nano();
    order(&mut tree, "at 1 nvpmodel 3");
    pass(&mut tree, Duration::from_secs(2));
    let last = tree.log().last().expect("two lines");
    assert!(
        last.starts_with("1.000 nvpmodel 3: error: Reboot required"),
        "{last}"
    );
}

#[test]
fn every_wrong_line_is_named() {
    let cases = [
        ("", "missing a command"),
        ("fly", "unknown command `fly`"),
        ("sensor", "missing a rail"),
        (
            "sensor VDD",
            "unknown rail `VDD`; there are VDD_IN, VDD_CPU_GPU_CV, VDD_SOC",
        ),
        (
            "sensor VDD_IN",
            "missing a sensor state (missing, frozen, late, absurd, flipped or ok)",
        ),
        (
            "sensor VDD_IN sad",
            "`sad`, expected missing, frozen, late, absurd, flipped or ok",
        ),
        ("sensor VDD_IN late 99", "SECONDS is `99`, expected 0 … 60"),
        ("sensor VDD_IN ok ok", "`ok` is one argument too many"),
        (
            "offset VDD_IN much",
            "MA is `much`, expected -32760 … 32760",
        ),
        ("refuse /sys/nothing EIO", "unknown path `/sys/nothing`"),
        (
            "refuse /etc/nvpmodel.conf EIO",
            "`/etc/nvpmodel.conf` is read-only",
        ),
        ("ignore", "missing a path"),
        ("load doom", "unknown workload `doom`; there are resnet18,"),
        (
            "load bert fast",
            "`fast`, expected `minibatch N` or `workers N`",
        ),
        ("load bert minibatch 0", "N is `0`, expected 1 … 1000000"),
        ("load bert workers", "missing N"),
        (
            "load bert workers 65",
            "bert: `loader.workers` is 65, expected 0 … 64",
        ),
        ("power 2", "FACTOR is `2`, expected 0.7 … 1.3"),
        ("ambient NaN", "CELSIUS is `NaN`, expected -40 … 85"),
        ("cool emc 204000", "`emc`, expected cpu or gpu"),
        (
            "cool cpu 1",
            "`1`, expected a clock of the board's table or `off`",
        ),
        ("throttle 1", "DIVISOR is `1`, expected 2 … 16"),
        ("supply 5", "MV is `5`, expected 1000 … 32760"),
        ("supply 5000", "missing MOHM"),
        ("nvpmodel 9", "unknown mode 9; there are 0 15W, 1 25W,"),
        (
            "nvpmodel 1 quickly",
            "`quickly`, expected `container` or nothing",
        ),
        (
            "at never load off",
            "SECONDS is `never`, expected 0 … 32000000",
        ),
        ("at 1", "missing a command"),
        ("at 1 fly", "unknown command `fly`"),
    ];
    let mut tree = nano();
    for (line, expected) in cases {
        let error = tree.control(line).expect_err(line).to_string();
        assert!(error.starts_with(expected), "`{line}`: {error}");
        let logged = tree.log().last().expect("a line");
        assert!(logged.contains(expected), "`{line}`: {logged}");
    }
    let refused = format!("write {RAILGATE} maybe");
    let error = tree.control(&refused).expect_err("no number").to_string();
    assert_eq!(error, format!("{RAILGATE}: EINVAL"));
    let unknown = tree.control(&format!("refuse {RAILGATE} EPERM"));
    let expected = "`EPERM`, expected EBUSY, EINVAL, EIO or EROFS";
    assert_eq!(unknown.expect_err("no such").to_string(), expected);
    let nothing = tree.control(&format!("allow {RAILGATE}"));
    let expected = format!("`{RAILGATE}` has no fault to clear; `refuse` and `ignore` make faults");
    assert_eq!(nothing.expect_err("no fault").to_string(), expected);
}
