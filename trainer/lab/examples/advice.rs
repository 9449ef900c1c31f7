//! The advice for 100 random simulated workloads beside the truth of the simulator: predicted and true
//! gain, and the true power over the limit. Fails below the bounds.
//! `cargo run --release -p wattgate-lab --example advice`, some minutes.

#[path = "../tests/it/advised.rs"]
mod advised;

use advised::{Random, Worth};

const WORKLOADS: u64 = 100;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut all: Vec<Worth> = Vec::new();
    let mut seed = 0;
    while (all.len() as u64) < WORKLOADS {
        seed += 1;
        let random = Random::drawn(seed);
        // Without a profiled mode within the limit there is nothing to compare with.
        let Ok(worth) = random.judge(folder.path()) else {
            println!("{seed:>4}: no profiled mode within the limit");
            continue;
        };
        println!(
            "{seed:>4} {:<18}{:<17}predicted {:>5.2}, true {:>5.2}, power over limit {:.3}{}",
            random.workload.name,
            random.board.name,
            worth.predicted(),
            worth.gain,
            worth.load,
            if worth.is_near() { "" } else { "  far" }
        );
        all.push(worth);
    }
    let count = |holds: fn(&Worth) -> bool| all.iter().filter(|worth| holds(worth)).count();
    let (near, losses) = (count(Worth::is_near), count(|worth| worth.gain < 1.0));
    let (over, advised) = (
        count(|worth| worth.load > 1.0),
        count(|worth| worth.advice.best.is_some()),
    );
    let mean = all.iter().map(|worth| worth.gain.ln()).sum::<f64>() / all.len() as f64;
    println!(
        "simulated: {} workloads, {advised} with advice, predicted gain within 20 % of the true one in {near}, \
         {losses} losses, {over} over the limit, mean true gain {:.2}",
        all.len(),
        mean.exp()
    );
    assert!(near * 10 >= all.len() * 9 && losses == 0);
}
