//! A program as a table of commands: name, help text and function of each. `--version`, `help`, `completions`, the manual page and
//! the messages about an unknown command or option come from the table.
//!
//! A help text is the one source about its command. Its first line is the command's line in the general help, and the
//! completions read its options (`options`). The list of commands and the exit codes are added here.
//!
//! A command need not know `--help` and `--version`: it refuses them as unknown options, and the program answers them.

mod completions;
mod manual;
mod options;

use std::ffi::OsString;
use std::io::{self, Write};

use lexopt::{Error, Parser};

use crate::exit::{Failed, TABLE};
use crate::nearest::nearest;
use completions::Shell;

/// A program whose functions have the type `R`.
pub struct Program<R: 'static> {
    pub name: &'static str,
    pub version: &'static str,
    pub does: Does<R>,
}

/// What a program does.
pub enum Does<R: 'static> {
    /// One thing.
    One {
        /// Text of the help, which is the general help.
        help: fn() -> String,
        run: R,
    },
    /// One of several things, by the first argument.
    Commands {
        /// What they are for, in a line.
        about: &'static str,
        /// Paragraphs of the general help after the list of the commands.
        notes: &'static str,
        commands: &'static [Command<R>],
    },
}

/// A command.
pub struct Command<R> {
    pub name: &'static str,
    help: fn() -> String,
    pub run: R,
}

impl<R> Command<R> {
    /// A command. The first line of the help's text says what it does; `run` is its function.
    pub const fn new(name: &'static str, help: fn() -> String, run: R) -> Self {
        Self { name, help, run }
    }
}

/// The commands that every program has.
const BUILT_IN: [&str; 2] = ["help", "completions"];

/// Prints the manual page. No help lists it, since it is for those who write the pages.
const MANUAL: &str = "manual";

/// The options of a program with commands.
const OPTIONS: &str = "\
Options:
  -h, --help     Print this
  -V, --version  Print the version";

/// What the arguments ask for.
enum Asked<'a, R> {
    Text(String),
    /// A function with its arguments; the command's name is empty in a program that does one thing.
    Run(&'a str, &'a R, Vec<OsString>),
}

impl<R> Program<R> {
    /// Runs what the arguments ask for: those that follow the program's name. `run` calls the function of a command with the
    /// arguments that follow the command's name.
    pub fn run<F>(
        &self,
        arguments: Vec<OsString>,
        run: impl FnOnce(&R, Parser) -> Result<(), F>,
    ) -> Result<(), F>
    where
        F: Failed + From<Error> + From<io::Error>,
    {
        match self.answer(arguments, run)? {
            Some(text) => Ok(print(&text)?),
            None => Ok(()),
        }
    }

    /// The text to print, if the arguments ask for one; else runs a command.
    fn answer<F>(
        &self,
        arguments: Vec<OsString>,
        run: impl FnOnce(&R, Parser) -> Result<(), F>,
    ) -> Result<Option<String>, F>
    where
        F: Failed + From<Error>,
    {
        let (name, result) = match self.asked(arguments)? {
            Asked::Text(text) => return Ok(Some(text)),
            Asked::Run(name, function, rest) => (name, run(function, Parser::from_args(rest))),
        };
        let Err(failure) = result else {
            return Ok(None);
        };
        let Some(Error::UnexpectedOption(option)) = failure.argument_error() else {
            return Err(failure);
        };
        match (
            self.general(option, name),
            self.unknown_option(option, name),
        ) {
            (Some(text), _) => Ok(Some(text)),
            (None, Some(error)) => Err(error.into()),
            (None, None) => Err(failure),
        }
    }

    fn asked(&self, mut arguments: Vec<OsString>) -> Result<Asked<'_, R>, Error> {
        let first = arguments.first();
        let first = first.map(|first| first.to_string_lossy().into_owned());
        match first.as_deref() {
            Some("help") => return self.helped(&arguments[1..]).map(Asked::Text),
            Some("completions") => return self.completed(&arguments[1..]).map(Asked::Text),
            Some(MANUAL) => return self.manual(&arguments[1..]).map(Asked::Text),
            _ => {}
        }
        let commands = match &self.does {
            Does::One { run, .. } => return Ok(Asked::Run("", run, arguments)),
            Does::Commands { commands, .. } => *commands,
        };
        let Some(first) = first else {
            return Err("missing a command; --help lists them".into());
        };
        if let Some(command) = commands.iter().find(|command| command.name == first) {
            let rest = arguments.split_off(1);
            return Ok(Asked::Run(command.name, &command.run, rest));
        }
        if let Some(text) = self.general(&first, "") {
            return Ok(Asked::Text(text));
        }
        Err(match first.starts_with('-') {
            true => match self.unknown_option(&first, "") {
                Some(error) => error,
                None => Error::UnexpectedOption(first),
            },
            false => self.unknown_command(&first),
        })
    }

    /// The answer to an option that every command has.
    fn general(&self, option: &str, command: &str) -> Option<String> {
        match option {
            "-h" | "--help" => self.help(command),
            "-V" | "--version" => Some(format!("{} {}\n", self.name, self.version)),
            _ => None,
        }
    }

    /// The answer to `help` and the arguments that follow.
    fn helped(&self, arguments: &[OsString]) -> Result<String, Error> {
        let command = match arguments {
            [] => "".into(),
            [command] => command.to_string_lossy(),
            [_, other, ..] => return Err(Error::UnexpectedArgument(other.clone())),
        };
        if let Some(text) = self.general(&command, "help") {
            return Ok(text);
        }
        let help = self.help(&command);
        help.ok_or_else(|| self.unknown_command(&command))
    }

    /// The answer to `completions` and the arguments that follow.
    fn completed(&self, arguments: &[OsString]) -> Result<String, Error> {
        let shell = match arguments {
            [] => return Err(format!("missing the shell: expected {}", Shell::EXPECTED).into()),
            [shell] => shell.to_string_lossy(),
            [_, other, ..] => return Err(Error::UnexpectedArgument(other.clone())),
        };
        if let Some(text) = self.general(&shell, "completions") {
            return Ok(text);
        }
        let known = Shell::ALL.into_iter().find(|it| it.name() == shell);
        let known = known.ok_or_else(|| {
            let expected = Shell::EXPECTED;
            Error::from(format!("unknown shell `{shell}`, expected {expected}"))
        });
        Ok(completions::script(self, known?))
    }

    /// The manual page, with the date that is the argument.
    fn manual(&self, arguments: &[OsString]) -> Result<String, Error> {
        match arguments {
            [date] => Ok(manual::page(self, &date.to_string_lossy())),
            _ => Err("expected the date of the page, such as \"November 30, 2026\"".into()),
        }
    }

    /// The names of all commands.
    fn commands(&self) -> Vec<&'static str> {
        let own: &[Command<R>] = match &self.does {
            Does::One { .. } => &[],
            Does::Commands { commands, .. } => commands,
        };
        let own = own.iter().map(|command| command.name);
        own.chain(BUILT_IN).collect()
    }

    /// The text of a command's help without the exit codes; `None` if there is no such command. The empty name stands for the
    /// program.
    fn text(&self, command: &str) -> Option<String> {
        match (command, &self.does) {
            ("", Does::One { help, .. }) => Some(help()),
            (
                "",
                Does::Commands {
                    about,
                    notes,
                    commands,
                },
            ) => {
                let names = commands.iter().map(|command| command.name).chain(BUILT_IN);
                let width = names.clone().map(str::len).max().unwrap_or(0);
                let lines = names.map(|name| format!("  {name:width$}  {}\n", self.about(name)));
                let lines: String = lines.collect();
                let usage = format!("Usage: {} COMMAND [options]", self.name);
                Some(format!(
                    "{about}\n\n{usage}\n\nCommands:\n{lines}\n{OPTIONS}\n\n{notes}"
                ))
            }
            ("help", _) => Some(format!(
                "Print the help of a command\n\n\
                 Usage: {} help [COMMAND]\n\n\
                 Options:\n  -h, --help  Print this\n",
                self.name
            )),
            ("completions", _) => Some(format!(
                "Print the completions of a shell\n\n\
                 Usage: {name} completions SHELL\n\n\
                 SHELL is {}.\n\n\
                 Options:\n  -h, --help  Print this\n\n\
                 Example:\n  {name} completions bash > ~/.local/share/bash-completion/completions/{name}\n",
                Shell::EXPECTED,
                name = self.name
            )),
            (_, Does::One { .. }) => None,
            (name, Does::Commands { commands, .. }) => {
                let mut commands = commands.iter();
                commands.find(|it| it.name == name).map(|it| (it.help)())
            }
        }
    }

    /// The help of a command.
    fn help(&self, command: &str) -> Option<String> {
        let text = self.text(command)?;
        Some(format!("{}\n\n{TABLE}", text.trim_end()))
    }

    /// What a command does, in a line.
    fn about(&self, command: &str) -> String {
        let text = self.text(command).unwrap_or_default();
        text.lines().next().unwrap_or_default().to_owned()
    }

    fn unknown_command(&self, found: &str) -> Error {
        let mut names = self.commands();
        let nearest = nearest(found, names.iter().copied());
        let nearest = nearest.map_or(String::new(), |it| format!("; did you mean `{it}`?"));
        let last = names.pop().unwrap_or_default();
        let names = names.join(", ");
        format!("unknown command `{found}`, expected {names} or {last}{nearest}").into()
    }

    /// The message about an unknown option of a command that is nearly one of its options.
    fn unknown_option(&self, found: &str, command: &str) -> Option<Error> {
        let found_name = found.strip_prefix("--")?;
        let text = self.text(command)?;
        let known = options::options(&text);
        let names = known.iter().flat_map(|option| option.names.iter());
        let names = names.filter_map(|name| name.strip_prefix("--"));
        let near = nearest(found_name, names)?;
        Some(format!("there is no option {found}; did you mean `--{near}`?").into())
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function that returns the arguments that follow the command's name.
    type Run = fn(Parser) -> Result<(), Failure>;

    #[derive(Debug)]
    struct Failure(Error);

    impl From<Error> for Failure {
        fn from(error: Error) -> Self {
            Self(error)
        }
    }

    impl std::fmt::Display for Failure {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt(f)
        }
    }

    impl Failed for Failure {
        fn exit_code(&self) -> u8 {
            crate::exit::ARGUMENTS
        }

        fn print_error(&self) -> Option<&io::Error> {
            None
        }

        fn argument_error(&self) -> Option<&Error> {
            Some(&self.0)
        }
    }

    fn check(mut arguments: Parser) -> Result<(), Failure> {
        while let Some(argument) = arguments.next()? {
            match argument {
                lexopt::Arg::Long("config") => drop(arguments.value()?),
                argument => return Err(argument.unexpected().into()),
            }
        }
        Ok(())
    }

    fn check_help() -> String {
        let about = "Check a config\n\nUsage: brew check [options]\n\n";
        format!("{about}Options:\n  --config FILE  The config\n  -h, --help  Print this\n")
    }

    fn fails(_: Parser) -> Result<(), Failure> {
        Err(Error::from("no water").into())
    }

    fn run_help() -> String {
        "Run the pump\n\nUsage: brew run\n".to_owned()
    }

    const BREW: Program<Run> = Program {
        name: "brew",
        version: "1.2.3",
        does: Does::Commands {
            about: "Make coffee",
            notes: "Water first.\n",
            commands: &[
                Command::new("check", check_help, check),
                Command::new("run", run_help, fails),
            ],
        },
    };

    const SIP: Program<Run> = Program {
        name: "sip",
        version: "1.2.3",
        does: Does::One {
            help: check_help,
            run: check,
        },
    };

    /// What the program answers, or why it fails.
    fn answer(program: &Program<Run>, text: &str) -> Result<Option<String>, String> {
        let arguments = text.split_whitespace().map(OsString::from).collect();
        let answer = program.answer(arguments, |run, arguments| run(arguments));
        answer.map_err(|failure| failure.to_string())
    }

    const GENERAL: &str = "\
Make coffee

Usage: brew COMMAND [options]

Commands:
  check        Check a config
  run          Run the pump
  help         Print the help of a command
  completions  Print the completions of a shell

Options:
  -h, --help     Print this
  -V, --version  Print the version

Water first.

";

    #[test]
    fn the_general_help_lists_the_commands_and_the_exit_codes() {
        let expected = Ok(Some(format!("{GENERAL}{TABLE}")));
        for text in ["--help", "-h", "help"] {
            assert_eq!(answer(&BREW, text), expected, "{text}");
        }
        let own = Ok(Some(format!("{}\n{TABLE}", check_help())));
        for text in ["help", "--help", "-h", "--config x --help"] {
            assert_eq!(answer(&SIP, text), own, "{text}");
        }
    }

    #[test]
    fn every_command_has_its_help_and_the_version() {
        for command in ["check", "run", "help", "completions"] {
            let help = answer(&BREW, &format!("help {command}")).expect(command);
            let help = help.expect("a text");
            assert!(help.ends_with(&format!("\n\n{TABLE}")), "{help}");
            let (about, _) = help.split_once('\n').expect("lines");
            assert!(GENERAL.contains(&format!("  {about}\n")), "{about}");
        }
        for text in ["help --help", "help -h"] {
            assert_eq!(answer(&BREW, text), answer(&BREW, "help help"));
        }
        for text in ["check --help", "check --config x -h"] {
            assert_eq!(answer(&BREW, text), answer(&BREW, "help check"));
        }
        for text in [
            "--version",
            "-V",
            "help --version",
            "completions -V",
            "check -V",
        ] {
            let version = Ok(Some("brew 1.2.3\n".to_owned()));
            assert_eq!(answer(&BREW, text), version, "{text}");
        }
        assert_eq!(answer(&SIP, "-V"), Ok(Some("sip 1.2.3\n".to_owned())));
        assert_eq!(answer(&BREW, "check --config --help"), Ok(None));
        assert_eq!(answer(&SIP, ""), Ok(None));
    }

    #[test]
    fn what_is_unknown_is_named_with_the_nearest() {
        let known = "expected check, run, help or completions";
        for (text, expected) in [
            ("", "missing a command; --help lists them".to_owned()),
            (
                "chek",
                format!("unknown command `chek`, {known}; did you mean `check`?"),
            ),
            ("walk", format!("unknown command `walk`, {known}")),
            (
                "help chek",
                format!("unknown command `chek`, {known}; did you mean `check`?"),
            ),
            (
                "--versoin",
                "there is no option --versoin; did you mean `--version`?".to_owned(),
            ),
            ("--fast", "invalid option '--fast'".to_owned()),
            ("-x", "invalid option '-x'".to_owned()),
            (
                "completions",
                "missing the shell: expected bash, fish or zsh".to_owned(),
            ),
            (
                "completions ksh",
                "unknown shell `ksh`, expected bash, fish or zsh".to_owned(),
            ),
            ("help check run", "unexpected argument \"run\"".to_owned()),
            (
                "check --confg x",
                "there is no option --confg; did you mean `--config`?".to_owned(),
            ),
            ("check --fast", "invalid option '--fast'".to_owned()),
            ("check -x", "invalid option '-x'".to_owned()),
            ("check x", "unexpected argument \"x\"".to_owned()),
            ("run", "no water".to_owned()),
        ] {
            assert_eq!(answer(&BREW, text), Err(expected), "{text}");
        }
        let expected = "there is no option --confg; did you mean `--config`?";
        assert_eq!(answer(&SIP, "--confg x"), Err(expected.to_owned()));
    }
}
