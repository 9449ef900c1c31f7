//! How the activity of a load changes power, the GPU's load file and progress.

use std::time::Duration;

use crate::common::{agx, gpu, load, ms, nano, number, pass};
use wattgate_board_tables::Domain;
use wattgate_simulated_board::load::{Load, Step};
use wattgate_simulated_board::machine::mode_errors::ModeErrors;
use wattgate_simulated_board::tree::Tree;

/// Mean power without ripple over 10 ms at an activity, in W. The tree is not changed, so each call
/// begins at the same die temperature.
fn calm_w(tree: &Tree, activity: f64) -> f64 {
    let mut tree = tree.clone();
    tree.jetson_mut().set_load(activity, 1.0);
    let before = tree.jetson().calm_energy_j();
    pass(&mut tree, ms(10));
    (tree.jetson().calm_energy_j() - before) / 0.01
}

fn busy() -> Tree {
    let mut tree = agx();
    load(&mut tree, "resnet18");
    pass(&mut tree, Duration::from_secs(20));
    tree
}

#[test]
fn power_is_linear_in_activity() {
    // At an activity of 0.05 or less the background work of an idle board shows.
    const LOW: f64 = 0.06;
    let tree = busy();
    let [low, half, full, more] = [LOW, 0.5, 1.0, 1.5].map(|activity| calm_w(&tree, activity));
    assert!(full > 1.5 * low, "{low} W nearly at rest, {full} W at work");
    for (found, activity) in [(half, 0.5), (more, 1.5)] {
        let expected = low + (activity - LOW) / (1.0 - LOW) * (full - low);
        assert!(
            (found / expected - 1.0).abs() < 1e-4,
            "{found}, not {expected}"
        );
    }
}

#[test]
fn each_domain_follows_the_activity() {
    let watts = |activity| {
        let mut tree = busy();
        tree.jetson_mut().set_load(activity, 1.0);
        pass(&mut tree, ms(1));
        tree.jetson().watts()
    };
    let (idle, full) = (watts(0.0), watts(1.0));
    for domain in [Domain::Cpu, Domain::Gpu, Domain::Dram] {
        assert!(full.get(domain) > 1.1 * idle.get(domain), "{domain:?}");
    }
    assert_eq!(full.get(Domain::System), idle.get(Domain::System));
}

#[test]
fn activity_multiplies_with_the_power_factor() {
    let tree = busy();
    let mut scaled = tree.clone();
    scaled.jetson_mut().set_power_factor(0.8);
    let (one, other) = (calm_w(&tree, 0.8), calm_w(&scaled, 1.0));
    assert!((one / other - 1.0).abs() < 1e-9, "{one}, {other}");
}

#[test]
fn the_gpus_load_file_shows_the_given_load() {
    let mut tree = nano();
    load(&mut tree, "resnet18");
    let path = gpu("device/load");
    pass(&mut tree, ms(20));
    assert!(number(&tree, &path) > 0);
    tree.jetson_mut().set_load(0.5, 0.123);
    assert_eq!(number(&tree, &path), 123);
    tree.jetson_mut().set_workload(None);
    pass(&mut tree, ms(20));
    assert_eq!(number(&tree, &path), 0);
}

#[test]
fn an_idle_workload_shows_the_background_work() {
    // A burst of 0.3 s about every 5.5 s: 3 of 55 s.
    let slices = |tree: &mut Tree, seconds: u32| {
        let slice = |_| {
            let before = tree.jetson().calm_energy_j();
            pass(tree, ms(10));
            (tree.jetson().calm_energy_j() - before) / 0.01
        };
        (0..100 * seconds).map(slice).collect::<Vec<f64>>()
    };
    let above = |watts: &[f64]| {
        let least = watts.iter().copied().fold(f64::INFINITY, f64::min);
        watts.iter().filter(|it| **it > 1.02 * least).count()
    };
    let mut tree = busy();
    tree.jetson_mut().set_load(0.0, 0.0);
    pass(&mut tree, Duration::from_secs(60));
    let bursts = above(&slices(&mut tree, 55));
    assert!((250..=350).contains(&bursts), "{bursts} of 5500");
    tree.jetson_mut().set_load(0.06, 0.0);
    assert_eq!(above(&slices(&mut tree, 11)), 0);
}

#[test]
fn work_counts_only_above_an_activity_of_0_05() {
    let done = |activity| {
        let mut tree = busy();
        let before = tree.jetson().minibatches();
        tree.jetson_mut().set_load(activity, 1.0);
        pass(&mut tree, Duration::from_secs(5));
        tree.jetson().minibatches() - before
    };
    let full = done(1.0);
    assert!(full > 1.0);
    assert_eq!(done(0.05), 0.0);
    for activity in [0.06, 2.0] {
        assert!((done(activity) / full - 1.0).abs() < 1e-9, "{activity}");
    }
}

#[test]
fn the_calm_energy_is_the_energy_without_its_noise() {
    let tree = busy();
    let seconds = |tree: &Tree| {
        let mut tree = tree.clone();
        let mut differences = Vec::new();
        for _ in 0..1000 {
            let [noisy, calm] = [tree.jetson().energy_j(), tree.jetson().calm_energy_j()];
            pass(&mut tree, ms(10));
            let noise = tree.jetson().energy_j() - noisy;
            differences.push(noise / (tree.jetson().calm_energy_j() - calm) - 1.0);
        }
        differences
    };
    let noise = seconds(&tree);
    let mean = noise.iter().sum::<f64>() / 1000.0;
    let spread = (noise.iter().map(|it| it * it).sum::<f64>() / 1000.0).sqrt();
    assert!(mean.abs() < 0.01, "{mean}");
    assert!((0.04..0.07).contains(&spread), "{spread}");
}

#[test]
fn a_load_is_played_to_the_microsecond() {
    let mut tree = busy();
    let start = tree.jetson().now();
    let at = |us| start + Duration::from_micros(us);
    let step = |from, activity| Step::new(from, activity);
    let steps = vec![step(Duration::ZERO, 1.0), step(at(1_234), 0.0)];
    tree.jetson_mut().keep_trace();
    tree.play(Load::new(steps, at(5_000)));
    pass(&mut tree, ms(5));
    let trace = tree.jetson_mut().take_trace();
    let falls = trace
        .windows(2)
        .filter(|pair| pair[1].calm_watts < 0.9 * pair[0].calm_watts);
    let falls: Vec<Duration> = falls.map(|pair| pair[0].until).collect();
    assert_eq!(falls, [at(1_234)]);
}

#[test]
fn the_trace_adds_up_to_the_energy() {
    let mut tree = busy();
    let mut before = tree.jetson().now();
    let [noisy, calm] = [tree.jetson().energy_j(), tree.jetson().calm_energy_j()];
    tree.jetson_mut().keep_trace();
    pass(&mut tree, Duration::from_secs(3));
    let (mut sum, mut calm_sum) = (0.0, 0.0);
    for segment in tree.jetson_mut().take_trace() {
        let seconds = (segment.until - before).as_secs_f64();
        sum += seconds * segment.watts;
        calm_sum += seconds * segment.calm_watts;
        before = segment.until;
    }
    assert_eq!(before, tree.jetson().now());
    assert!((sum - (tree.jetson().energy_j() - noisy)).abs() < 1e-6);
    assert!((calm_sum - (tree.jetson().calm_energy_j() - calm)).abs() < 1e-6);
}

#[test]
fn a_planted_error_is_a_factor_above_rest() {
    let tree = busy();
    let mut wrong = tree.clone();
    let errors = ModeErrors::Tilt {
        factors: [1.0, 1.25],
    };
    // In MAXN the GPU is at its highest clock.
    wrong.jetson_mut().set_mode_errors(errors);
    let [rest, full] = [0.0, 1.0].map(|activity| calm_w(&tree, activity));
    let found = calm_w(&wrong, 1.0);
    let expected = rest + 1.25 * (full - rest);
    assert!(
        (found / expected - 1.0).abs() < 1e-3,
        "{found}, not {expected}"
    );
    assert!((calm_w(&wrong, 0.0) / rest - 1.0).abs() < 1e-3);
}

#[test]
fn the_control_language_sets_the_activity() {
    let mut tree = nano();
    load(&mut tree, "resnet18");
    let path = gpu("device/load");
    for (line, permille) in [
        ("activity 0.25", 250),
        ("activity 0.5 0.9", 900),
        ("activity 3", 1000),
        ("activity 0", 0),
    ] {
        tree.control(line).expect(line);
        assert_eq!(number(&tree, &path), permille, "{line}");
    }
    for (line, expected) in [
        ("activity", "missing A"),
        ("activity 4.1", "A is `4.1`, expected 0 … 4"),
        ("activity 1 2", "G is `2`, expected 0 … 1"),
        ("activity 1 1 1", "`1` is one argument too many"),
    ] {
        let error = tree.control(line).expect_err(line);
        assert_eq!(error.to_string(), expected, "{line}");
    }
}
