//! Shell completions and manual pages, made from the arguments and the help texts.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use thiserror::Error;

use super::{Failure, print_text};

/// The shells whose completions a package installs.
const INSTALLED: [Shell; 3] = [Shell::Bash, Shell::Fish, Shell::Zsh];

/// The example of the help of `completions`.
pub fn example(program: &str) -> String {
    format!(
        "Example:\n  {program} completions bash > ~/.local/share/bash-completion/completions/{program}"
    )
}

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Prints the completions of a program with these arguments.
pub fn print_completions<P: CommandFactory>(arguments: &Completions) -> Result<(), Failure> {
    print_text(&completions(P::command(), arguments.shell))
}

fn completions(mut program: Command, shell: Shell) -> String {
    let mut script = Vec::new();
    let name = program.get_name().to_owned();
    clap_complete::generate(shell, &mut program, name, &mut script);
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
#[error("{}: cannot write: {source}; name a folder that exists", path.display())]
pub struct PageError {
    path: PathBuf,
    source: io::Error,
}

/// Writes the manual pages and the completions of a program with these arguments.
pub fn write_pages<P: CommandFactory>(arguments: &Pages) -> Result<(), Failure> {
    let write = |name: &str, text: &[u8]| {
        let path = arguments.folder.join(name);
        fs::write(&path, text).map_err(|source| PageError { path, source })
    };
    for (name, page) in pages(P::command(), &arguments.date)? {
        write(&name, &page)?;
    }
    for shell in INSTALLED {
        let program = P::command();
        // The file that the shell looks for.
        let name = match shell {
            Shell::Zsh => format!("_{}", program.get_name()),
            shell => format!("{}.{shell}", program.get_name()),
        };
        write(&name, completions(program, shell).as_bytes())?;
    }
    Ok(())
}

/// The file names and texts of all pages: the program's, then one for each command.
fn pages(program: Command, date: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let name = program.get_name();
    let mut pages = vec![(format!("{name}.1"), page(&program, name, date)?)];
    add_pages(&program, name, name, date, &mut pages)?;
    Ok(pages)
}

/// Adds the pages of a command's commands, and of theirs.
fn add_pages(
    parent: &Command,
    program: &str,
    name: &str,
    date: &str,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> io::Result<()> {
    for command in visible(parent).filter(|command| command.get_name() != "help") {
        let name = format!("{name}-{}", command.get_name());
        let named = command.clone().display_name(name.clone());
        pages.push((format!("{name}.1"), page(&named, program, date)?));
        add_pages(command, program, &name, date, pages)?;
    }
    Ok(())
}

fn visible(program: &Command) -> impl Iterator<Item = &Command> {
    let commands = program.get_subcommands();
    commands.filter(|command| !command.is_hide_set())
}

/// The page of a program or of one of its commands.
fn page(command: &Command, program: &str, date: &str) -> io::Result<Vec<u8>> {
    let name = command.get_display_name().unwrap_or(program);
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
    see_also(name, program).to_writer(&mut page)?;
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

fn see_also(name: &str, program: &str) -> Roff {
    let others: &[(&str, &str)] = match name == program {
        true => &[("wattgate", "(1), "), ("wattgated", "(8)")],
        false => &[(program, "(1)")],
    };
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let inline = others
        .iter()
        .flat_map(|(name, section)| [bold(*name), roman(*section)]);
    roff.text(inline.collect::<Vec<_>>());
    roff
}
