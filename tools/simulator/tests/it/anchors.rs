//! The simulated boards beside published measurements.

use wattgate_simulated_board::anchors::{Anchor, Bound, Shipped, anchors};

fn all() -> Vec<Anchor> {
    anchors(&Shipped).expect("shipped boards and workloads")
}

#[test]
fn every_anchor_is_within_its_bound() {
    let missed: Vec<_> = all().into_iter().filter(|anchor| !anchor.held()).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn maxn_is_held_within_10_percent_in_time_and_8_in_power() {
    let all = all();
    let held = |unit| {
        let maxn = all
            .iter()
            .filter(|anchor| anchor.what.starts_with("orin-agx-64 MAXN"));
        maxn.filter(move |anchor| anchor.unit == unit)
            .collect::<Vec<_>>()
    };
    assert_eq!(held("min").len(), 5);
    assert!(
        held("min")
            .iter()
            .all(|anchor| anchor.bound == Bound::Percent(10.0))
    );
    assert_eq!(held("W").len(), 2);
    assert!(
        held("W")
            .iter()
            .all(|anchor| anchor.bound == Bound::Percent(8.0))
    );
}

#[test]
fn ranges_are_held_within_25_percent_and_effects_in_their_sign() {
    let all = all();
    let ranges: Vec<_> = all
        .iter()
        .filter(|anchor| anchor.what.contains(" range of "))
        .collect();
    assert_eq!(ranges.len(), 2);
    assert!(
        ranges
            .iter()
            .all(|anchor| anchor.bound == Bound::Percent(25.0))
    );
    let effects = effects(&all);
    assert_eq!(effects.len(), 28 + 14);
    assert!(effects.iter().all(|anchor| anchor.bound != Bound::None));
    let kept = effects.iter().all(|anchor| {
        anchor.published == 0.0 || anchor.simulated.signum() == anchor.published.signum()
    });
    assert!(kept, "{effects:#?}");
}

fn effects(all: &[Anchor]) -> Vec<&Anchor> {
    all.iter().filter(|anchor| anchor.unit == "%").collect()
}

#[test]
fn most_effects_are_within_10_points_and_those_of_storage_within_15() {
    let all = all();
    let effects = effects(&all);
    let within = |points: f64| {
        let near = effects
            .iter()
            .filter(|anchor| anchor.error().abs() <= points);
        100 * near.count() / effects.len()
    };
    assert!(within(10.0) >= 80, "{} %", within(10.0));
    let of_storage: Vec<_> = effects
        .iter()
        .filter(|anchor| ["ssd", "hdd"].iter().any(|kind| anchor.what.contains(kind)))
        .collect();
    assert_eq!(of_storage.len(), 4);
    assert!(of_storage.iter().all(|anchor| anchor.error().abs() <= 15.0));
}

#[test]
fn some_anchors_test_what_others_fitted() {
    let all = all();
    let tests = all.iter().filter(|anchor| !anchor.fitted);
    assert_eq!(tests.count(), 20);
}

#[test]
fn a_wrong_figure_is_seen() {
    let anchor = |simulated, unit, bound| Anchor {
        what: String::new(),
        source: "",
        unit,
        published: -2.0,
        simulated,
        bound,
        fitted: true,
    };
    assert!(!anchor(0.1, "%", Bound::Sign).held());
    assert!(anchor(-9.0, "%", Bound::Sign).held());
    assert!(!anchor(-2.3, "W", Bound::Percent(10.0)).held());
    assert!(anchor(-2.1, "W", Bound::Percent(10.0)).held());
}
