//! Times, stalls, power and effects of single knobs on AGX Xavier, from PowerTrain and
//! Characterizing.

use wattgate_board_tables::Board;

use super::anchor::Bound;
use super::catalogue::AnchorError;
use super::collection::{Anchors, CHARACTERIZING, POWERTRAIN, epoch_s, steady};
use crate::corpus::{CHARACTERIZING_MODES, nearest};
use crate::steady::{Steady, idle};
use crate::unit::Unit;

pub const XAVIER: &str = "xavier-agx";

/// Times, stalls and power of AGX Xavier.
pub fn times_and_power(anchors: &mut Anchors<'_>) -> Result<(), AnchorError> {
    let board = anchors.catalogue.board(XAVIER)?;
    let maxn = board.maxn();
    let resnet = anchors.catalogue.workload("resnet18")?;
    let at = steady(&board, &resnet, maxn);
    anchors.add(
        format!("{XAVIER} MAXN, resnet18: epoch"),
        POWERTRAIN,
        "min",
        8.47,
        epoch_s(&resnet, &at) / 60.0,
        Bound::Percent(25.0),
    );
    anchors.add(
        format!("{XAVIER} MAXN, resnet18: power"),
        POWERTRAIN,
        "W",
        36.4,
        at.watts.total(),
        Bound::Percent(25.0),
    );
    for (name, seconds) in [("resnet18-cifar10", 349.0), ("mobilenetv3", 298.0)] {
        let workload = anchors.catalogue.workload(name)?;
        let at = steady(&board, &workload, maxn);
        anchors.add(
            format!("{XAVIER} MAXN, {name}: epoch"),
            CHARACTERIZING,
            "s",
            seconds,
            epoch_s(&workload, &at),
            Bound::Percent(25.0),
        );
    }
    let cifar = anchors.catalogue.workload("resnet18-cifar10")?;
    let at = steady(&board, &cifar, maxn);
    anchors.add(
        format!("{XAVIER} MAXN, resnet18-cifar10: power"),
        CHARACTERIZING,
        "W",
        31.2,
        at.watts.total(),
        Bound::Percent(25.0),
    );
    let mobilenet = anchors.catalogue.workload("mobilenetv3")?;
    let stalled = steady(&board, &mobilenet, maxn).step.stall * mobilenet.minibatches();
    anchors.add(
        format!("{XAVIER} MAXN, mobilenetv3: stalls of an epoch"),
        CHARACTERIZING,
        "s",
        13.0,
        stalled,
        Bound::None,
    );
    let idle = idle(&board, &Unit::NOMINAL, false);
    anchors.add(
        format!("{XAVIER} MAXN, idle, clocks fixed: power"),
        CHARACTERIZING,
        "W",
        7.527,
        idle.total(),
        Bound::Percent(25.0),
    );
    for (name, part) in [("lenet", 0.725), ("resnet18-cifar10", 0.24)] {
        let workload = anchors.catalogue.workload(name)?;
        let total = steady(&board, &workload, maxn).watts.total();
        anchors.add(
            format!("{XAVIER} MAXN, idle power against that of {name}"),
            CHARACTERIZING,
            "×",
            part,
            idle.total() / total,
            Bound::Percent(25.0),
        );
    }
    let mut slow = maxn;
    slow[2] = 114_750;
    let slow = steady(&board, &cifar, slow);
    anchors.add(
        format!("{XAVIER} GPU at 114.75 MHz against MAXN, resnet18-cifar10: time"),
        CHARACTERIZING,
        "×",
        10.3,
        slow.step.period / at.step.period,
        Bound::Percent(25.0),
    );
    anchors.add(
        format!("{XAVIER} MAXN against GPU at 114.75 MHz, resnet18-cifar10: power"),
        CHARACTERIZING,
        "×",
        3.6,
        at.watts.total() / slow.watts.total(),
        Bound::Percent(25.0),
    );
    let energy = |s: &Steady| s.step.period * s.watts.total();
    anchors.add(
        format!("{XAVIER} MAXN against GPU at 114.75 MHz, resnet18-cifar10: energy"),
        CHARACTERIZING,
        "×",
        0.4,
        energy(&at) / energy(&slow),
        Bound::Percent(25.0),
    );
    for (name, part) in [("resnet18-cifar10", 0.11), ("mobilenetv3", 0.25)] {
        let workload = anchors.catalogue.workload(name)?;
        let step = steady(&board, &workload, maxn).step;
        anchors.add(
            format!("{XAVIER} MAXN, {name}: part of the CPU in use"),
            CHARACTERIZING,
            "×",
            part,
            (step.loader_cpu + step.main_cpu) / step.period / 8.0,
            Bound::None,
        );
    }
    for (label, name, seconds) in [
        ("b", "resnet18-cifar10", 632.0),
        ("c", "resnet18-cifar10", 491.0),
        ("b", "mobilenetv3", 505.0),
        ("c", "mobilenetv3", 441.0),
        ("b", "lenet", 38.4),
        ("c", "lenet", 40.5),
    ] {
        let workload = anchors.catalogue.workload(name)?;
        let at = steady(&board, &workload, labelled(&board, label));
        anchors.add(
            format!("{XAVIER} mode {label}, {name}: GPU time of an epoch"),
            CHARACTERIZING,
            "s",
            seconds,
            at.step.gpu * workload.minibatches(),
            Bound::None,
        );
    }
    Ok(())
}

type Of = fn(&Steady) -> f64;

/// Effects of single knobs on AGX Xavier.
pub fn effects(anchors: &mut Anchors<'_>) -> Result<(), AnchorError> {
    let board = anchors.catalogue.board(XAVIER)?;
    let (gpu, stall): (Of, Of) = (|s| s.step.gpu, |s| s.step.stall);
    let epoch: Of = |s| s.step.period;
    let [resnet, mobilenet, lenet] = ["resnet18-cifar10", "mobilenetv3", "lenet"];
    for (from, to, name, quantity, what, effect) in [
        ("b", "c", resnet, gpu, "GPU time", -22.3),
        ("b", "c", mobilenet, gpu, "GPU time", -12.6),
        ("b", "c", lenet, gpu, "GPU time", 5.0),
        ("d", "e", resnet, stall, "stalls", -35.0),
        ("d", "e", mobilenet, stall, "stalls", -35.0),
        ("d", "e", lenet, stall, "stalls", -35.0),
        ("d", "e", resnet, gpu, "GPU time", -2.0),
        ("d", "e", mobilenet, gpu, "GPU time", -9.7),
        ("d", "e", lenet, gpu, "GPU time", -36.8),
        ("d", "e", lenet, epoch, "epoch", -13.5),
        ("a", "b", resnet, stall, "stalls", -18.5),
        ("a", "b", mobilenet, stall, "stalls", -18.5),
        ("a", "b", lenet, stall, "stalls", -18.5),
        ("e", "f", resnet, stall, "stalls", 47.0),
        ("e", "f", mobilenet, stall, "stalls", 47.0),
        ("e", "f", lenet, stall, "stalls", 54.4),
        ("e", "f", resnet, gpu, "GPU time", 1.9),
        ("e", "f", mobilenet, gpu, "GPU time", 15.6),
        ("e", "f", lenet, gpu, "GPU time", 35.9),
        ("h", "g", resnet, gpu, "GPU time", -25.8),
        ("h", "g", mobilenet, gpu, "GPU time", -28.0),
        ("h", "g", lenet, gpu, "GPU time", -33.4),
        ("h", "g", resnet, stall, "stalls", -27.5),
        ("h", "g", mobilenet, stall, "stalls", -28.1),
        ("h", "g", lenet, stall, "stalls", -34.4),
        ("k", "l", lenet, gpu, "GPU time", -14.6),
        ("l", "m", lenet, gpu, "GPU time", -46.3),
        ("m", "n", lenet, gpu, "GPU time", -6.8),
    ] {
        let workload = anchors.catalogue.workload(name)?;
        let value = |label| quantity(&steady(&board, &workload, labelled(&board, label)));
        let change = 100.0 * (value(to) / value(from) - 1.0);
        anchors.add(
            format!("{XAVIER} {from}→{to}, {name}: {what}"),
            CHARACTERIZING,
            "%",
            effect,
            change,
            Bound::Sign,
        );
    }
    Ok(())
}

/// A mode of Characterizing by its label.
pub fn labelled(board: &Board, label: &str) -> [u32; 4] {
    let (_, mode) = CHARACTERIZING_MODES
        .iter()
        .find(|(known, _)| *known == label)
        .expect("a label of the table");
    nearest(board, *mode)
}
