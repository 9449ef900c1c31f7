//! A peer: what a careful engineer writes in an afternoon without a model.
//!
//! The modes are a ladder. From the top, all clocks at their highest, each rung lowers the GPU by
//! one entry of its table; from its lowest on the CPU, and then the memory. All cores stay on.
//!
//! Eight times in a time constant of the sensor it compares the reading with the limit: one rung down
//! where it is over, one rung up where it is below by more than a tenth, else nothing. It does not
//! know that the reading lags, and so takes more rungs than it has to. It starts on the highest rung,
//! where the board is: from the lowest one it would climb for many seconds. Where the sensor cannot be
//! read or a mode cannot be set, the board stays as it is, and the next look is another chance.
//! Killed, it starts again after two seconds.

use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::Board;
use wattgate_runtime::PowerMode;

use super::Course;
use super::holder::Outcome;
use super::list::ToHolder;
use super::plant::Noted;

/// Part of the limit. With less it steps up and down for ever on more of the boards and loads:
/// the largest rungs are as high.
const HYSTERESIS: f64 = 0.1;

/// From its death to its next start.
const RESTART: Duration = Duration::from_secs(2);

/// Looks in a time constant of the sensor: what serves it best. Over all built-in loads (`loads
/// --governor stepper --seeds 1`) the time over the limit is on average 8.3 %, at 72 % of the
/// clairvoyant oracle's speed; with 4 looks 9.1 and 73 %, with 1 look 11.9 and 74 %, with a look in
/// three time constants 16.5 and 77 %. More than 8 change nothing but the number of its writes.
const LOOKS: u32 = 8;

/// All modes from the lowest to the highest.
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

/// Holds the limit to the end. What happens to the stepper, and when, is in `to_come`.
pub fn hold(
    course: &Course,
    mut to_come: Option<(u64, ToHolder)>,
    files: &mut Noted,
) -> io::Result<Outcome> {
    let wait = course.sensor.time_constant / LOOKS;
    let mut board = Board::discover(files, Path::new("/")).map_err(io::Error::other)?;
    let ladder = ladder(&board);
    let (mut rung, mut changes) = (ladder.len() - 1, 0);
    // What cannot be set now is another time.
    let _ = board.apply(files, &ladder[rung]);
    while files.now() < course.length {
        let now = files.now();
        if let Some((_, what)) = to_come.take_if(|(at, _)| now.as_secs() >= *at) {
            match what {
                ToHolder::Sleeps(time) => files.until(now + Duration::from_secs(time)),
                ToHolder::IsKilled => {
                    files.until(now + RESTART);
                    rung = ladder.len() - 1;
                    let _ = board.apply(files, &ladder[rung]);
                }
                ToHolder::ReadsBadModel => {}
            }
        }
        let now = files.now();
        if let Ok(sample) = board.sample(files) {
            let (power, limit) = (f64::from(sample.total().0), f64::from(course.limit_mw(now)));
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
    Ok(Outcome::of(changes))
}
