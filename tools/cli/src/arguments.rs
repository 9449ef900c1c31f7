//! Arguments of the programs that parse with lexopt: messages that name the option, what is expected and what to do.

use std::ffi::OsStr;
use std::fmt;

use lexopt::{Arg, Error, Parser, ValueExt};

/// An error of lexopt as a message.
#[derive(Debug)]
pub struct Told<'a>(pub &'a Error);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Error::MissingValue {
                option: Some(option),
            } => write!(f, "{option} needs a value; --help shows which"),
            Error::UnexpectedOption(option) => {
                write!(f, "there is no option {option}; --help lists the options")
            }
            Error::UnexpectedArgument(value) => write!(
                f,
                "`{}` is one argument too many; --help shows what is expected",
                value.display()
            ),
            Error::UnexpectedValue { option, value } => {
                write!(
                    f,
                    "{option} takes no value, found `{}`; leave the value out",
                    value.display()
                )
            }
            Error::NonUnicodeValue(value) => not_text(f, value),
            Error::ParsingFailed { value, error } => write!(f, "`{value}`: {error}"),
            error => error.fmt(f),
        }
    }
}

fn not_text(f: &mut fmt::Formatter<'_>, value: &OsStr) -> fmt::Result {
    write!(f, "`{}`: expected text in UTF-8", value.display())
}

/// Names an option or an argument in the error of its value, which begins with `expected`.
pub fn of(name: &str) -> impl FnOnce(Error) -> Error {
    move |error| match error {
        Error::ParsingFailed { value, error } => format!("{name} is `{value}`, {error}").into(),
        Error::NonUnicodeValue(value) => {
            format!("{name} is `{}`, expected text in UTF-8", value.display()).into()
        }
        error => error,
    }
}

/// Takes the value of an option that is a whole number of this type, which has no sign.
pub fn number<T: TryFrom<u64>>(parser: &mut Parser, option: &str) -> Result<T, Error> {
    let value = parser.value()?.string().map_err(of(option))?;
    let number = value.parse().ok().and_then(|it: u64| T::try_from(it).ok());
    number.ok_or_else(|| {
        let most = u64::MAX >> (64 - 8 * size_of::<T>());
        format!("{option} is `{value}`, expected a whole number, 0 to {most}").into()
    })
}

/// The options that a command line has had so far.
#[derive(Debug, Default)]
pub struct Given(Vec<String>);

impl Given {
    /// Fails if a long option is given twice among arguments that are still to be parsed, for a program none of whose options may be
    /// repeated. The value of an option must not begin with `--`.
    pub fn check(mut arguments: Parser) -> Result<(), Error> {
        let mut given = Self::default();
        while let Some(argument) = arguments.next()? {
            if let Arg::Long(name) = argument {
                given.add_option(format!("--{name}"))?;
                // That of `--name=value`.
                let _ = arguments.optional_value();
            }
        }
        Ok(())
    }

    /// Adds an argument. Fails if it is an option that was given before: of two values, one would be ignored in silence.
    pub fn add(&mut self, argument: &Arg<'_>) -> Result<(), Error> {
        match argument {
            Arg::Long(name) => self.add_option(format!("--{name}")),
            Arg::Short(letter) => self.add_option(format!("-{letter}")),
            Arg::Value(_) => Ok(()),
        }
    }

    /// The same for an option, named with its dashes.
    pub fn add_option(&mut self, option: String) -> Result<(), Error> {
        match self.0.contains(&option) {
            true => Err(format!("{option} is given twice; give it once").into()),
            false => {
                self.0.push(option);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_is_given_twice_is_found_before_it_is_parsed() {
        let check = |arguments: &[&str]| {
            let checked = Given::check(Parser::from_args(arguments));
            checked.map_err(|error| error.to_string())
        };
        let once = [
            "--seed",
            "1",
            "--offset=-5",
            "-o",
            "a",
            "--limit",
            "-5",
            "-o",
        ];
        assert_eq!(check(&once), Ok(()));
        let twice = Err("--seed is given twice; give it once".to_owned());
        assert_eq!(check(&["--seed", "1", "x", "--seed=2"]), twice);
        assert_eq!(check(&["--", "--seed", "--seed"]), Ok(()));
    }

    #[test]
    fn a_number_has_the_range_of_its_type() {
        let taken = |value: &str| {
            let mut parser = Parser::from_args(["--seed", value]);
            parser.next().expect("an option");
            let number: Result<u8, Error> = number(&mut parser, "--seed");
            number.map_err(|error| error.to_string())
        };
        assert_eq!(taken("255"), Ok(255));
        for wrong in ["256", "-1", "x", "1.5", ""] {
            let message = format!("--seed is `{wrong}`, expected a whole number, 0 to 255");
            assert_eq!(taken(wrong), Err(message));
        }
    }

    #[test]
    fn an_option_is_given_once() {
        let mut parser = Parser::from_args(["--a", "x", "-o", "x", "--a"]);
        let mut given = Given::default();
        for _ in 0..4 {
            let argument = parser.next().expect("valid").expect("one");
            given.add(&argument).expect("the first one");
        }
        let argument = parser.next().expect("valid").expect("one");
        let error = given.add(&argument).expect_err("the second one");
        assert_eq!(error.to_string(), "--a is given twice; give it once");
    }
}
