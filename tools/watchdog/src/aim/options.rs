//! The options of an aim on the command line.

use lexopt::{Parser, ValueExt};
use wattgate_cli::aim::{Said, objective};
use wattgate_cli::arguments::{number, of};
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
    let name = format!("--{option}");
    match option {
        "objective" => {
            said.objective = Some(parser.value()?.parse_with(objective).map_err(of(&name))?);
        }
        "deadline" => {
            let deadline = parser.value()?.parse_with(Deadline::parse);
            let Deadline(deadline) = deadline.map_err(of(&name))?;
            said.deadline = Some(deadline);
        }
        "steps" => said.steps = Some(number(parser, &name)?),
        "epochs" => said.epochs = Some(number(parser, &name)?),
        "steps-per-epoch" => said.steps_per_epoch = Some(number(parser, &name)?),
        "within" => said.within = Some(parser.value()?.parse_with(within).map_err(of(&name))?),
        _ => return Ok(false),
    }
    Ok(true)
}
