//! Loader workers, storage, page cache, minibatch sizes and energy of an epoch on AGX Xavier, from
//! Characterizing. Its figures of Xavier NX and Nano are left out: their tables of memory clocks are not
//! published, so these boards cannot be simulated.

use wattgate_board_tables::Board;

use super::anchor::Bound;
use super::catalogue::AnchorError;
use super::collection::{Anchors, CHARACTERIZING, epoch_s, steady};
use super::xavier::{XAVIER, labelled};
use crate::steady::Steady;
use crate::storage::{Epoch, STORAGES, Storage};
use crate::workload::Workload;

/// A setting of a training: workers, storage and epoch.
#[derive(Clone, Copy)]
struct Setting(u32, Storage, Epoch);

/// A workload on AGX Xavier at MAXN.
struct Subject {
    board: Board,
    workload: Workload,
}

impl Subject {
    fn new(anchors: &Anchors<'_>, name: &str) -> Result<Self, AnchorError> {
        Ok(Self {
            board: anchors.catalogue.board(XAVIER)?,
            workload: anchors.catalogue.workload(name)?,
        })
    }

    fn set(&self, Setting(workers, storage, epoch): Setting) -> Result<Workload, AnchorError> {
        let workload = self.workload.clone().with_workers(workers)?;
        Ok(workload.stored_on(&storage, epoch, &self.board)?)
    }

    /// Stall, time and energy of an epoch, in s and J.
    fn epoch(&self, setting: Setting) -> Result<[f64; 3], AnchorError> {
        let workload = self.set(setting)?;
        let at = steady(&self.board, &workload, self.board.maxn());
        let time = epoch_s(&workload, &at);
        let stall = at.step.stall * workload.minibatches();
        Ok([stall, time, time * at.watts.total()])
    }
}

/// The change from one figure to another, in percent.
fn change(from: f64, to: f64) -> f64 {
    100.0 * (to / from - 1.0)
}

/// Stalls and times over workers, storage and epochs (sections 5.1 and 5.2).
pub fn workers_and_storage(anchors: &mut Anchors<'_>) -> Result<(), AnchorError> {
    let [ssd, hdd, sd] = STORAGES;
    let mobilenet = Subject::new(anchors, "mobilenetv3")?;
    let measured_epoch =
        |workers, storage, epoch| mobilenet.epoch(Setting(workers, storage, epoch));
    let what = |text: &str| format!("{XAVIER} MAXN, mobilenetv3, {text}");
    let [alone, stalled] = [Bound::Percent(10.0), Bound::Percent(25.0)];
    let effect = Bound::Percent(15.0);

    for (storage, published) in [(ssd, 306.0), (sd, 485.0), (hdd, 741.0)] {
        let [stall, ..] = measured_epoch(0, storage, Epoch::First)?;
        anchors.add(
            what(&format!(
                "{}, no workers, first epoch: stalls",
                storage.name
            )),
            CHARACTERIZING,
            "s",
            published,
            stall,
            alone,
        );
    }
    let [from, ..] = measured_epoch(0, ssd, Epoch::First)?;
    for (storage, published) in [(sd, 485.0), (hdd, 741.0)] {
        let [to, ..] = measured_epoch(0, storage, Epoch::First)?;
        anchors.add(
            what(&format!(
                "ssd→{}, no workers, first epoch: stalls",
                storage.name
            )),
            CHARACTERIZING,
            "%",
            change(306.0, published),
            change(from, to),
            effect,
        );
    }
    let [first, ..] = measured_epoch(4, hdd, Epoch::First)?;
    anchors.add(
        what("hdd, 4 workers, first epoch: stalls"),
        CHARACTERIZING,
        "s",
        46.4,
        first,
        stalled,
    );
    anchors.test(
        what("hdd, 4 workers, cache dropped in each epoch: stalls"),
        CHARACTERIZING,
        "s",
        [49.91, first],
        stalled,
    );
    let [later, ..] = measured_epoch(4, hdd, Epoch::Later)?;
    anchors.test(
        what("hdd, 4 workers, first→later epochs: stalls"),
        CHARACTERIZING,
        "%",
        [change(46.4, 12.9), change(first, later)],
        effect,
    );
    for (storage, published) in [(ssd, 13.0), (sd, 13.1), (hdd, 12.9)] {
        let [stall, ..] = measured_epoch(4, storage, Epoch::Later)?;
        anchors.test(
            what(&format!(
                "{}, 4 workers, later epochs: stalls",
                storage.name
            )),
            CHARACTERIZING,
            "s",
            [published, stall],
            stalled,
        );
    }
    let [_, on_ssd, _] = measured_epoch(4, ssd, Epoch::Later)?;
    let [_, on_hdd, _] = measured_epoch(4, hdd, Epoch::Later)?;
    anchors.test(
        what("ssd→hdd, 4 workers, later epochs: epoch"),
        CHARACTERIZING,
        "%",
        [0.0, change(on_ssd, on_hdd)],
        effect,
    );
    pipelining(anchors)
}

/// What a first worker, and more of them, change in later epochs on the HDD (sections 5.1.3 to
/// 5.1.7).
fn pipelining(anchors: &mut Anchors<'_>) -> Result<(), AnchorError> {
    let [_, hdd, _] = STORAGES;
    let [lenet, mobilenet, resnet] = ["lenet", "mobilenetv3", "resnet18-cifar10"];
    let stalls = Subject::new(anchors, lenet)?.epoch(Setting(0, hdd, Epoch::Later))?[0];
    anchors.add(
        format!("{XAVIER} MAXN, lenet, no workers: stalls"),
        CHARACTERIZING,
        "s",
        22.0,
        stalls,
        Bound::Percent(10.0),
    );
    let quantities = ["stalls", "epoch", "energy"];
    for (name, from, to, at, published, bound) in [
        (lenet, 0, 1, 0, change(22.0, 12.1), Bound::Sign),
        (resnet, 0, 1, 0, change(1.9, 1.0), Bound::Sign),
        (resnet, 0, 1, 1, -2.9, Bound::Percent(15.0)),
        (mobilenet, 0, 1, 1, -50.0, Bound::Percent(15.0)),
        (mobilenet, 1, 4, 1, 0.0, Bound::Percent(15.0)),
        (lenet, 0, 4, 2, -5.4, Bound::Percent(15.0)),
        (mobilenet, 0, 4, 2, -20.1, Bound::Percent(15.0)),
    ] {
        let subject = Subject::new(anchors, name)?;
        let quantity = |workers| Ok(subject.epoch(Setting(workers, hdd, Epoch::Later))?[at]);
        let quantity = |workers| -> Result<f64, AnchorError> { quantity(workers) };
        let simulated = change(quantity(from)?, quantity(to)?);
        anchors.test(
            format!(
                "{XAVIER} MAXN, {name}, workers {from}→{to}: {}",
                quantities[at]
            ),
            CHARACTERIZING,
            "%",
            [published, simulated],
            bound,
        );
    }
    Ok(())
}

/// GPU time of a minibatch over its size (section 5.3.1).
pub fn minibatches(anchors: &mut Anchors<'_>) -> Result<(), AnchorError> {
    let Subject { board, workload } = Subject::new(anchors, "mobilenetv3")?;
    let gpu = |size| -> Result<f64, AnchorError> {
        let workload = workload.clone().with_minibatch(size)?;
        Ok(steady(&board, &workload, board.maxn()).step.gpu)
    };
    for (from, to, published) in [(1, 8, 1.4), (1, 16, 1.56), (16, 32, 361.0 / 195.0)] {
        anchors.test(
            format!("{XAVIER} MAXN, mobilenetv3, minibatch {from}→{to}: GPU time of a minibatch"),
            CHARACTERIZING,
            "×",
            [published, gpu(to)? / gpu(from)?],
            Bound::None,
        );
    }
    Ok(())
}

/// Energy of an epoch, and its range over modes without MAXN and its neighbours (sections 5.5.1 and
/// 5.6.3).
pub fn energy(anchors: &mut Anchors<'_>) -> Result<(), AnchorError> {
    let board = anchors.catalogue.board(XAVIER)?;
    let epoch_j = |workload: &Workload, at: &Steady| epoch_s(workload, at) * at.watts.total();
    for (name, published) in [
        ("lenet", -27.0),
        ("resnet18-cifar10", -6.0),
        ("mobilenetv3", -12.0),
    ] {
        let workload = anchors.catalogue.workload(name)?;
        let energies = ["a", "b", "c", "d", "e", "f", "k", "l", "m", "n"].map(|label| {
            epoch_j(
                &workload,
                &steady(&board, &workload, labelled(&board, label)),
            )
        });
        let most = energies.iter().copied().fold(0.0, f64::max);
        let least = energies.iter().copied().fold(f64::MAX, f64::min);
        anchors.test(
            format!("{XAVIER} modes a–f and k–n, {name}: energy, most→least"),
            CHARACTERIZING,
            "%",
            [published, change(most, least)],
            Bound::Sign,
        );
    }
    let resnet = anchors.catalogue.workload("resnet18-cifar10")?;
    let at = steady(&board, &resnet, board.maxn());
    anchors.test(
        format!("{XAVIER} MAXN, resnet18-cifar10: energy of an epoch"),
        CHARACTERIZING,
        "Wh",
        [3.03, epoch_j(&resnet, &at) / 3600.0],
        Bound::Percent(25.0),
    );
    Ok(())
}
