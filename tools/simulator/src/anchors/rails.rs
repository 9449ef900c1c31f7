//! Rails of boards under stress and idle, from forum threads and logs of users.

use wattgate_board_tables::Board;

use super::anchor::Bound;
use super::catalogue::AnchorError;
use super::collection::Anchors;
use crate::pipeline::Clocks;
use crate::power::{Activity, Watts};
use crate::steady::{idle, settled};
use crate::unit::Unit;

const FORUM_MAX: &str = "NVIDIA forum 323456";

/// Rails of AGX Orin under stress and idle, and totals of the small Orins.
pub fn rails(anchors: &mut Anchors<'_>) -> Result<(), AnchorError> {
    let board = anchors.catalogue.board("orin-agx-64-jp6")?;
    for (id, gpu, cpu) in [
        (0, 40.4, 15.2),
        (3, 18.4, 6.0),
        (2, 7.6, 5.6),
        (1, 5.2, 1.6),
    ] {
        let clocks = clocks_of_preset(&board, id);
        let name = &board.modes[id].name;
        let stressed = drawn(&board, &clocks, &gpu_stress(&board, &clocks));
        anchors.add(
            format!("{} {name}, GPU stress: VDD_GPU_SOC", board.name),
            FORUM_MAX,
            "W",
            gpu,
            stressed.gpu + stressed.soc,
            Bound::Percent(25.0),
        );
        let stressed = drawn(&board, &clocks, &cpu_stress(&clocks));
        anchors.add(
            format!("{} {name}, CPU stress: VDD_CPU_CV", board.name),
            FORUM_MAX,
            "W",
            cpu,
            stressed.cpu,
            Bound::Percent(25.0),
        );
    }
    // An idle board runs at its lowest clocks.
    let idle_w = idle(&board, &Unit::NOMINAL, true);
    let published = [
        ("VDD_GPU_SOC", 2.4),
        ("VDD_CPU_CV", 0.4),
        ("VIN_SYS_5V0", 4.0),
        ("VDDQ_VDD2_1V8AO", 0.3),
    ];
    for (rail, (label, watts)) in board.rails.iter().zip(published) {
        assert_eq!(rail.label, label, "rails of {}", board.name);
        anchors.add(
            format!("{} idle: {label}", board.name),
            "a user's tegrastats",
            "W",
            watts,
            rail.domains.iter().map(|&domain| idle_w.get(domain)).sum(),
            Bound::Percent(40.0),
        );
    }
    let board = anchors.catalogue.board("orin-nx-16-super")?;
    let idle_w = idle(&board, &Unit::NOMINAL, true);
    anchors.add(
        format!("{} idle: VDD_IN", board.name),
        "ARK",
        "W",
        4.6,
        idle_w.total(),
        Bound::Percent(25.0),
    );
    for (id, watts) in [(3, 16.9), (4, 27.6), (0, 29.4)] {
        let clocks = clocks_of_preset(&board, id);
        let both = Activity {
            cores: clocks.cores,
            ..gpu_stress(&board, &clocks)
        };
        let name = &board.modes[id].name;
        anchors.add(
            format!("{} {name}, CPU and GPU stress: VDD_IN", board.name),
            "ARK",
            "W",
            watts,
            drawn(&board, &clocks, &both).total(),
            Bound::Percent(25.0),
        );
    }
    let board = anchors.catalogue.board("orin-nano-8-super")?;
    let floor = drawn(&board, &lowest_clocks(&board), &Activity::IDLE);
    anchors.add(
        format!("{} tuned floor: VDD_IN", board.name),
        "NVIDIA forum 348662",
        "W",
        2.18,
        floor.total(),
        Bound::Percent(25.0),
    );
    // 2.09 A at 5 V. The robot's other load is not published.
    let clocks = Clocks::from_knobs(&board, board.maxn());
    let stressed = drawn(&board, &clocks, &cpu_stress(&clocks));
    anchors.add(
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

/// The lowest value of every knob.
fn lowest_clocks(board: &Board) -> Clocks {
    Clocks::from_knobs(board, board.axes().map(|axis| axis[0]))
}

/// The power of the nominal unit at these clocks.
fn drawn(board: &Board, clocks: &Clocks, activity: &Activity) -> Watts {
    settled(board, &Unit::NOMINAL, clocks, activity).0
}

/// Activity with all cores busy.
fn cpu_stress(clocks: &Clocks) -> Activity {
    Activity {
        cores: clocks.cores,
        ..Activity::IDLE
    }
}

/// Activity with large matrix products at 90 % of the GPU's peak.
fn gpu_stress(board: &Board, clocks: &Clocks) -> Activity {
    let gpu = &board.physics().gpu;
    let flop = 0.9e9 * clocks.gpu_ghz * gpu.flop_per_cycle * clocks.tpcs;
    // Blocked matrix products reuse each byte some 40 times.
    Activity {
        cores: 0.3,
        waiting_cores: 0.7,
        gpu: 1.0,
        flop,
        gpu_bytes: flop / 40.0,
        bytes: flop / 80.0,
        gpu_on: true,
        power_log: 0.0,
    }
}

/// The clocks of a mode of nvpmodel, its gated TPCs included.
fn clocks_of_preset(board: &Board, id: usize) -> Clocks {
    let preset = &board.modes[id];
    Clocks {
        tpcs: board.powered_tpcs(preset.tpc_pg_mask),
        ..Clocks::from_knobs(board, board.knobs_of(preset))
    }
}
