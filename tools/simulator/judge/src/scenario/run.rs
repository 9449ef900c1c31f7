//! One run in simulated time.

use std::io;
use std::path::Path;

use super::daemon;
use super::outcome::Outcome;
use super::plant::Plant;
use super::report::ScenarioReport;
use super::task::ScenarioTask;
use crate::holder::Holder;
use crate::holders::hold_as_peer;
use crate::recorded::RecordedTree;

/// Runs a task with a seed. `weights` is the folder with the models.
pub fn run(task: &ScenarioTask<'_>, seed: u64, weights: &Path) -> io::Result<ScenarioReport> {
    let (plant, tree) = Plant::new(task, seed, weights)?;
    let mut files = RecordedTree::new(tree);
    let outcome = match task.holder {
        Holder::Wattgate => {
            let (outcome, held) = daemon::hold(&plant, files)?;
            files = held;
            outcome
        }
        peer => {
            let incident = task.scenario.incident;
            let (course, board) = (&plant.course, &plant.board);
            Outcome::without_states(hold_as_peer(peer, course, board, incident, &mut files)?)
        }
    };
    ScenarioReport::new(&plant, &files.record(), outcome)
}
