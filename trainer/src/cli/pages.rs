//! Shell completions and manual pages, made from the arguments and the help texts.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use thiserror::Error;

use super::{Arguments, Failure, print_text};

const EXAMPLE: &str = "\
Example:
  wattgate-trainer completions bash > ~/.local/share/bash-completion/completions/wattgate-trainer

The Debian package installs them for bash, fish and zsh.";

/// The program, and the start of the names of its pages.
const NAME: &str = "wattgate-trainer";

/// The completions that a package installs: the shell, and the file that the shell looks for.
const INSTALLED: [(Shell, &str); 3] = [
    (Shell::Bash, "wattgate-trainer.bash"),
    (Shell::Fish, "wattgate-trainer.fish"),
    (Shell::Zsh, "_wattgate-trainer"),
];

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

pub fn print_completions(arguments: &Completions) -> Result<(), Failure> {
    print_text(&completions(arguments.shell))
}

fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), NAME, &mut script);
    String::from_utf8(script).expect("a script is UTF-8")
}

/// For the scripts that build a package.
#[derive(Debug, Args)]
pub struct Pages {
    /// An existing folder, to which manual pages and completions are written
    folder: PathBuf,
    /// Date of the pages
    #[arg(long, value_name = "YYYY-MM-DD")]
    date: String,
}

/// Why a page or script was not written.
#[derive(Debug, Error)]
#[error("{}: cannot write: {source}", path.display())]
pub struct PageError {
    path: PathBuf,
    source: io::Error,
}

pub fn write_pages(arguments: &Pages) -> Result<(), Failure> {
    let write = |name: &str, text: &[u8]| {
        let path = arguments.folder.join(name);
        fs::write(&path, text).map_err(|source| PageError { path, source })
    };
    for (name, page) in pages(&arguments.date)? {
        write(&name, &page)?;
    }
    for (shell, name) in INSTALLED {
        write(name, completions(shell).as_bytes())?;
    }
    Ok(())
}

/// The file names and texts of all pages: the program's, then one for each command.
fn pages(date: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let mut pages = vec![(format!("{NAME}.1"), page(&program, date)?)];
    add_pages(&program, NAME, date, &mut pages)?;
    Ok(pages)
}

/// Adds the pages of a command's commands, and of theirs.
fn add_pages(
    parent: &Command,
    name: &str,
    date: &str,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> io::Result<()> {
    for command in visible(parent).filter(|command| command.get_name() != "help") {
        let name = format!("{name}-{}", command.get_name());
        let named = command.clone().display_name(name.clone());
        pages.push((format!("{name}.1"), page(&named, date)?));
        add_pages(command, &name, date, pages)?;
    }
    Ok(())
}

fn visible(program: &Command) -> impl Iterator<Item = &Command> {
    let commands = program.get_subcommands();
    commands.filter(|command| !command.is_hide_set())
}

fn page(command: &Command, date: &str) -> io::Result<Vec<u8>> {
    let name = command.get_display_name().unwrap_or(NAME);
    let man = Man::new(command.clone())
        .title(name.to_uppercase())
        .section("1")
        .date(date)
        .source(format!("wattgate {}", env!("CARGO_PKG_VERSION")))
        .manual("wattgate");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if visible(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    let help = command.get_after_help().map(ToString::to_string);
    sections(&help.unwrap_or_default()).to_writer(&mut page)?;
    see_also(command).to_writer(&mut page)?;
    Ok(page)
}

/// A help text as sections. Lines that are indented stay as they are; clap_mangen would fill them.
fn sections(help: &str) -> Roff {
    let mut roff = Roff::new();
    let mut in_notes = false;
    for paragraph in help.split("\n\n") {
        let lines: Vec<&str> = paragraph.lines().collect();
        let title = match lines.first() {
            Some(&("Example:" | "Examples:")) => Some("EXAMPLES"),
            Some(&"Exit codes:") => Some("EXIT STATUS"),
            _ => None,
        };
        match title {
            Some(title) => roff.control("SH", [title]),
            None if in_notes => roff.control("PP", []),
            None => roff.control("SH", ["NOTES"]),
        };
        in_notes = title.is_none();
        let lines = &lines[usize::from(title.is_some())..];
        let is_literal = lines.iter().any(|line| line.starts_with(' '));
        if is_literal {
            roff.control("nf", []);
        }
        for line in lines {
            roff.text([roman(*line)]);
        }
        if is_literal {
            roff.control("fi", []);
        }
    }
    roff
}

fn see_also(command: &Command) -> Roff {
    let is_program = command.get_display_name().is_none_or(|name| name == NAME);
    let others: &[(&str, &str)] = match is_program {
        true => &[("wattgate", "(1), "), ("wattgated", "(8)")],
        false => &[(NAME, "(1)")],
    };
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let inline = others
        .iter()
        .flat_map(|(name, section)| [bold(*name), roman(*section)]);
    roff.text(inline.collect::<Vec<_>>());
    roff
}
