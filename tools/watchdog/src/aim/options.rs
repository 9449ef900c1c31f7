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

/// Takes an option, named without its dashes; false if it is another one. Fails if it was given before.
pub fn take(said: &mut Said, option: &str, parser: &mut Parser) -> Result<bool, lexopt::Error> {
    let before = match option {
        "objective" => replace(&mut said.objective, parser.value()?.parse_with(objective)?),
        "deadline" => {
            let Deadline(deadline) = parser.value()?.parse_with(Deadline::parse)?;
            replace(&mut said.deadline, deadline)
        }
        "steps" => replace(&mut said.steps, parser.value()?.parse()?),
        "epochs" => replace(&mut said.epochs, parser.value()?.parse()?),
        "steps-per-epoch" => replace(&mut said.steps_per_epoch, parser.value()?.parse()?),
        "within" => replace(&mut said.within, parser.value()?.parse_with(within)?),
        _ => return Ok(false),
    };
    match before {
        true => Err(format!("--{option} is given twice").into()),
        false => Ok(true),
    }
}

/// Whether there was a value already.
fn replace<T>(old: &mut Option<T>, value: T) -> bool {
    old.replace(value).is_some()
}
