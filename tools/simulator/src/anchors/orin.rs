//! Epoch times and power of AGX Orin, from PowerTrain.

use super::anchor::Bound;
use super::catalogue::AnchorError;
use super::collection::{Anchors, POWERTRAIN, epoch_s, steady};
use crate::steady::Steady;

const ORIN: &str = "orin-agx-64";

/// Epoch times in minutes and power in W, with all clocks at their maximum.
pub fn maxn(anchors: &mut Anchors<'_>) -> Result<(), AnchorError> {
    let board = anchors.catalogue.board(ORIN)?;
    for (name, minutes, watts) in [
        ("resnet18", 3.05, Some(51.1)),
        ("mobilenetv3", 2.3, None),
        ("yolov8n", 4.9, None),
        ("bert", 68.6, Some(57.0)),
        ("lstm", 0.4, None),
    ] {
        let workload = anchors.catalogue.workload(name)?;
        let steady = steady(&board, &workload, board.maxn());
        anchors.add(
            format!("{ORIN} MAXN, {name}: epoch"),
            POWERTRAIN,
            "min",
            minutes,
            epoch_s(&workload, &steady) / 60.0,
            Bound::Percent(10.0),
        );
        if let Some(watts) = watts {
            anchors.add(
                format!("{ORIN} MAXN, {name}: power"),
                POWERTRAIN,
                "W",
                watts,
                steady.watts.total(),
                Bound::Percent(8.0),
            );
        }
    }
    Ok(())
}

/// The lowest profiled mode, the range over all of them, and the optimum under a limit.
pub fn grid(anchors: &mut Anchors<'_>) -> Result<(), AnchorError> {
    let board = anchors.catalogue.board(ORIN)?;
    let modes = board.papers_modes();
    let resnet = anchors.catalogue.workload("resnet18")?;
    let all: Vec<Steady> = modes
        .iter()
        .map(|&knobs| steady(&board, &resnet, knobs))
        .collect();
    let period = |s: &Steady| s.step.period;
    let power = |s: &Steady| s.watts.total();
    // Modes are in ascending order of their knobs.
    let lowest = &all[0];
    anchors.add(
        format!("{ORIN} lowest mode, resnet18: epoch"),
        POWERTRAIN,
        "min",
        112.0,
        epoch_s(&resnet, lowest) / 60.0,
        Bound::Percent(25.0),
    );
    anchors.add(
        format!("{ORIN} lowest mode, resnet18: power"),
        POWERTRAIN,
        "W",
        11.8,
        power(lowest),
        Bound::Percent(25.0),
    );
    let range = |figure: &dyn Fn(&Steady) -> f64| {
        let (least, most) = all
            .iter()
            .map(figure)
            .fold((f64::MAX, 0.0), |(a, b): (f64, f64), v| {
                (a.min(v), b.max(v))
            });
        most / least
    };
    anchors.add(
        format!("{ORIN} range of time over the profiled modes, resnet18"),
        POWERTRAIN,
        "×",
        36.0,
        range(&period),
        Bound::Percent(25.0),
    );
    anchors.add(
        format!("{ORIN} range of power over the profiled modes, resnet18"),
        POWERTRAIN,
        "×",
        4.3,
        range(&power),
        Bound::Percent(25.0),
    );
    let mobilenet = anchors.catalogue.workload("mobilenetv3")?;
    let fastest = modes
        .iter()
        .map(|&knobs| steady(&board, &mobilenet, knobs))
        .filter(|s| power(s) <= 30.0)
        .min_by(|a, b| period(a).total_cmp(&period(b)))
        .expect("a mode within 30 W");
    anchors.add(
        format!("{ORIN} fastest mode within 30 W, mobilenetv3: epoch"),
        POWERTRAIN,
        "s",
        186.0,
        epoch_s(&mobilenet, &fastest),
        Bound::Percent(25.0),
    );
    Ok(())
}
