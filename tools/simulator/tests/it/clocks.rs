//! Clocks follow requests, over-current events and heat as on real boards. Sections are those of
//! `jetson-platform.md`.

use std::time::Duration;

use wattgate_simulated_board::tree::{Errno, Tree};

use crate::common::{
    GPU_TRUE, OC2, OC3, agx, booted, cpu, emc, gpu, ina, load, ms, nano, number, order, pass,
    pin_cpu, pin_gpu, write,
};

/// Every clock of an Orin Nano at its highest, whatever the load.
fn pin_highest(tree: &mut Tree) {
    pin_cpu(tree, 0, 1_728_000);
    pin_cpu(tree, 4, 1_728_000);
    pin_gpu(tree, 1_020_000_000);
    pass(tree, ms(10));
}

#[test]
fn a_cpu_clock_takes_effect_1_ms_after_the_request() {
    // Sections 8 and 0, fact 7.
    let mut tree = booted("orin-agx-64", Some(0));
    pin_cpu(&mut tree, 0, 1_190_400);
    pass(&mut tree, ms(5));
    pin_cpu(&mut tree, 0, 2_201_600);
    pass(&mut tree, Duration::from_micros(999));
    assert_eq!(number(&tree, &cpu(0, "cpuinfo_cur_freq")), 1_190_400);
    pass(&mut tree, Duration::from_micros(1));
    assert_eq!(number(&tree, &cpu(0, "cpuinfo_cur_freq")), 2_201_600);
}

#[test]
fn a_gpu_clock_takes_effect_5_ms_after_the_request() {
    // Sections 8 and 0, fact 7.
    let mut tree = booted("orin-nano-8-super", Some(1));
    pin_gpu(&mut tree, 408_000_000);
    pass(&mut tree, Duration::from_micros(4999));
    assert_eq!(number(&tree, GPU_TRUE), 306_000_000);
    pass(&mut tree, Duration::from_micros(1));
    assert_eq!(number(&tree, GPU_TRUE), 408_000_000);
}

#[test]
fn a_memory_clock_takes_effect_8_ms_after_the_request() {
    // Sections 8 and 0, fact 7.
    let mut tree = agx();
    write(&mut tree, &emc("mrq_rate_locked"), 1);
    write(&mut tree, &emc("rate"), 2_133_000_000_u64);
    pass(&mut tree, Duration::from_micros(7999));
    assert_eq!(number(&tree, &emc("rate")), 204_000_000);
    pass(&mut tree, Duration::from_micros(1));
    assert_eq!(number(&tree, &emc("rate")), 2_133_000_000);
}

#[test]
fn requested_effective_and_true_clock_are_three_values() {
    // Section 8.2: scaling_cur_freq = requested, cpuinfo_cur_freq = true.
    let mut tree = booted("orin-nano-8-super", Some(1));
    pin_cpu(&mut tree, 0, 1_190_400);
    write(&mut tree, &ina("curr1_max"), 8);
    pass(&mut tree, ms(20));
    pin_cpu(&mut tree, 0, 1_344_000);
    assert_eq!(number(&tree, &cpu(0, "scaling_cur_freq")), 1_344_000);
    assert_eq!(tree.jetson().cpu_effective_khz(0), 1_190_400);
    assert_eq!(number(&tree, &cpu(0, "cpuinfo_cur_freq")), 595_200);
}

#[test]
fn a_clock_that_is_not_in_the_table_is_rounded() {
    // Sections 0, fact 10, and 4; to the nearest one, as a Nano was seen to do (addendum).
    let mut tree = nano();
    write(&mut tree, &cpu(0, "scaling_max_freq"), 1_200_000);
    assert_eq!(number(&tree, &cpu(0, "scaling_max_freq")), 1_190_400);
    write(&mut tree, &gpu("max_freq"), 1_000_000_000);
    assert_eq!(number(&tree, &gpu("max_freq")), 1_020_000_000);
}

#[test]
fn a_memory_rate_that_is_not_in_the_table_is_dropped_without_an_error() {
    // Section 5.3.
    let mut tree = agx();
    write(&mut tree, &emc("mrq_rate_locked"), 1);
    write(&mut tree, &emc("rate"), 665_600_000);
    write(&mut tree, &emc("rate"), 700_000_000);
    pass(&mut tree, ms(10));
    assert_eq!(number(&tree, &emc("rate")), 665_600_000);
}

#[test]
fn a_memory_rate_above_the_ceiling_is_dropped_without_an_error() {
    // Section 5.3: the effective ceiling is the lower one of BPMP's and nvpmodel's.
    let mut tree = agx();
    let cap = "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap";
    assert_eq!(number(&tree, cap), 0, "0 = none up to R35");
    write(&mut tree, cap, 2_133_000_000_u64);
    write(&mut tree, &emc("mrq_rate_locked"), 1);
    write(&mut tree, &emc("rate"), 3_199_000_000_u64);
    pass(&mut tree, ms(10));
    assert_eq!(number(&tree, &emc("rate")), 204_000_000);
}

#[test]
fn a_memory_lock_takes_the_rate_that_was_written_before_it() {
    // Section 5.3: one script writes cap, unlock, rate, lock in that order.
    let mut tree = nano();
    write(
        &mut tree,
        "/sys/kernel/nvpmodel_clk_cap/emc",
        3_199_000_000_u64,
    );
    write(&mut tree, &emc("mrq_rate_locked"), 0);
    write(&mut tree, &emc("rate"), 3_199_000_000_u64);
    write(&mut tree, &emc("mrq_rate_locked"), 1);
    pass(&mut tree, ms(10));
    assert_eq!(number(&tree, &emc("rate")), 3_199_000_000);
}

#[test]
fn a_core_can_be_written_to_through_any_online_member_of_its_cluster() {
    // Section 5.1: one policy per cluster.
    let mut tree = nano();
    write(&mut tree, &cpu(3, "scaling_max_freq"), 960_000);
    assert_eq!(number(&tree, &cpu(0, "scaling_max_freq")), 960_000);
    assert_eq!(number(&tree, &cpu(4, "scaling_max_freq")), 1_728_000);
}

#[test]
fn a_minimum_above_the_maximum_is_refused() {
    // Section 5.1 asks for an order of writes; that the wrong one gives EINVAL is decided.
    let mut tree = nano();
    write(&mut tree, &cpu(0, "scaling_max_freq"), 960_000);
    let min = tree.write(&cpu(0, "scaling_min_freq"), "1036800");
    assert_eq!(min, Err(Errno::Einval));
    assert_eq!(number(&tree, &cpu(0, "scaling_min_freq")), 729_600);
    write(&mut tree, &gpu("min_freq"), 612_000_000);
    let max = tree.write(&gpu("max_freq"), "510000000");
    assert_eq!(max, Err(Errno::Einval));
}

#[test]
fn the_highest_request_in_a_cluster_wins() {
    // Section 1. One process runs, on cpu0: its cluster follows it, the other one does not.
    let mut tree = nano();
    load(&mut tree, "yolov8n");
    pass(&mut tree, ms(2));
    assert_eq!(number(&tree, &cpu(3, "scaling_cur_freq")), 1_728_000);
    assert_eq!(number(&tree, &cpu(4, "scaling_cur_freq")), 729_600);
}

#[test]
fn over_current_counters_are_published_every_2_s() {
    // Section 6.4.
    let mut tree = nano();
    pin_highest(&mut tree);
    let mut changed_at = Vec::new();
    for at in 1..=1000 {
        let before = number(&tree, OC3);
        tree.advance(ms(10 * (at + 1)));
        if number(&tree, OC3) != before {
            changed_at.push(10 * (at + 1));
        }
    }
    assert_eq!(changed_at, [2000, 4000, 6000, 8000, 10_000]);
}

#[test]
fn over_current_events_do_not_depend_on_the_load() {
    // Sections 0, fact 8, and 6.4.
    let events = |workload: Option<&str>| {
        let mut tree = nano();
        workload.into_iter().for_each(|name| load(&mut tree, name));
        pin_highest(&mut tree);
        pass(&mut tree, Duration::from_secs(300));
        number(&tree, OC3) as f64
    };
    let (idle, loaded) = (events(None), events(Some("mobilenetv3")));
    assert!((0.9..1.1).contains(&(idle / loaded)), "{idle} {loaded}");
    assert!((1.0..30.0).contains(&(idle / 300.0)), "{idle} in 300 s");
}

#[test]
fn the_mode_25w_has_27_times_fewer_over_current_events_than_maxn_super() {
    // Section 6.4.
    let events = |mode| {
        let mut tree = booted("orin-nano-8-super", Some(mode));
        load(&mut tree, "mobilenetv3");
        pass(&mut tree, Duration::from_secs(2000));
        number(&tree, OC3) as f64
    };
    let fewer = events(2) / events(1);
    assert!((20.0..36.0).contains(&fewer), "{fewer} times");
}

#[test]
fn oc3_throttling_shows_in_cpuinfo_cur_freq_only() {
    // Sections 0, fact 8, and 6.4: half the clocks for about 1 ms.
    let mut tree = nano();
    pin_highest(&mut tree);
    let mut throttled_us = 0;
    for _ in 0..200_000 {
        pass(&mut tree, Duration::from_micros(100));
        assert_eq!(number(&tree, &cpu(0, "scaling_cur_freq")), 1_728_000);
        assert_eq!(number(&tree, &gpu("cur_freq")), 1_020_000_000);
        match number(&tree, &cpu(0, "cpuinfo_cur_freq")) {
            1_728_000 => assert_eq!(number(&tree, GPU_TRUE), 1_020_000_000),
            864_000 => {
                assert_eq!(number(&tree, GPU_TRUE), 510_000_000);
                throttled_us += 100;
            }
            khz => panic!("{khz} kHz"),
        }
    }
    let events = number(&tree, OC3);
    let each_us = f64::from(throttled_us) / events as f64;
    assert!((1000.0..1200.0).contains(&each_us), "{each_us} µs an event");
}

#[test]
fn oc2_throttles_while_the_warning_alarm_holds() {
    // Section 8.2.
    let mut tree = booted("orin-nano-8-super", Some(1));
    pin_cpu(&mut tree, 0, 1_344_000);
    let limit = number(&tree, &ina("curr1_max"));
    write(&mut tree, &ina("curr1_max"), 8);
    pass(&mut tree, ms(20));
    assert_eq!(number(&tree, &ina("curr1_max_alarm")), 1);
    assert_eq!(number(&tree, &cpu(0, "cpuinfo_cur_freq")), 672_000);
    write(&mut tree, &ina("curr1_max"), limit);
    pass(&mut tree, ms(2000));
    assert_eq!(number(&tree, &ina("curr1_max_alarm")), 0);
    assert_eq!(number(&tree, &cpu(0, "cpuinfo_cur_freq")), 1_344_000);
    assert_eq!(number(&tree, OC2), 1);
}

/// A board under load in hot air, one second at a time until its die has a temperature.
fn heat(tree: &mut Tree, celsius: f64) {
    load(tree, "resnet18");
    write(tree, "/sys/devices/platform/pwm-fan/hwmon/hwmon1/pwm1", 0);
    for _ in 0..100_000 {
        if tree.jetson().die_c() >= celsius {
            return;
        }
        pass(tree, ms(100));
    }
    panic!("{:.1} °C at most", tree.jetson().die_c());
}

#[test]
fn at_99_degrees_the_cpu_clock_is_lowered_once_a_second() {
    // Section 7: passive trip, polling 1000 ms.
    let mut tree = nano();
    tree.jetson_mut().set_ambient_c(85.0);
    heat(&mut tree, 99.0);
    tree.jetson_mut().set_ambient_c(100.0);
    pass(&mut tree, ms(1000));
    assert_eq!(number(&tree, &cpu(0, "scaling_cur_freq")), 1_651_200);
    pass(&mut tree, ms(1000));
    assert_eq!(number(&tree, &cpu(0, "scaling_cur_freq")), 1_574_400);
    assert_eq!(number(&tree, &gpu("cur_freq")), 1_020_000_000);
}

#[test]
fn the_limits_show_what_cooling_allows() {
    // Addendum: `scaling_max_freq` and `max_freq` show the effective limit.
    let mut tree = nano();
    pin_highest(&mut tree);
    order(&mut tree, "cool cpu 883200");
    order(&mut tree, "cool gpu 408000");
    pass(&mut tree, ms(20));
    for file in [
        "scaling_min_freq",
        "scaling_max_freq",
        "scaling_cur_freq",
        "cpuinfo_cur_freq",
    ] {
        assert_eq!(number(&tree, &cpu(0, file)), 883_200, "{file}");
    }
    for file in ["min_freq", "max_freq", "cur_freq"] {
        assert_eq!(number(&tree, &gpu(file)), 408_000_000, "{file}");
    }
    // Linux 5.15: cooling devices of the two clusters, then of the GPU.
    let device =
        |at: u32, file| tree.read(&format!("/sys/class/thermal/cooling_device{at}/{file}"));
    assert_eq!(device(1, "type").as_deref(), Ok("cpufreq-cpu4\n"));
    assert_eq!(device(1, "cur_state").as_deref(), Ok("11\n"));
    assert_eq!(device(2, "type").as_deref(), Ok("devfreq-17000000.gpu\n"));
    assert_eq!(device(2, "cur_state").as_deref(), Ok("6\n"));
    // The request stays, and a higher one changes nothing.
    write(&mut tree, &cpu(0, "scaling_max_freq"), 1_728_000);
    assert_eq!(number(&tree, &cpu(0, "scaling_max_freq")), 883_200);
    order(&mut tree, "cool cpu off");
    order(&mut tree, "cool gpu off");
    assert_eq!(number(&tree, &cpu(0, "scaling_max_freq")), 1_728_000);
    assert_eq!(number(&tree, &gpu("max_freq")), 1_020_000_000);
}

#[test]
fn throttling_by_firmware_shows_in_the_true_clocks_only() {
    // Addendum: `scaling_cur_freq` said 2,601 MHz, `cpuinfo_cur_freq` 242 … 649 MHz.
    let mut tree = nano();
    pin_highest(&mut tree);
    order(&mut tree, "throttle 4");
    pass(&mut tree, ms(20));
    assert_eq!(number(&tree, &cpu(0, "scaling_cur_freq")), 1_728_000);
    assert_eq!(number(&tree, &cpu(0, "cpuinfo_cur_freq")), 432_000);
    assert_eq!(number(&tree, &gpu("cur_freq")), 1_020_000_000);
    order(&mut tree, "throttle off");
    pass(&mut tree, ms(20));
    assert_eq!(number(&tree, &cpu(0, "cpuinfo_cur_freq")), 1_728_000);
}

#[test]
fn at_101_degrees_the_bpmp_throttles() {
    // Section 7; the depths are assumed.
    let mut tree = nano();
    tree.jetson_mut().set_ambient_c(120.0);
    heat(&mut tree, 101.0);
    assert_eq!(number(&tree, GPU_TRUE), 510_000_000);
    heat(&mut tree, 103.0);
    assert_eq!(number(&tree, GPU_TRUE), 255_000_000);
}

#[test]
fn at_104_5_degrees_the_board_shuts_down() {
    // Section 7.
    let mut tree = nano();
    tree.jetson_mut().set_ambient_c(120.0);
    heat(&mut tree, 104.4);
    pass(&mut tree, Duration::from_secs(60));
    assert!(tree.jetson().is_off());
    assert_eq!(tree.read(GPU_TRUE), Err(Errno::Eshutdown));
    assert_eq!(tree.jetson().watts().total(), 0.0);
}

#[test]
fn gated_tpcs_slow_the_gpu() {
    // Section 3: a set bit gates a TPC.
    let progress = |mode| {
        let mut tree = booted("orin-agx-64", Some(mode));
        load(&mut tree, "vgg11");
        write(&mut tree, &cpu(0, "scaling_max_freq"), 1_728_000);
        let max = "/sys/devices/gpu.0/devfreq/17000000.ga10b/max_freq";
        write(&mut tree, max, 318_750_000);
        pass(&mut tree, Duration::from_secs(20));
        tree.jetson().minibatches()
    };
    let (four, eight) = (progress(2), progress(0));
    assert!(eight > 1.3 * four, "{four} and {eight} minibatches");
}
