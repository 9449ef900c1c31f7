//! `run --observe`: what `run` would set while a program runs. Writes nothing to the board, and asks no daemon.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use wattgate_board::Board;
use wattgate_cli::aim::Wanted;
use wattgate_cli::exit::note;
use wattgate_runtime::Milliwatts;
use wattgate_watchdog::report::Observed;

use super::hold::{self, Going, Summary};
use super::options::Common;
use super::site::{device, find_model, models};
use super::{Failure, print, print_json};
use crate::models::Models;
use crate::process::Stop;
use crate::world::World;

/// Runs the workload, and prints what was observed. Fails if the workload does, but not if the power was over the limit.
pub fn run(
    common: &Common,
    limit: Milliwatts,
    model: Option<PathBuf>,
    wanted: Option<Wanted>,
    time: Option<Duration>,
) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(Failure::Signals)?;
    let mut process = common.workload.open(&common.root, common.speed, stop)?;
    process.files().refuse_writes();
    let board = Board::discover(process.files(), &common.root)?;
    let models = device(common, &board).map(|device| Models {
        folder: models(&common.root, &device),
    });
    let model = find_model(common, model, models.as_ref())?;
    note("NOT HOLDING: --observe writes nothing to the board, so no limit holds");
    let mut setup = hold::setup(model.as_deref(), limit, &common.root, process.files())?;
    setup.config.observe = true;
    process.wait_for_all();
    common.workload.start(&mut process, common.json)?;
    let is_new = !common.workload.is_attached();
    let (mut going, mut observed) = (Going::new(), None);
    let held = hold::run(
        &mut process,
        setup,
        None,
        wanted,
        time,
        is_new,
        |now, count, report| {
            going.see(now, count, report);
            observed = report.observed;
        },
    );
    let summary = Summary::new(&held, limit, None);
    match common.json {
        true => {
            #[derive(Serialize)]
            struct Line {
                observed: Summary,
                would: Option<Observed>,
            }
            print_json(&Line {
                observed: summary,
                would: observed,
            })?;
        }
        false => {
            print(&summary.told("not held, only observed:"))?;
            if let Some(observed) = observed {
                print(&format!("observed {observed}\n"))?;
            }
        }
    }
    hold::of_workload(&held)
}
