//! A query of a front selects the mode that an exhaustive search selects.

use std::collections::BTreeSet;

use crate::common;
use proptest::prelude::*;
use wattgate_runtime::front::Point;
use wattgate_runtime::grid::{Axis, Grid};
use wattgate_runtime::idle::Idle;
use wattgate_runtime::model::Prediction;
use wattgate_runtime::network::{Workspace, workspace_pairs};
use wattgate_runtime::region::ConstraintError;
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{
    Confidence, Front, Kilohertz, Microseconds, Milliwatts, ModeId, Model, Objective, Query,
    Region, SelectError,
};

/// Sort key of the exhaustive search: the objective, then the tie-breakers.
type Key = (u128, u32, u32, i32, i32, u16);

struct Mode {
    id: ModeId,
    at: Prediction,
    power: u32,
}

fn all_modes(model: &Model<'_>, region: &Region) -> Vec<Mode> {
    let mut modes = Vec::new();
    model.sweep(region, |id, at| {
        modes.push(Mode {
            id,
            at,
            power: model.power(at).map_or(0, |power| power.0),
        });
    });
    modes
}

/// The specification of a query, without a front.
fn exhaustive(
    model: &Model<'_>,
    modes: &[Mode],
    confidence: Confidence,
    query: &Query,
) -> Result<ModeId, SelectError> {
    let margins = model.margins(confidence).expect("supported");
    let guarded = |mode: &Mode| model.guarded_power(mode.at, &margins).unwrap_or_default();
    let power = |mode: &Mode| guarded(mode).0;
    let time = |mode: &Mode| model.guarded_time(mode.at, &margins).0;
    let key = |mode: &&Mode| -> Key {
        let (p, t) = (u128::from(guarded(mode).0), u128::from(time(mode)));
        let value = match query.objective {
            Objective::Time => t,
            Objective::Power => p,
            Objective::Energy => {
                let waits = query
                    .deadline
                    .map_or(0, |it| u128::from(it.0).saturating_sub(t));
                p * t + u128::from(query.idle.power(guarded(mode)).0) * waits
            }
            Objective::EnergyDelay => p * t * t,
        };
        (
            value,
            guarded(mode).0,
            time(mode),
            model.guarded_log_power(mode.at, &margins),
            model.guarded_log_time(mode.at, &margins),
            mode.id.0,
        )
    };
    let in_time = |mode: &&Mode| {
        query
            .deadline
            .is_none_or(|deadline| time(mode) <= deadline.0)
    };
    let fits = |mode: &&Mode| query.power_limit.is_none_or(|limit| power(mode) <= limit.0);
    if let Some(best) = modes.iter().filter(in_time).filter(fits).min_by_key(key) {
        return Ok(best.id);
    }
    match modes.iter().filter(in_time).map(power).min() {
        Some(least) => Err(SelectError::OverLimit {
            least_power: Milliwatts(least),
        }),
        None => Err(SelectError::TooSlow {
            least_time: Microseconds(modes.iter().map(time).min().expect("a grid has modes")),
        }),
    }
}

/// Limits around the quantiles of the values, and beyond both ends.
fn limits(values: impl Iterator<Item = u32>) -> Vec<Option<u32>> {
    let values: Vec<u32> = values.collect::<BTreeSet<_>>().into_iter().collect();
    let last = values.len() - 1;
    let at = (0..=8).map(|part| values[last * part / 8]);
    let around = at.flat_map(|v| [v.saturating_sub(1), v, v.saturating_add(v / 16)]);
    [None, Some(0), Some(u32::MAX)]
        .into_iter()
        .chain(around.map(Some))
        .collect()
}

fn regions(grid: &Grid) -> Vec<Region> {
    let all = Region::all(grid);
    let (cores, emc) = (grid.axis(Axis::Cores), grid.axis(Axis::Emc));
    let half = cores[cores.len() / 2];
    let emc = Kilohertz(emc[emc.len() / 2]);
    let narrow = all.with_min_cores(grid, half).expect("on offer");
    vec![all, narrow, narrow.with_emc(grid, emc).expect("on offer")]
}

fn compare_all_queries(bytes: &[u8]) {
    let model = Model::parse(bytes).expect("a valid model");
    for region in regions(model.grid()) {
        let modes = all_modes(&model, &region);
        assert_eq!(modes.len(), region.modes());
        let deadlines = limits(modes.iter().map(|mode| model.time(mode.at).0));
        let powers = limits(modes.iter().map(|mode| mode.power));
        let (objectives, powers): (&[_], _) = if model.has_power() {
            (
                &[
                    Objective::Time,
                    Objective::Power,
                    Objective::Energy,
                    Objective::EnergyDelay,
                ],
                powers,
            )
        } else {
            (&[Objective::Time], vec![None])
        };
        let idle = |base, share| Idle {
            base: Milliwatts(base),
            share,
        };
        let cases = [
            (5_000, Idle::NONE),
            (9_200, idle(900, 20_000)),
            (9_900, idle(0, 65_535)),
        ];
        for (confidence, idle) in cases {
            let confidence = Confidence::new(confidence).expect("in range");
            let front = Front::<512>::from_model(&model, &region, confidence);
            assert!(!front.is_thinned());
            for &objective in objectives {
                for &power_limit in &powers {
                    for &deadline in &deadlines {
                        let query = Query {
                            objective,
                            power_limit: power_limit.map(Milliwatts),
                            deadline: deadline.map(Microseconds),
                            idle,
                        };
                        let choice = front.select(&query);
                        let expected = exhaustive(&model, &modes, confidence, &query);
                        assert_eq!(choice.map(|choice| choice.mode), expected, "{query:?}");
                        if let (Ok(choice), Some(limit)) = (choice, power_limit) {
                            let guarded = choice.guarded_power.expect("known");
                            assert!(guarded <= Milliwatts(limit));
                            assert!(choice.power.expect("known") <= guarded);
                        }
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn a_front_answers_as_an_exhaustive_search_does(
        grid in common::grids(),
        shape in common::small_shapes(),
        outputs in proptest::sample::select(vec![1, 2, 2, 3, 3, 3]),
        seed in any::<u64>(),
    ) {
        compare_all_queries(&common::random_model(&grid, shape, outputs, seed));
    }

    /// A random front has many local minima of energy.
    #[test]
    fn the_least_energy_of_any_part_of_a_front_is_found(
        steps in proptest::collection::vec((1..60_000_i32, 1..60_000_i32), 1..300),
        parts in proptest::collection::vec(any::<[proptest::sample::Index; 2]>(), 20),
    ) {
        let grid = Grid::new([&[1], &[1], &[1], &[1]]).expect("a grid");
        let bytes = common::random_model(&grid, Shape::Wide16, 3, 1);
        let model = Model::parse(&bytes).expect("a model");
        let mut at = Prediction { log_power: 1_000_000, log_time: 15_000_000, spread: 0 };
        let modes = steps.iter().enumerate().map(|(id, (power, time))| {
            at.log_power += power;
            at.log_time -= time;
            (ModeId(id as u16), at)
        });
        let front = Front::<300>::of_modes(&model, modes, Confidence::P50);
        let points = front.points();
        for ends in parts {
            let [a, b] = ends.map(|end| end.index(points.len()));
            let part = &points[a.min(b)..=a.max(b)];
            for objective in [Objective::Energy, Objective::EnergyDelay] {
                // The ratio of the time is one at this confidence.
                let query = Query {
                    objective,
                    power_limit: Some(points[a.max(b)].guarded),
                    deadline: Some(points[a.min(b)].guarded_time),
                    ..Query::default()
                };
                let delay = if objective == Objective::Energy { 1 } else { 2 };
                let cost = |point: &&Point| {
                    u128::from(point.guarded.0) * u128::from(point.guarded_time.0).pow(delay)
                };
                let best = part.iter().min_by_key(cost).expect("not empty");
                let choice = front.select(&query).expect("a mode");
                prop_assert_eq!(choice.mode, best.mode);
            }
        }
    }

    /// Many points have equal powers, times, or both.
    #[test]
    fn a_front_keeps_exactly_the_modes_that_no_other_dominates(
        points in proptest::collection::vec((-9..9_i32, -9..9_i32), 1..200),
    ) {
        let grid = Grid::new([&[1], &[1], &[1], &[1]]).expect("a grid");
        let bytes = common::random_model(&grid, Shape::Wide16, 3, 1);
        let model = Model::parse(&bytes).expect("a model");
        // Distinct log values give distinct values in mW and µs.
        let at = |&(power, time): &(i32, i32)| Prediction {
            log_power: 14_000_000 + power * 10_000,
            log_time: 14_000_000 + time * 10_000,
            spread: 0,
        };
        let modes = points.iter().enumerate().map(|(id, point)| (ModeId(id as u16), at(point)));
        let front = Front::<256>::of_modes(&model, modes, Confidence::P95);
        let kept: Vec<u16> = front.points().iter().map(|p| p.mode.0).collect();
        let dominates = |(i, a): (usize, &(i32, i32)), (j, b): (usize, &(i32, i32))| {
            a.0 <= b.0 && a.1 <= b.1 && (a != b || i < j)
        };
        let mut expected: Vec<u16> = (0..points.len())
            .filter(|&j| !points.iter().enumerate().any(|a| dominates(a, (j, &points[j]))))
            .map(|j| j as u16)
            .collect();
        expected.sort_by_key(|&id| points[usize::from(id)].0);
        prop_assert_eq!(kept, expected);
    }

    /// A thinned front keeps the least power, and selects no faster mode than the full one.
    #[test]
    fn a_thinned_front_never_exceeds_a_limit(
        grid in common::grids(),
        seed in any::<u64>(),
    ) {
        let bytes = common::random_model(&grid, Shape::Wide16, 3, seed);
        let model = Model::parse(&bytes).expect("a model");
        let region = Region::all(&grid);
        let full = Front::<512>::from_model(&model, &region, Confidence::P95);
        let thin = Front::<4>::from_model(&model, &region, Confidence::P95);
        prop_assert!(thin.is_thinned() || thin.points().len() == full.points().len());
        let least = |points: &[Point]| points.first().map(|point| point.guarded);
        prop_assert_eq!(least(thin.points()), least(full.points()));
        prop_assert!(thin.points().is_sorted_by(|a, b| a.guarded < b.guarded && a.guarded_time > b.guarded_time));
        let modes = all_modes(&model, &region);
        for limit in limits(modes.iter().map(|mode| mode.power)).into_iter().flatten() {
            let query = Query { power_limit: Some(Milliwatts(limit)), ..Query::default() };
            match (thin.select(&query), full.select(&query)) {
                (Ok(thin), Ok(full)) => {
                    prop_assert!(thin.guarded_power <= Some(Milliwatts(limit)));
                    prop_assert!(thin.guarded_time >= full.guarded_time);
                }
                (thin, full) => prop_assert_eq!(thin, full),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// A sweep may skip modes without a comparison. How many it skips depends on the target and
    /// must not change the front.
    #[test]
    fn the_front_of_a_sweep_is_that_of_its_modes(
        grid in common::grids(),
        shape in common::small_shapes(),
        seed in any::<u64>(),
    ) {
        let bytes = common::random_model(&grid, shape, 3, seed);
        let model = Model::parse(&bytes).expect("a model");
        let region = Region::all(&grid);
        let mut modes = Vec::new();
        model.sweep(&region, |mode, at| modes.push((mode, at)));
        let swept = Front::<5>::from_model(&model, &region, Confidence::P95);
        let offered = Front::<5>::of_modes(&model, modes.iter().copied(), Confidence::P95);
        prop_assert_eq!(swept.points(), offered.points());
        let swept = Front::<512>::from_model(&model, &region, Confidence::P95);
        let offered = Front::<512>::of_modes(&model, modes, Confidence::P95);
        prop_assert_eq!(swept.points(), offered.points());
    }
}

#[cfg(feature = "large-shapes")]
#[test]
fn the_large_shape_answers_as_an_exhaustive_search_does() {
    let grid = Grid::new([&[1, 2, 4], &[100, 200, 400], &[300, 600], &[500, 800]]).expect("a grid");
    for seed in 0..3 {
        compare_all_queries(&common::random_model(&grid, Shape::PowerTrain, 3, seed));
    }
}

#[test]
fn a_time_only_model_refuses_every_query_about_power() {
    let grid = Grid::new([&[1, 2], &[100, 200], &[300], &[500, 800]]).expect("a grid");
    let bytes = common::random_model(&grid, Shape::Wide16, 1, 7);
    let model = Model::parse(&bytes).expect("a model");
    let front = Front::<8>::from_model(&model, &model.profiled(), Confidence::P95);
    let limited = Query {
        power_limit: Some(Milliwatts(5_000)),
        ..Query::default()
    };
    assert_eq!(front.select(&limited), Err(SelectError::NoPower));
    for objective in [Objective::Power, Objective::Energy, Objective::EnergyDelay] {
        let query = Query {
            objective,
            ..Query::default()
        };
        assert_eq!(front.select(&query), Err(SelectError::NoPower));
    }
    let fastest = front.select(&Query::default()).expect("a mode");
    assert_eq!((fastest.power, fastest.guarded_power), (None, None));
}

#[test]
fn a_region_of_another_grid_gives_an_error() {
    let grid = Grid::new([&[1, 2], &[100, 200], &[300], &[500, 800]]).expect("a grid");
    let other = Grid::new([&[1, 2], &[100, 200], &[300, 400], &[500, 800]]).expect("a grid");
    let bytes = common::random_model(&grid, Shape::Wide16, 3, 7);
    let model = Model::parse(&bytes).expect("a model");
    let mut front = Front::<8>::from_model(&model, &Region::all(&other), Confidence::P95);
    assert_eq!(front.select(&Query::default()), Err(SelectError::OtherGrid));
    assert_eq!(
        Region::all(&other).with_min_cores(&grid, 1),
        Err(ConstraintError::OtherGrid)
    );
    assert_eq!(
        Region::all(&other).with_emc(&grid, Kilohertz(500)),
        Err(ConstraintError::OtherGrid)
    );

    let mut workspace = Workspace::<{ workspace_pairs(Shape::Wide16, 6) }>::new();
    let mut network = workspace.network(&model).expect("enough");
    front.rebuild(&mut network, &Region::all(&grid), Confidence::P95);
    assert!(front.select(&Query::default()).is_ok());
    front = Front::of_modes(&model, [], Confidence::P95);
    assert_eq!(
        front.select(&Query::default()),
        Err(SelectError::EmptyFront)
    );
}
