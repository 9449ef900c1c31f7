//! The options of an aim on the command line.

use lexopt::{Parser, ValueExt};
use wattgate_cli::aim::{Said, objective};
use wattgate_cli::quantity::within;

use crate::quantity::Deadline;

/// Their help.
pub const OPTIONS: &str = "  --objective NAME       What to minimise below the limit: fastest, least-power, least-energy or least-edp [fastest,
                         with a deadline least-power]
  --deadline TIME        The longest time of a step, such as 33ms
  --steps N              Instead of --deadline: N steps
  --within TIME          The time for these, 1min to 240h
  --epochs N             Instead of --steps: N epochs
  --steps-per-epoch N    The steps of one of these
";

/// Takes an option, named without its dashes; false if it is another one.
pub fn take(said: &mut Said, option: &str, parser: &mut Parser) -> Result<bool, lexopt::Error> {
    match option {
        "objective" => said.objective = Some(parser.value()?.parse_with(objective)?),
        "deadline" => said.deadline = Some(parser.value()?.parse_with(Deadline::parse)?.0),
        "steps" => said.steps = Some(parser.value()?.parse()?),
        "epochs" => said.epochs = Some(parser.value()?.parse()?),
        "steps-per-epoch" => said.steps_per_epoch = Some(parser.value()?.parse()?),
        "within" => said.within = Some(parser.value()?.parse_with(within)?),
        _ => return Ok(false),
    }
    Ok(true)
}
