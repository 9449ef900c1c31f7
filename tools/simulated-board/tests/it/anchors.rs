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
    let effects: Vec<_> = all.iter().filter(|anchor| anchor.unit == "%").collect();
    assert_eq!(effects.len(), 28);
    assert!(effects.iter().all(|anchor| anchor.bound == Bound::Sign));
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
    };
    assert!(!anchor(0.1, "%", Bound::Sign).held());
    assert!(anchor(-9.0, "%", Bound::Sign).held());
    assert!(!anchor(-2.3, "W", Bound::Percent(10.0)).held());
    assert!(anchor(-2.1, "W", Bound::Percent(10.0)).held());
}
