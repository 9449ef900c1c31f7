//! `once`: sets a mode without measuring and exits. For boot, and with `--safe` after a crash of
//! the daemon.

use std::fs;
use std::iter;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lexopt::{Arg, Parser};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wattgate_board::{Board, Disobedience};
use wattgate_cli::output::replace;
use wattgate_runtime::governor::{Cause, State};
use wattgate_runtime::{Milliseconds, PowerMode};

use super::check::over_limit;
use super::kept::Kept;
use super::{Failure, check_writable, parse};
use crate::clock::{Clock, System};
use crate::config::{self, Config};
use crate::control::{Control, Priority};
use crate::deadline::InTime;
use crate::distrust::Distrust;
use crate::lesson::{self, Lesson, NoLesson, SHORT_TIME, file};
use crate::limits::{Lowerings, Source, files, held};
use crate::lock::Lock;
use crate::log::log;
use crate::meter::Meter;
use crate::setup::{Setup, SetupError, least};

const USAGE: &str = "\
Set the fastest mode whose predicted power plus guard band is within the limit, and exit

Usage: wattgated once [--config FILE] [--measure | --safe] [--root DIR]

If no mode is within the limit, `once` sets the mode of fewest cores and lowest clocks, and exits with code 4. Without a
model it sets the same mode and exits with 0; the daemon then climbs from there.
--safe sets that mode in any case: it needs no power sensor, no model, no lock, and of the config only `cores`,
if it can be read. A knob that does not obey is named, all others are set, and the exit code is 6. `wattgated
restore` restores the settings from before.
With `observe` in the config it sets nothing, with --safe neither, and exits with code 0.

Options:
  --config FILE  The config [/etc/wattgated.toml]; see wattgated.toml(5)
  --measure      Then measure for ten seconds, with the workload at full load, and set the mode for what this unit
                 draws. Without load the mode stays; if the GPU is busy for less than 90 % of the time, the mode can only
                 become a slower one
  --safe         Set the mode of fewest cores and lowest clocks, whatever the limit
  --root DIR     Root of the board's files, for a simulated board [/]
  -h, --help     Print this help

Example:
  wattgated once
";

/// Said where the load was not the full one.
const NOT_FULL: &str =
    "the GPU was busy for less than 90 % of the time: what the unit drew can only lower its mode";

/// How long `--measure` measures.
const MEASURED: Milliseconds = Milliseconds(10_000);

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Runs the command with the arguments that follow its name.
pub fn run(arguments: Parser) -> Result<(), Failure> {
    let (mut is_safe, mut is_measuring) = (false, false);
    let place = parse(arguments, |argument| {
        let (safe, measure) = (
            *argument == Arg::Long("safe"),
            *argument == Arg::Long("measure"),
        );
        is_safe |= safe;
        is_measuring |= measure;
        safe || measure
    })?;
    if is_safe && is_measuring {
        return Err(Failure::Exclusive("--measure", "--safe"));
    }
    if config::observes(&place.config) {
        let path = place.config.display();
        log(
            Priority::Notice,
            format_args!("nothing is set: {path} has observe = true, so the board stays as it is"),
        );
        return Ok(());
    }
    if is_safe {
        place.check_machine()?;
        let discovered = Board::discover_knobs(&InTime::plain(), &place.root);
        let mut board = discovered.map_err(SetupError::from)?;
        let cores = match Config::read(&place.config) {
            Ok(config) => config.cores,
            Err(why) => {
                log(Priority::Warning, &why);
                None
            }
        };
        check_writable(&board)?;
        // Less power is set in any case.
        let lock = Lock::take(&place.root);
        if let Err(why) = &lock {
            log(
                Priority::Warning,
                format_args!("{why}; the least mode is set all the same"),
            );
        }
        keep(&board, &place.root);
        let mode = least(&board, cores);
        let applied = board.apply(&mut InTime::plain(), &mode)?;
        told(&mode, applied.writes);
        return obeyed(&board);
    }
    let mut setup = place.setup_now()?;
    check_writable(&setup.board)?;
    let _lock = Lock::take(&place.root)?;
    keep(&setup.board, &place.root);
    if let Err(why) = setup.learn_from(&place.root, System.utc()) {
        log(Priority::Notice, why);
    }
    if let Some(why @ Distrust::NoModel) = setup.choices.distrust {
        log(Priority::Notice, why);
    }
    // What clients have lowered holds without the daemon too.
    let (lowerings, read) = Lowerings::read(&files(&place.root));
    if let Err(why) = read {
        log(Priority::Error, &why);
    }
    let base = setup.config.limit.power;
    let held = held(&setup.config, base, &lowerings, iter::empty());
    if let (Source::Socket, Some(by)) = (held.source, &held.by) {
        log(
            Priority::Notice,
            format_args!(
                "the limit is {} in place of {}, as {by} has lowered it; once the daemon runs, `wattgated set-limit --lift` \
                 of that user lifts it",
                setup.config.at_limit(held.limit.power),
                setup.config.at_limit(base)
            ),
        );
    }
    setup.config.limit = held.limit;
    if !setup.choices.unit.effect.is_profiled {
        log(Priority::Notice, format_args!("unit {}", setup.unit()));
    }
    if let Some(unmet) = setup.unmet() {
        log(Priority::Warning, unmet);
    }
    setup.set_choice(&mut InTime::plain(), told)?;
    if is_measuring {
        setup = measured(setup, &place.root)?;
    }
    let obeyed = obeyed(&setup.board);
    let over = over_limit(&setup);
    if over.is_err()
        && let Err(knobs) = &obeyed
    {
        log(Priority::Error, format_args!("{knobs}"));
    }
    over.and(obeyed)
}

/// Lets the daemon's control measure for [`MEASURED`], and sets the mode for what this unit draws. Without load, without the
/// sensor and after a signal the mode stays.
fn measured(setup: Setup, root: &Path) -> Result<Setup, Failure> {
    let stop = Arc::<AtomicBool>::default();
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::Signals)?;
    }
    let (config, choices, models) = (
        setup.config.clone(),
        setup.choices.clone(),
        setup.models.clone(),
    );
    let before = setup.choice().ok().map(|choice| setup.mode(choice.mode));
    let meter = setup.meter.as_ref().map(Meter::path);
    let files = InTime::with_meter(meter).map_err(Failure::Thread)?;
    let mut control = Control::new(setup, files);
    let start = System.now();
    while System.now().since(start) < MEASURED && !stop.load(Ordering::Relaxed) {
        let next = control.step(System.now(), &mut |event| log(event.priority(), &event));
        let wait = next.since(System.now()).0.clamp(1, 100);
        thread::sleep(Duration::from_millis(wait));
    }
    let is_blind = control.status().0.state == State::Safe(Cause::NoSensor);
    let lesson = match is_blind {
        true => Err(NoLesson::NoSensor),
        false => control.lesson(SHORT_TIME, System.utc()),
    };
    // The sensor averages as before.
    control.set_yielded(true);
    let (board, mut files) = control.release();
    let mut setup = Setup {
        config,
        board,
        choices,
        models,
        meter: None,
    };
    let was_stopped = stop.load(Ordering::Relaxed);
    let why = match lesson {
        _ if was_stopped => "a signal has stopped it".to_owned(),
        Err(why) => why.to_string(),
        Ok(lesson) => {
            if !lesson.is_full() {
                log(Priority::Notice, NOT_FULL);
            }
            let older = lesson::usable(root, &lesson.subject, System.utc());
            setup
                .choices
                .learn_now(&lesson, older.as_ref(), &setup.board);
            match &older {
                Some(older) => save(&lesson.after(older), root),
                None => save(&lesson, root),
            }
            log(Priority::Info, format_args!("unit {}", setup.choices.unit));
            setup.set_choice(&mut files, told)?;
            return Ok(setup);
        }
    };
    log(
        Priority::Notice,
        format_args!("nothing was learned: {why}; the mode stays"),
    );
    let mode = before.unwrap_or(setup.safe());
    let applied = setup.board.apply(&mut files, &mode)?;
    told(&mode, applied.writes);
    match was_stopped {
        true => Err(Failure::Stopped),
        false => Ok(setup),
    }
}

/// Saves what was learned; on error says so, since it is lost.
fn save(lesson: &Lesson, root: &Path) {
    let path = file(root, &lesson.subject);
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    if let Err(why) = folder.and_then(|()| replace(&path, lesson.to_string().as_bytes())) {
        let path = path.display();
        log(
            Priority::Warning,
            format_args!("{path}: what was learned of this unit is not saved: {why}"),
        );
    }
}

/// Saves the settings from before, for `wattgated restore`. An earlier file of this boot stays as it is.
fn keep(board: &Board, root: &Path) {
    if let Err(why) = Kept::keep(board, root) {
        log(Priority::Warning, format_args!("{why}"));
    }
}

fn told(mode: &PowerMode, writes: u32) {
    log(
        Priority::Info,
        format_args!("once: {mode}; {writes} writes"),
    );
}

/// Fails if a knob does not obey.
fn obeyed(board: &Board) -> Result<(), Failure> {
    let knobs: Vec<Disobedience> = board.disobedient().cloned().collect();
    match knobs.is_empty() {
        true => Ok(()),
        false => Err(Failure::Disobeyed(knobs)),
    }
}
