//! PowerTrain's published transfers beside the same transfers on simulated boards:
//! `tools/published.sh`. Published figures are of real boards, the others are simulated. Compare
//! the methods with each other on the same task, not simulated with published figures.
//!
//! Each figure is the median of five runs: trained on 50 random modes, evaluated on all other modes
//! by the runtime with the exported file.

use std::error::Error;
use std::path::Path;

use indicatif::ProgressBar;
use wattgate_board_tables::Board;
use wattgate_demo::simulate;
use wattgate_lab::compare::evaluate::{Comparison, evaluate};
use wattgate_lab::methods::{Method, method};
use wattgate_runtime::shape::Shape;
use wattgate_simulated_board::corpus::Modes;
use wattgate_simulated_board::workload::Workload;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::plan::{Amount, Sampling};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Reference;
use wattgate_trainer::score::Target;

const RUNS: u64 = 5;
const SEED: u64 = 1;
const ORIN: &str = "orin-agx-64";

/// A transfer from ResNet-18 with minibatch 16 on an AGX Orin, and PowerTrain's errors of time
/// and power in percent.
struct Transfer {
    board: &'static str,
    workload: &'static str,
    minibatch: u32,
    /// The loss that PowerTrain took.
    recipe: &'static str,
    time: &'static str,
    power: &'static str,
}

const fn transfer(
    board: &'static str,
    workload: &'static str,
    minibatch: u32,
    time: &'static str,
    power: &'static str,
) -> Transfer {
    Transfer {
        board,
        workload,
        minibatch,
        recipe: "powertrain-transfer",
        time,
        power,
    }
}

const TRANSFERS: [Transfer; 12] = [
    transfer(ORIN, "mobilenetv3", 16, "14.5–15.7", "5.2–5.6"),
    transfer(ORIN, "yolov8n", 16, "11.5–11.7", "4.9"),
    transfer(ORIN, "bert", 16, "15.6", "–"),
    transfer(ORIN, "lstm", 16, "12.5", "6.3"),
    transfer("xavier-agx", "resnet18", 16, "12", "11"),
    transfer("xavier-agx", "mobilenetv3", 16, "14", "9"),
    Transfer {
        recipe: "powertrain-transfer-mape",
        ..transfer("orin-nano-8", "resnet18", 16, "7.85", "5.96")
    },
    Transfer {
        recipe: "powertrain-transfer-mape",
        ..transfer("orin-nano-8", "mobilenetv3", 16, "8.98", "4.72")
    },
    transfer(ORIN, "resnet18", 8, "10.84", "6.86"),
    transfer(ORIN, "resnet18", 32, "11.2", "7.28"),
    transfer(ORIN, "mobilenetv3", 8, "7–9.4", "5.5–5.7"),
    transfer(ORIN, "mobilenetv3", 32, "7–9.4", "5.5–5.7"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let reference = corpus(ORIN, "resnet18", 16, folder.path())?;
    let reference = Reference::of_corpus("resnet18".to_owned(), reference, Priors::shipped())?;
    // Each method keeps the network that it trained on the reference, so all transfers share it.
    let names = [
        "wattgate",
        "powertrain-transfer",
        "powertrain-transfer-mape",
    ];
    let methods = names.map(|name| [method(name).expect("a method")]);
    println!(
        "{:<32}{:>14}{:>14}{:>16}",
        "from resnet18/16 on orin-agx-64", "wattgate", "PowerTrain", "PowerTrain"
    );
    println!(
        "{:<32}{:>14}{:>14}{:>16}",
        "error of time / power in %", "simulated", "simulated", "published"
    );
    for transfer in &TRANSFERS {
        let corpus = corpus(
            transfer.board,
            transfer.workload,
            transfer.minibatch,
            folder.path(),
        )?;
        let errors_with = |name| {
            let at = names.iter().position(|known| *known == name);
            errors(
                &corpus,
                &reference,
                &methods[at.expect("a name of the list")],
            )
        };
        let what = format!(
            "{}, {}/{}",
            transfer.board, transfer.workload, transfer.minibatch
        );
        let [ours, recipe] = [errors_with("wattgate")?, errors_with(transfer.recipe)?];
        let published = format!("{} / {}", transfer.time, transfer.power);
        println!("{what:<32}{ours:>14}{recipe:>14}{published:>20}");
    }
    Ok(())
}

fn corpus(
    board: &str,
    workload: &str,
    minibatch: u32,
    folder: &Path,
) -> Result<Corpus, Box<dyn Error>> {
    let board = Board::named(board)?;
    let workload = Workload::named(workload)?.with_minibatch(minibatch)?;
    let modes = Modes::Papers.select(&board, SEED)?;
    Ok(simulate(
        &board,
        &workload,
        &modes,
        SEED,
        &folder.join("corpus.csv"),
    )?)
}

fn errors(
    corpus: &Corpus,
    reference: &Reference,
    methods: &[Box<dyn Method>],
) -> Result<String, Box<dyn Error>> {
    let comparison = Comparison {
        priors: Priors::shipped(),
        corpus,
        name: "",
        references: std::slice::from_ref(reference),
        methods,
        amounts: &[Amount::Modes(50)],
        samplings: &[Sampling::Random],
        runs: RUNS,
        seed: SEED,
        shape: Shape::Wide32,
    };
    let evaluation = evaluate(&comparison, &ProgressBar::hidden())?;
    let median = |target| {
        let row = evaluation.results.iter().find(|row| row.target == target);
        row.map_or(f64::NAN, |row| row.mape.median)
    };
    let [time, power] = Target::ALL.map(median);
    Ok(format!("{time:.1} / {power:.1}"))
}
