//! Properties of all sequences of requests.

use std::time::Duration;

use proptest::prelude::*;
use wattgate_board_tables::Board;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload;

use crate::common::{self, load};

/// Boards of each chip and release.
const BOARDS: [&str; 4] = ["orin-agx-64", "orin-nano-8-super", "xavier-agx", "tx2"];

/// Something that happens to a board.
#[derive(Clone, Debug)]
enum Event {
    /// A write to a file. The number is an index modulo the number of files.
    Write(usize, String),
    Pass(Duration),
    Load(Option<usize>),
    Ambient(f64),
    PowerFactor(f64),
    Nvpmodel(u32),
    JetsonClocks,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let clock = prop_oneof![100_000_u64..2_300_000, 100_000_000_u64..3_300_000_000];
    let text = prop_oneof![
        clock.prop_map(|clock| clock.to_string()),
        prop_oneof![
            "0",
            "1",
            "on",
            "auto",
            "performance",
            "userspace",
            "-1",
            "",
            "x"
        ],
    ];
    let event = prop_oneof![
        8 => (any::<usize>(), text).prop_map(|(file, text)| Event::Write(file, text)),
        4 => (0_u64..3_000_000).prop_map(|us| Event::Pass(Duration::from_micros(us))),
        1 => (0..workload::names().len()).prop_map(|at| Event::Load(Some(at))),
        1 => Just(Event::Load(None)),
        1 => (-40.0..85.0).prop_map(Event::Ambient),
        1 => (0.7..1.3).prop_map(Event::PowerFactor),
        1 => (0_u32..9).prop_map(Event::Nvpmodel),
        1 => Just(Event::JetsonClocks),
    ];
    prop::collection::vec(event, 1..60)
}

fn tree(board: &str, seed: u64) -> Tree {
    let board = Board::named(board).expect("a board that can be simulated");
    Tree::new(board, Unit::drawn(seed), seed, None).expect("its default mode")
}

fn happen(tree: &mut Tree, event: &Event) {
    match event {
        Event::Write(file, text) => {
            let files: Vec<String> = tree.files().map(|(path, _)| path.to_owned()).collect();
            // The write may be refused.
            let _ = tree.write(&files[file % files.len()], text);
        }
        Event::Pass(time) => common::pass(tree, *time),
        Event::Load(Some(at)) => load(tree, workload::names()[*at]),
        Event::Load(None) => tree.jetson_mut().set_workload(None),
        Event::Ambient(celsius) => tree.jetson_mut().set_ambient_c(*celsius),
        Event::PowerFactor(factor) => tree.jetson_mut().set_power_factor(*factor),
        Event::Nvpmodel(id) => {
            let _ = tree.nvpmodel(*id);
        }
        Event::JetsonClocks => tree.control("jetson-clocks").expect("a command"),
    }
}

/// Every file with its text or its error.
fn contents(tree: &Tree) -> Vec<(String, String)> {
    let read = |path: &str| match tree.read(path) {
        Ok(text) => text,
        Err(errno) => errno.to_string(),
    };
    tree.files()
        .map(|(path, _)| (path.to_owned(), read(path)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn clocks_are_table_entries_and_true_clocks_may_be_throttled(
        board in prop::sample::select(BOARDS.to_vec()),
        events in events(),
    ) {
        let mut tree = tree(board, 1);
        for event in &events {
            happen(&mut tree, event);
            let jetson = tree.jetson();
            let throttled = |table: &[u32], khz: u32| {
                [1, 2, 4].iter().any(|part| table.iter().any(|entry| entry / part == khz))
            };
            let board = jetson.board();
            for cluster in 0..board.clusters.len() {
                prop_assert!(board.cpu_khz.contains(&jetson.cpu_requested_khz(cluster)));
                prop_assert!(board.cpu_khz.contains(&jetson.cpu_effective_khz(cluster)));
                prop_assert!(throttled(&board.cpu_khz, jetson.cpu_true_khz(cluster)));
            }
            prop_assert!(board.gpu_khz.contains(&jetson.gpu_requested_khz()));
            prop_assert!(throttled(&board.gpu_khz, jetson.gpu_true_khz()));
            prop_assert!(board.emc_khz.contains(&jetson.emc_khz()));
        }
    }

    #[test]
    fn no_minimum_is_above_its_maximum(
        board in prop::sample::select(BOARDS.to_vec()),
        events in events(),
    ) {
        let mut tree = tree(board, 1);
        for event in &events {
            happen(&mut tree, event);
            let settings = tree.jetson().settings();
            for policy in &settings.policies {
                prop_assert!(policy.min_khz <= policy.max_khz);
            }
            prop_assert!(settings.gpu.min_khz <= settings.gpu.max_khz);
            prop_assert!(settings.online[0]);
        }
    }

    #[test]
    fn energy_and_temperature_are_finite_and_energy_only_grows(
        board in prop::sample::select(BOARDS.to_vec()),
        events in events(),
    ) {
        let mut tree = tree(board, 1);
        let mut energy_j = 0.0;
        for event in &events {
            happen(&mut tree, event);
            let jetson = tree.jetson();
            prop_assert!(jetson.energy_j().is_finite() && jetson.energy_j() >= energy_j);
            prop_assert!((-60.0..110.0).contains(&jetson.die_c()), "{} °C", jetson.die_c());
            prop_assert!((0.0..200.0).contains(&jetson.watts().total()));
            prop_assert!(jetson.minibatches().is_finite());
            energy_j = jetson.energy_j();
        }
    }

    #[test]
    fn equal_seeds_and_equal_calls_give_equal_files(
        board in prop::sample::select(BOARDS.to_vec()),
        seed in any::<u64>(),
        events in events(),
    ) {
        let [first, second] = [(), ()].map(|()| {
            let mut tree = tree(board, seed);
            events.iter().for_each(|event| happen(&mut tree, event));
            contents(&tree)
        });
        prop_assert_eq!(first, second);
    }

    #[test]
    fn what_a_knob_shows_can_be_written_back(
        board in prop::sample::select(BOARDS.to_vec()),
        events in events(),
    ) {
        let mut tree = tree(board, 1);
        events.iter().for_each(|event| happen(&mut tree, event));
        let before = contents(&tree);
        let writable: Vec<String> = tree
            .files()
            .filter(|(_, writable)| *writable)
            .map(|(path, _)| path.to_owned())
            .collect();
        for path in writable {
            let Ok(text) = tree.read(&path) else { continue };
            // The driver does not write the full scale of a sum, which it shows after a reset, and
            // since R36 it takes for the time constant what it shows as the cycle.
            let is_known = |end: &&str| path.ends_with(*end);
            let is_other = ["/curr4_crit", "/update_interval"].iter().any(is_known);
            if text != "<unsupported>\n" && !is_other {
                // JetPack 4 shows the unit of a limit, and takes the number alone.
                let text = text.replace(" ma", "");
                prop_assert_eq!(tree.write(&path, &text), Ok(()), "{}", path);
            }
        }
        for (before, after) in before.iter().zip(contents(&tree)) {
            // A written fan speed no longer follows the temperature, but is the same at first.
            prop_assert_eq!(before, &after);
        }
    }
}
