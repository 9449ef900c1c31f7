//! Published measurements of real boards, each beside what the simulated board says.
//!
//! Sources: PowerTrain (Future Generation Computer Systems 2024), Characterizing
//! (SIGMETRICS 2023), and, for rails and idle loads, forum threads and logs of users. The
//! constants of boards and workloads were chosen to meet them; a test holds the bounds.

use serde::Serialize;

use crate::pipeline::Clocks;
use crate::power::{Activity, Watts};
use crate::steady::{Steady, settled};
use crate::unit::Unit;
use crate::workload::{Workload, WorkloadError};
use wattgate_board_tables::{Board, BoardError};

const POWERTRAIN: &str = "PowerTrain";
const CHARACTERIZING: &str = "Characterizing";
const FORUM_MAX: &str = "NVIDIA forum 323456";
const ORIN: &str = "orin-agx-64";
const XAVIER: &str = "xavier-agx";

/// A published figure and the simulated one.
#[derive(Clone, Debug, Serialize)]
pub struct Anchor {
    /// What was measured.
    pub what: String,
    /// Who published it.
    pub source: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// As published.
    pub published: f64,
    /// As simulated.
    pub simulated: f64,
    /// What must hold.
    pub bound: Bound,
}

/// What must hold of an anchor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Differs by no more than so many percent.
    Percent(f64),
    /// Has the same sign.
    Sign,
    /// Nothing: shown only.
    None,
}

impl Anchor {
    /// How far the simulated figure is off, in percent of the published one; of effects,
    /// which are in percent themselves, in points.
    pub fn error(&self) -> f64 {
        match self.unit {
            "%" => self.simulated - self.published,
            _ => 100.0 * (self.simulated / self.published - 1.0),
        }
    }

    /// Whether the bound is held.
    pub fn held(&self) -> bool {
        match self.bound {
            Bound::Percent(most) => self.error().abs() <= most,
            Bound::Sign => self.simulated.signum() == self.published.signum(),
            Bound::None => true,
        }
    }
}

/// Where boards and workloads come from.
pub trait Catalogue {
    /// A board that can be simulated.
    fn board(&self, name: &str) -> Result<Board, BoardError>;
    /// A workload.
    fn workload(&self, name: &str) -> Result<Workload, WorkloadError>;
}

/// Those that are shipped.
#[derive(Clone, Copy, Debug)]
pub struct Shipped;

impl Catalogue for Shipped {
    fn board(&self, name: &str) -> Result<Board, BoardError> {
        Board::named(name)
    }

    fn workload(&self, name: &str) -> Result<Workload, WorkloadError> {
        Workload::named(name)
    }
}

/// Why there are no anchors.
#[derive(Debug, thiserror::Error)]
pub enum AnchorError {
    #[error(transparent)]
    Board(#[from] BoardError),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// Collects anchors.
struct Anchors<'a> {
    catalogue: &'a dyn Catalogue,
    all: Vec<Anchor>,
}

/// All anchors, in the order of their sources.
pub fn anchors(catalogue: &dyn Catalogue) -> Result<Vec<Anchor>, AnchorError> {
    let mut anchors = Anchors {
        catalogue,
        all: Vec::new(),
    };
    anchors.maxn()?;
    anchors.grid()?;
    anchors.xavier()?;
    anchors.effects()?;
    anchors.rails()?;
    Ok(anchors.all)
}

impl Anchors<'_> {
    fn add(
        &mut self,
        what: impl Into<String>,
        source: &'static str,
        unit: &'static str,
        published: f64,
        simulated: f64,
        bound: Bound,
    ) {
        self.all.push(Anchor {
            what: what.into(),
            source,
            unit,
            published,
            simulated,
            bound,
        });
    }

    /// Epoch times in minutes and watts with all clocks at their highest.
    fn maxn(&mut self) -> Result<(), AnchorError> {
        let board = self.catalogue.board(ORIN)?;
        for (name, minutes, watts) in [
            ("resnet18", 3.05, Some(51.1)),
            ("mobilenetv3", 2.3, None),
            ("yolov8n", 4.9, None),
            ("bert", 68.6, Some(57.0)),
            ("lstm", 0.4, None),
        ] {
            let workload = self.catalogue.workload(name)?;
            let steady = steady(&board, &workload, board.maxn());
            self.add(
                format!("{ORIN} MAXN, {name}: epoch"),
                POWERTRAIN,
                "min",
                minutes,
                epoch_s(&workload, &steady) / 60.0,
                Bound::Percent(10.0),
            );
            if let Some(watts) = watts {
                self.add(
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
    fn grid(&mut self) -> Result<(), AnchorError> {
        let board = self.catalogue.board(ORIN)?;
        let modes = board.papers_modes();
        let resnet = self.catalogue.workload("resnet18")?;
        let all: Vec<Steady> = modes
            .iter()
            .map(|&knobs| steady(&board, &resnet, knobs))
            .collect();
        let period = |s: &Steady| s.step.period;
        let power = |s: &Steady| s.watts.total();
        // Lowest knobs stand first.
        let lowest = &all[0];
        self.add(
            format!("{ORIN} lowest mode, resnet18: epoch"),
            POWERTRAIN,
            "min",
            112.0,
            epoch_s(&resnet, lowest) / 60.0,
            Bound::Percent(25.0),
        );
        self.add(
            format!("{ORIN} lowest mode, resnet18: power"),
            POWERTRAIN,
            "W",
            11.8,
            power(lowest),
            Bound::Percent(25.0),
        );
        let range = |of: &dyn Fn(&Steady) -> f64| {
            let (least, most) = all
                .iter()
                .map(of)
                .fold((f64::MAX, 0.0), |(a, b): (f64, f64), v| {
                    (a.min(v), b.max(v))
                });
            most / least
        };
        self.add(
            format!("{ORIN} range of time over the profiled modes, resnet18"),
            POWERTRAIN,
            "×",
            36.0,
            range(&period),
            Bound::Percent(25.0),
        );
        self.add(
            format!("{ORIN} range of power over the profiled modes, resnet18"),
            POWERTRAIN,
            "×",
            4.3,
            range(&power),
            Bound::Percent(25.0),
        );
        let mobilenet = self.catalogue.workload("mobilenetv3")?;
        let fastest = modes
            .iter()
            .map(|&knobs| steady(&board, &mobilenet, knobs))
            .filter(|s| power(s) <= 30.0)
            .min_by(|a, b| period(a).total_cmp(&period(b)))
            .expect("a mode within 30 W");
        self.add(
            format!("{ORIN} fastest mode within 30 W, mobilenetv3: epoch"),
            POWERTRAIN,
            "s",
            186.0,
            epoch_s(&mobilenet, &fastest),
            Bound::Percent(25.0),
        );
        Ok(())
    }

    /// Times, stalls and power of AGX Xavier.
    fn xavier(&mut self) -> Result<(), AnchorError> {
        let board = self.catalogue.board(XAVIER)?;
        let maxn = board.maxn();
        let resnet = self.catalogue.workload("resnet18")?;
        let at = steady(&board, &resnet, maxn);
        self.add(
            format!("{XAVIER} MAXN, resnet18: epoch"),
            POWERTRAIN,
            "min",
            8.47,
            epoch_s(&resnet, &at) / 60.0,
            Bound::Percent(25.0),
        );
        self.add(
            format!("{XAVIER} MAXN, resnet18: power"),
            POWERTRAIN,
            "W",
            36.4,
            at.watts.total(),
            Bound::Percent(25.0),
        );
        for (name, seconds) in [("resnet18-cifar10", 349.0), ("mobilenetv3", 298.0)] {
            let workload = self.catalogue.workload(name)?;
            let at = steady(&board, &workload, maxn);
            self.add(
                format!("{XAVIER} MAXN, {name}: epoch"),
                CHARACTERIZING,
                "s",
                seconds,
                epoch_s(&workload, &at),
                Bound::Percent(25.0),
            );
        }
        let cifar = self.catalogue.workload("resnet18-cifar10")?;
        let at = steady(&board, &cifar, maxn);
        self.add(
            format!("{XAVIER} MAXN, resnet18-cifar10: power"),
            CHARACTERIZING,
            "W",
            31.2,
            at.watts.total(),
            Bound::Percent(25.0),
        );
        let mobilenet = self.catalogue.workload("mobilenetv3")?;
        let stalled = steady(&board, &mobilenet, maxn).step.stall * mobilenet.minibatches();
        self.add(
            format!("{XAVIER} MAXN, mobilenetv3: stalls of an epoch"),
            CHARACTERIZING,
            "s",
            13.0,
            stalled,
            Bound::None,
        );
        let (idle, _) = settled(
            &board,
            &Unit::NOMINAL,
            &Clocks::of(&board, maxn),
            &Activity {
                gpu_on: true,
                ..Activity::IDLE
            },
        );
        self.add(
            format!("{XAVIER} MAXN, idle, clocks fixed: power"),
            CHARACTERIZING,
            "W",
            7.527,
            idle.total(),
            Bound::Percent(25.0),
        );
        for (name, part) in [("lenet", 0.725), ("resnet18-cifar10", 0.24)] {
            let workload = self.catalogue.workload(name)?;
            let total = steady(&board, &workload, maxn).watts.total();
            self.add(
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
        self.add(
            format!("{XAVIER} GPU at 114.75 MHz against MAXN, resnet18-cifar10: time"),
            CHARACTERIZING,
            "×",
            10.3,
            slow.step.period / at.step.period,
            Bound::Percent(25.0),
        );
        self.add(
            format!("{XAVIER} MAXN against GPU at 114.75 MHz, resnet18-cifar10: power"),
            CHARACTERIZING,
            "×",
            3.6,
            at.watts.total() / slow.watts.total(),
            Bound::Percent(25.0),
        );
        let energy = |s: &Steady| s.step.period * s.watts.total();
        self.add(
            format!("{XAVIER} MAXN against GPU at 114.75 MHz, resnet18-cifar10: energy"),
            CHARACTERIZING,
            "×",
            0.4,
            energy(&at) / energy(&slow),
            Bound::Percent(25.0),
        );
        for (name, part) in [("resnet18-cifar10", 0.11), ("mobilenetv3", 0.25)] {
            let workload = self.catalogue.workload(name)?;
            let step = steady(&board, &workload, maxn).step;
            self.add(
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
            let workload = self.catalogue.workload(name)?;
            let at = steady(&board, &workload, labelled(&board, label));
            self.add(
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

    /// What changing one knob does on AGX Xavier.
    fn effects(&mut self) -> Result<(), AnchorError> {
        let board = self.catalogue.board(XAVIER)?;
        let (gpu, stall): (Of, Of) = (|s| s.step.gpu, |s| s.step.stall);
        let epoch: Of = |s| s.step.period;
        let [resnet, mobilenet, lenet] = ["resnet18-cifar10", "mobilenetv3", "lenet"];
        for (from, to, name, of, what, effect) in [
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
            let workload = self.catalogue.workload(name)?;
            let value = |label| of(&steady(&board, &workload, labelled(&board, label)));
            let change = 100.0 * (value(to) / value(from) - 1.0);
            self.add(
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

    /// Rails of AGX Orin under stress and idle, and totals of the small Orins.
    fn rails(&mut self) -> Result<(), AnchorError> {
        let board = self.catalogue.board("orin-agx-64-jp6")?;
        for (id, gpu, cpu) in [
            (0, 40.4, 15.2),
            (3, 18.4, 6.0),
            (2, 7.6, 5.6),
            (1, 5.2, 1.6),
        ] {
            let clocks = clocks_of_preset(&board, id);
            let name = &board.modes[id].name;
            let stressed = drawn(&board, &clocks, &gpu_stress(&board, &clocks));
            self.add(
                format!("{} {name}, GPU stress: VDD_GPU_SOC", board.name),
                FORUM_MAX,
                "W",
                gpu,
                stressed.gpu + stressed.soc,
                Bound::Percent(25.0),
            );
            let stressed = drawn(&board, &clocks, &cpu_stress(&clocks));
            self.add(
                format!("{} {name}, CPU stress: VDD_CPU_CV", board.name),
                FORUM_MAX,
                "W",
                cpu,
                stressed.cpu,
                Bound::Percent(25.0),
            );
        }
        // A board at rest has let its clocks fall.
        let low = board.axes().map(|axis| axis[0]);
        let rest = Clocks {
            cores: 12.0,
            clusters: 3.0,
            ..Clocks::of(&board, low)
        };
        let idle = drawn(&board, &rest, &Activity::IDLE);
        let published = [
            ("VDD_GPU_SOC", 2.4),
            ("VDD_CPU_CV", 0.4),
            ("VIN_SYS_5V0", 4.0),
            ("VDDQ_VDD2_1V8AO", 0.3),
        ];
        for (rail, (label, watts)) in board.rails.iter().zip(published) {
            assert_eq!(rail.label, label, "rails of {}", board.name);
            self.add(
                format!("{} idle: {label}", board.name),
                "a user's tegrastats",
                "W",
                watts,
                rail.domains.iter().map(|&domain| idle.of(domain)).sum(),
                Bound::Percent(40.0),
            );
        }
        let board = self.catalogue.board("orin-nx-16-super")?;
        let low = board.axes().map(|axis| axis[0]);
        let rest = Clocks {
            cores: 8.0,
            clusters: 2.0,
            ..Clocks::of(&board, low)
        };
        let idle = drawn(&board, &rest, &Activity::IDLE);
        self.add(
            format!("{} idle: VDD_IN", board.name),
            "ARK",
            "W",
            4.6,
            idle.total(),
            Bound::Percent(25.0),
        );
        for (id, watts) in [(3, 16.9), (4, 27.6), (0, 29.4)] {
            let clocks = clocks_of_preset(&board, id);
            let both = Activity {
                cores: clocks.cores,
                ..gpu_stress(&board, &clocks)
            };
            let name = &board.modes[id].name;
            self.add(
                format!("{} {name}, CPU and GPU stress: VDD_IN", board.name),
                "ARK",
                "W",
                watts,
                drawn(&board, &clocks, &both).total(),
                Bound::Percent(25.0),
            );
        }
        let board = self.catalogue.board("orin-nano-8-super")?;
        let low = board.axes().map(|axis| axis[0]);
        let idle = drawn(&board, &Clocks::of(&board, low), &Activity::IDLE);
        self.add(
            format!("{} tuned floor: VDD_IN", board.name),
            "NVIDIA forum 348662",
            "W",
            2.18,
            idle.total(),
            Bound::Percent(25.0),
        );
        // 2.09 A at 5 V; what the robot did beside the stress is not published.
        let clocks = Clocks::of(&board, board.maxn());
        let stressed = drawn(&board, &clocks, &cpu_stress(&clocks));
        self.add(
            format!(
                "{} MAXN_SUPER, six-core stress of a robot: VDD_IN",
                board.name
            ),
            "a user's log",
            "W",
            10.45,
            stressed.total(),
            Bound::None,
        );
        Ok(())
    }
}

type Of = fn(&Steady) -> f64;

fn steady(board: &Board, workload: &Workload, knobs: [u32; 4]) -> Steady {
    Steady::of(board, &Unit::NOMINAL, workload, &Clocks::of(board, knobs))
}

fn drawn(board: &Board, clocks: &Clocks, activity: &Activity) -> Watts {
    settled(board, &Unit::NOMINAL, clocks, activity).0
}

fn epoch_s(workload: &Workload, steady: &Steady) -> f64 {
    steady.step.period * workload.minibatches()
}

/// Every core computes.
fn cpu_stress(clocks: &Clocks) -> Activity {
    Activity {
        cores: clocks.cores,
        ..Activity::IDLE
    }
}

/// Large matrix products at nine tenths of the GPU's peak.
fn gpu_stress(board: &Board, clocks: &Clocks) -> Activity {
    let gpu = &board.physics().gpu;
    let flop = 0.9e9 * clocks.gpu_ghz * gpu.flop_per_cycle * clocks.tpcs;
    // Blocked products reuse each byte some 40 times.
    Activity {
        cores: 0.3,
        waiting_cores: 0.7,
        gpu: 1.0,
        flop,
        gpu_bytes: flop / 40.0,
        bytes: flop / 80.0,
        gpu_on: true,
    }
}

/// The clocks of a mode of nvpmodel, its gated TPCs included.
fn clocks_of_preset(board: &Board, id: usize) -> Clocks {
    let preset = &board.modes[id];
    Clocks {
        tpcs: board.powered_tpcs(preset.tpc_pg_mask),
        ..Clocks::of(board, board.knobs_of(preset))
    }
}

/// The modes of Characterizing's Table 3: online cores and three clocks in MHz.
fn labelled(board: &Board, label: &str) -> [u32; 4] {
    let [cores, mhz @ ..] = match label {
        "a" => [4, 1200, 670, 1333],
        "b" => [8, 1200, 670, 1333],
        "c" => [8, 1200, 900, 1333],
        "d" => [8, 1200, 900, 1600],
        "e" => [8, 2100, 900, 1600],
        "f" => [2, 2100, 900, 1600],
        "g" => [8, 2265, 1377, 2133],
        "h" => [8, 2265, 1377, 1066],
        "k" => [4, 1036, 420, 2133],
        "l" => [8, 1036, 420, 2133],
        "m" => [8, 2265, 420, 2133],
        "n" => [8, 2265, 900, 2133],
        _ => unreachable!("a label of the table"),
    };
    let nearest = |axis: &[u32], mhz: u32| {
        let by = |khz: &&u32| khz.abs_diff(1000 * mhz);
        *axis.iter().min_by_key(by).expect("a table")
    };
    [
        cores,
        nearest(&board.cpu_khz, mhz[0]),
        nearest(&board.gpu_khz, mhz[1]),
        nearest(&board.emc_khz, mhz[2]),
    ]
}
