//! `run`: holds a limit while a program runs.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::Parser;
use wattgate_watchdog::config::Config;

use super::options::{help, limit, parse, within};
use super::site::{Site, config};
use super::{Failure, hold, print};

const USAGE: &str = "\
Hold a power limit while a program runs

Usage: wattgate run --limit W [options] -- PROGRAM [arguments]
       wattgate run --limit W [options] --attach PID

Options:
  --limit W        The limit on the power of the module, such as 20W
  --model FILE     The workload's model [that of the daemon's config, /etc/wattgated.toml]
  --time S         Hold the limit for S seconds, then end PROGRAM [until it ends]
";

const NOTES: &str = "\
At the end the energy, the mean and the highest power, the time over the limit and the speed are
printed, and the power mode from before is restored; after a crash, by the next start.

Exit codes: 0 done, 2 wrong arguments, 3 a defective input file or no board, 4 no mode is within the
limit, 5 anything else.

Example:
  wattgate run --limit 20W --model yolo.wgt -- python3 train.py
";

/// Runs the command with the arguments that follow its name.
pub fn run(parser: Parser) -> Result<(), Failure> {
    let (mut power, mut model, mut time) = (None, None, None);
    let common = parse(parser, |option, parser| {
        match option {
            "--limit" => power = Some(limit(parser)?),
            "--model" => model = Some(PathBuf::from(parser.value()?)),
            "--time" => {
                let seconds = within(parser, "--time", 1.0..=1e9, "1 … 1000000000")?;
                time = Some(Duration::from_secs_f64(seconds));
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let Some(common) = common else {
        return print(&help(USAGE, NOTES));
    };
    let limit = power.ok_or(Failure::Missing("--limit"))?;
    let model = match model {
        Some(model) => model,
        None => Config::read(&config(&common.root))?.model,
    };
    let mut site = Site::open(&common)?;
    let held = hold::setup(&model, limit, &common.root, site.files).and_then(|setup| {
        common.workload.start(&mut site.process, common.json)?;
        Ok(hold::run(&mut site, setup, time, |_, _, _| {}))
    });
    site.close()?;
    hold::show(&held?, limit, common.json)
}
