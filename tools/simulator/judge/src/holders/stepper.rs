//! A controller without a model, as a careful engineer writes it in an afternoon.
//!
//! The modes form a ladder. From the top rung, where all clocks are at their highest, each rung
//! lowers the GPU clock by one entry of its table; below the lowest GPU clock the rungs lower the
//! CPU clock, and then the memory clock. All cores stay on.
//!
//! The stepper compares the reading with the limit eight times in a time constant of the sensor.
//! It steps one rung down if the reading is over the limit, and one rung up if the reading is more
//! than a tenth below the limit. It ignores that the reading lags, so it overshoots. It starts on
//! the highest rung, where the board is; from the lowest rung it would climb for many seconds. If
//! the sensor cannot be read or a mode cannot be set, the board keeps its mode until the next poll.
//! A killed stepper restarts after two seconds.

use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::Board;
use wattgate_runtime::PowerMode;

use crate::course::Course;
use crate::holder::Incident;
use crate::recorded::RecordedTree;

/// Hysteresis, as a part of the limit. Below this value the stepper oscillates on more boards and
/// loads, because the largest rungs differ by as much.
const HYSTERESIS: f64 = 0.1;

/// Time from a kill to the next start.
const RESTART_OF_STEPPER: Duration = Duration::from_secs(2);

/// Polls in a time constant of the sensor: the best value for the stepper. Over all built-in loads
/// (`loads --governor stepper --seeds 1`) the mean time over the limit is 8.3 %, at 72 % of the
/// clairvoyant oracle's speed; with 4 polls 9.1 and 73 %, with 1 poll 11.9 and 74 %, with a poll in
/// three time constants 16.5 and 77 %. More than 8 polls change only the number of writes.
const POLLS: u32 = 8;

/// All rungs from the lowest to the highest.
fn ladder(board: &Board) -> Vec<PowerMode> {
    let cores = board.core_order().count() as u32;
    let tables = [board.cpu_khz(), board.gpu_khz(), board.emc_khz()];
    let [cpu, gpu, emc] = tables;
    let ends = |table: &[u32]| [table.first(), table.last()].map(|it| it.copied().unwrap_or(0));
    let ([low_cpu, high_cpu], [low_gpu, _], [_, high_emc]) = (ends(cpu), ends(gpu), ends(emc));
    let memory = emc.iter().map(|emc| [cores, low_cpu, low_gpu, *emc]);
    let cpus = cpu.iter().map(|cpu| [cores, *cpu, low_gpu, high_emc]);
    let gpus = gpu.iter().map(|gpu| [cores, high_cpu, *gpu, high_emc]);
    let mut rungs: Vec<[u32; 4]> = memory.chain(cpus).chain(gpus).collect();
    // Each table ends where the next one begins.
    rungs.dedup();
    rungs.into_iter().map(PowerMode::from_knobs).collect()
}

/// Holds the limit to the end of a course. `incident` is what happens to the stepper, and when, in
/// s. Returns the number of mode changes.
pub fn hold(
    course: &Course,
    mut incident: Option<(u64, Incident)>,
    files: &mut RecordedTree,
) -> io::Result<u32> {
    let wait = course.sensor.time_constant / POLLS;
    let mut board = Board::discover(files, Path::new("/")).map_err(io::Error::other)?;
    let ladder = ladder(&board);
    let (mut rung, mut changes) = (ladder.len() - 1, 0);
    // If the mode cannot be set now, a later poll sets another one.
    let _ = board.apply(files, &ladder[rung]);
    while files.now() < course.length {
        let now = files.now();
        if let Some((_, what)) = incident.take_if(|(at, _)| now.as_secs() >= *at) {
            match what {
                Incident::Suspend(time) => files.until(now + Duration::from_secs(time)),
                Incident::Kill => {
                    files.until(now + RESTART_OF_STEPPER);
                    rung = ladder.len() - 1;
                    let _ = board.apply(files, &ladder[rung]);
                }
                Incident::BadModel => {}
            }
        }
        let now = files.now();
        if let Some(power) = board.sample(files).ok().and_then(|sample| sample.total()) {
            let (power, limit) = (f64::from(power.0), f64::from(course.limit_mw(now)));
            let next = match power {
                power if power > limit => rung.saturating_sub(1),
                power if power < limit * (1.0 - HYSTERESIS) => (rung + 1).min(ladder.len() - 1),
                _ => rung,
            };
            if next != rung && board.apply(files, &ladder[next]).is_ok() {
                rung = next;
                changes += 1;
            }
        }
        let next = files.now() + wait;
        files.until(next.min(course.length));
    }
    Ok(changes)
}
