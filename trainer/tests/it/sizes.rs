//! Choices of a minibatch size and a mode.

use std::path::Path;

use crate::common::{folder, run};
use crate::sized::Sized;

/// Modes that `plan` chooses for the board.
fn planned(sized: &Sized, folder: &Path, number: usize) -> Vec<[u32; 4]> {
    let plan = format!("plan --board {} --modes {number} --json", sized.board.name);
    let plan = run(folder, &plan).json();
    let modes = plan["modes"].as_array().expect("a list").iter();
    let knobs = ["cores", "cpu_khz", "gpu_khz", "emc_khz"];
    modes
        .map(|mode| knobs.map(|knob| mode[knob].as_u64().expect("a number") as u32))
        .collect()
}

/// How much slower a chosen size and mode is than the fastest ones, by the time of a sample, in percent.
struct Cost {
    /// Than the fastest size and mode within the limit.
    of_limit: f64,
    /// Than the fastest within the power that the choice draws, so without the price of the guard band.
    of_drawn: f64,
    /// The same of the fastest mode of the chosen size: what the choice of the size alone costs.
    of_size: f64,
    /// By how much the drawn power exceeds the limit, in percent; negative below it.
    excess: f64,
}

/// Profiles the modes of a plan with each size, fits a model for each, and compares the choices of `select` under
/// every whole limit in W with a search through all sizes and modes.
fn choices(sized: &Sized, folder: &Path) -> Vec<Cost> {
    let sizes = [8, 16, 32];
    let modes = planned(sized, folder, 60);
    let of_size = |size| (size, &modes[..]);
    sized.profile(folder, &[16, 8, 32].map(of_size));
    for size in sizes {
        let fit = run(
            folder,
            &format!(
                "fit sizes.csv --minibatch {size} --board {} -o model-{size}.wgt",
                sized.board.name
            ),
        );
        assert_eq!(fit.code, 0, "{}", fit.stderr);
        assert_eq!(
            fit.stdout
                .contains("transferred from sizes.csv, minibatch 16"),
            size != 16
        );
        let bytes = std::fs::metadata(folder.join(format!("model-{size}.wgt"))).expect("written");
        assert!(bytes.len() <= 1_536);
    }
    let modes = sized.board.all_modes();
    let truths = sizes.map(|size| -> Vec<[f64; 2]> {
        let truths = modes.iter().map(|&knobs| sized.truth(size, knobs));
        truths.collect()
    });
    let least = |truths: &[Vec<[f64; 2]>], limit: f64| {
        let within = truths.iter().flatten().filter(|[_, watts]| *watts <= limit);
        within.map(|[time, _]| *time).fold(f64::INFINITY, f64::min)
    };
    let powers = || truths.iter().flatten().map(|[_, watts]| *watts);
    let [lowest, highest] = [
        powers().fold(f64::INFINITY, f64::min),
        powers().fold(0.0, f64::max),
    ];
    let mut costs = Vec::new();
    for limit in lowest.ceil() as u32..=highest as u32 {
        let models = "model-8.wgt model-16.wgt model-32.wgt";
        let chosen = run(
            folder,
            &format!("select {models} --minibatch any --limit {limit}W --json"),
        );
        // The guard band leaves no mode below the lowest limits.
        if chosen.code == 4 {
            continue;
        }
        let chosen = chosen.json();
        let number = |value: &serde_json::Value| value.as_u64().expect("a number") as u32;
        let mode =
            ["cores", "cpu_khz", "gpu_khz", "emc_khz"].map(|knob| number(&chosen["mode"][knob]));
        let size = number(&chosen["minibatch"]);
        let [time, power] = sized.truth(size, mode);
        let of_this = sizes
            .iter()
            .position(|other| *other == size)
            .expect("a size");
        let over = |a: f64, b: f64| 100.0 * (a / b - 1.0);
        let best_of_drawn = least(&truths, power);
        let of_this = least(&truths[of_this..=of_this], power);
        costs.push(Cost {
            of_limit: over(time, least(&truths, f64::from(limit))),
            of_drawn: over(time, best_of_drawn),
            of_size: over(of_this, best_of_drawn),
            excess: over(power, f64::from(limit)),
        });
    }
    costs
}

#[test]
fn size_and_mode_are_chosen_together() {
    let folder = folder();
    let path = folder.path();
    let mut of_all = [0; 4];
    for (board, workload) in [("xavier-agx", "resnet18"), ("orin-agx-64", "mobilenetv3")] {
        let costs = choices(&Sized::new(board, workload), path);
        let sorted = |figure: fn(&Cost) -> f64| {
            let mut all: Vec<f64> = costs.iter().map(figure).collect();
            all.sort_unstable_by(f64::total_cmp);
            [all[all.len() / 2], all[all.len() - 1]]
        };
        let [limit, drawn, size] = [
            sorted(|cost| cost.of_limit),
            sorted(|cost| cost.of_drawn),
            sorted(|cost| cost.of_size),
        ];
        let over = costs.iter().filter(|cost| cost.excess > 0.0).count();
        let [_, excess] = sorted(|cost| cost.excess);
        // At the power drawn: the price of the guard band is another one.
        let near = costs.iter().filter(|cost| cost.of_drawn <= 3.0).count();
        println!(
            "| {board}, {workload} | {} | {:.1} / {:.1} % | {near} | {:.1} / {:.1} % | {:.1} / {:.1} % | {over}, {excess:.1} % |",
            costs.len(),
            drawn[0],
            drawn[1],
            size[0],
            size[1],
            limit[0],
            limit[1],
        );
        let far = costs.iter().filter(|cost| cost.of_drawn > 8.0).count();
        assert_eq!(size[0], 0.0);
        assert!(excess <= 2.5);
        of_all[0] += over;
        of_all[1] += far;
        of_all[2] += near;
        of_all[3] += costs.len();
    }
    // Neighbouring limits share a mode, so these are shares of the limits of both boards.
    let [over, far, near, limits] = of_all;
    assert!(
        20 * over <= limits && 20 * far <= limits && 5 * near >= 4 * limits,
        "{over} over, {far} far and {near} near of {limits}"
    );
    // Each of three models takes a third of the risk.
    let json = |arguments: &str| run(path, arguments).json();
    let any =
        json("select model-8.wgt model-16.wgt model-32.wgt --minibatch any --limit 20W --json");
    let size = &any["minibatch"];
    let alone = json(&format!(
        "select model-{size}.wgt --limit 20W --confidence 0.9834 --json"
    ));
    assert_eq!(any["guarded_power_mw"], alone["guarded_power_mw"]);
    assert_eq!(any["confidence"], 0.95);
    let models = "model-8.wgt model-16.wgt model-32.wgt";
    let refused = |arguments: &str| {
        let run = run(path, arguments);
        (run.code, run.stderr)
    };
    assert_eq!(
        refused(&format!("select {models}")),
        (
            2,
            "error: several models: choose among their sizes with --minibatch any, or name one of the files\n"
                .to_owned()
        )
    );
    assert_eq!(
        refused(&format!("select {models} --minibatch 64")),
        (
            2,
            "error: --minibatch: no minibatch of 64; there are 8, 16, 32\n".to_owned()
        )
    );
    assert_eq!(
        refused(&format!(
            "select {models} --minibatch any --limit 20W --confidence 0.99"
        )),
        (
            3,
            "error: model-8.wgt: a choice among 3 models takes a confidence of 99.67 % from each, but the \
             model's data supports no confidence above 99 %; ask for less, or train on more modes\n"
                .to_owned()
        )
    );
    assert_eq!(
        refused("select model-8.wgt model-8.wgt --minibatch any"),
        (
            3,
            "error: model-8.wgt: a model before has the same minibatch\n".to_owned()
        )
    );
    assert_eq!(
        refused("fit sizes.csv --minibatch 12 -o none.wgt"),
        (
            2,
            "error: sizes.csv: no minibatch of 12; there are 8, 16, 32\n".to_owned()
        )
    );
    let (code, message) = refused("fit sizes.csv -o none.wgt");
    assert_eq!(code, 3);
    assert!(message.contains("such a file is for"), "{message}");
}
