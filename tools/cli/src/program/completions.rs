//! Scripts that complete the commands and options of a program in a shell. Other words are completed as names of files.

use std::fmt::Write;

use super::options::{Opt, options};
use super::{Does, Program};

/// A shell.
#[derive(Clone, Copy, Debug)]
pub enum Shell {
    Bash,
    Fish,
    Zsh,
}

impl Shell {
    pub const ALL: [Self; 3] = [Self::Bash, Self::Fish, Self::Zsh];

    /// What an argument is expected to be.
    pub const EXPECTED: &str = "bash, fish or zsh";

    pub const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Fish => "fish",
            Self::Zsh => "zsh",
        }
    }
}

/// The words that follow a command, besides its options.
fn words<R>(program: &Program<R>, command: &str) -> Vec<&'static str> {
    match command {
        "" | "help" => program.commands(),
        "completions" => Shell::ALL.map(Shell::name).to_vec(),
        _ => Vec::new(),
    }
}

/// The script for a shell.
pub fn script<R>(program: &Program<R>, shell: Shell) -> String {
    match shell {
        Shell::Bash => bash(program),
        Shell::Fish => fish(program),
        Shell::Zsh => zsh(program),
    }
}

/// The name of the shell's function.
fn function<R>(program: &Program<R>) -> String {
    format!("_{}", program.name.replace('-', "_"))
}

/// The help texts of the program, with the empty name, and of all commands.
fn texts<R>(program: &Program<R>) -> Vec<(&'static str, String)> {
    let names = [""].into_iter().chain(program.commands());
    let texts = names.map(|name| (name, program.text(name).unwrap_or_default()));
    texts.collect()
}

fn bash<R>(program: &Program<R>) -> String {
    let (name, function) = (program.name, function(program));
    let (mut own, mut cases) = (String::new(), String::new());
    for (command, text) in texts(program) {
        let options = options(&text);
        let options = options.iter().flat_map(|option| option.names.iter());
        let options: Vec<&str> = options.copied().collect();
        let (options, words) = (options.join(" "), words(program, command).join(" "));
        let line = format!("options='{options}' words='{words}'");
        match command {
            "" => own = line,
            command => cases += &format!("            {command}) {line} ;;\n"),
        }
    }
    format!(
        "\
{function}() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} {own}
    if [ \"$COMP_CWORD\" -gt 1 ]; then
        words=
        case ${{COMP_WORDS[1]}} in
{cases}        esac
    fi
    # An empty word may become the name of a file.
    [[ $word != -* ]] || words=$options
    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))
}}
complete -o bashdefault -o default -F {function} {name}
"
    )
}

/// A text in single quotes, for fish and zsh.
fn quoted(text: &str, quote: &str) -> String {
    format!("'{}'", text.replace('\'', quote))
}

fn zsh<R>(program: &Program<R>) -> String {
    let (name, function) = (program.name, function(program));
    // A colon ends the name.
    let entry = |name: &str, about: &str| {
        let name = name.replace(':', "\\:");
        format!(" {}", quoted(&format!("{name}:{about}"), "'\\''"))
    };
    let (mut own, mut cases) = (String::new(), String::new());
    for (command, text) in texts(program) {
        let options = options(&text);
        let entries = options.iter().flat_map(|option| {
            let names = option.names.iter();
            names.map(move |name| entry(name, option.short_about()))
        });
        let words = words(program, command).into_iter();
        let words: String = words.map(|it| entry(it, &program.about(it))).collect();
        let line = format!("flags=({}) names=({words})", entries.collect::<String>());
        match command {
            "" => own = line,
            command => cases += &format!("            {command}) {line} ;;\n"),
        }
    }
    format!(
        "\
#compdef {name}
{function}() {{
    local -a flags names
    {own}
    if (( CURRENT > 2 )); then
        names=()
        case $words[2] in
{cases}        esac
    fi
    if [[ $words[CURRENT] == -* ]]; then
        _describe -o option flags
    else
        _describe command names || _files
    fi
}}
if [ \"$funcstack[1]\" = {function} ]; then
    {function} \"$@\"
else
    compdef {function} {name}
fi
"
    )
}

fn fish<R>(program: &Program<R>) -> String {
    let mut script = String::new();
    let mut line = |when: &str, rest: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(script, "complete -c {}{when} {rest}", program.name);
    };
    for (command, text) in texts(program) {
        let after = format!(" -n '__fish_seen_subcommand_from {command}'");
        let when = match command {
            "" => " -n __fish_use_subcommand",
            _ => &after,
        };
        for word in words(program, command) {
            let about = quoted(&program.about(word), "\\'");
            line(when, &format!("-f -a {word} -d {about}"));
        }
        let when = match (command, &program.does) {
            ("", Does::One { .. }) => "",
            _ => when,
        };
        for option in options(&text) {
            line(when, &fish_option(&option));
        }
    }
    script
}

fn fish_option(option: &Opt<'_>) -> String {
    let names = option
        .names
        .iter()
        .map(|name| match name.strip_prefix("--") {
            Some(long) => format!("-l {long} "),
            None => format!("-s {} ", name.trim_start_matches('-')),
        });
    let names: String = names.collect();
    let value = if option.takes_value { "-r " } else { "" };
    format!("{names}{value}-d {}", quoted(option.short_about(), "\\'"))
}

#[cfg(test)]
mod tests {
    use std::process::Command as Process;

    use super::super::Command;
    use super::*;

    fn help() -> String {
        "Don't spill\n\nOptions:\n  --cup NAME  The cup's name [mug]\n  -o FILE  A file\n"
            .to_owned()
    }

    const BREW: Program<()> = Program {
        name: "brew-it",
        version: "1",
        does: Does::Commands {
            about: "Make coffee",
            notes: "",
            commands: &[Command::new("pour", help, ())],
        },
    };

    const ONE: Program<()> = Program {
        name: "sip",
        version: "1",
        does: Does::One { help, run: () },
    };

    /// What bash completes after these words.
    fn completed(program: &Program<()>, words: &[&str]) -> Option<Vec<String>> {
        let function = function(program);
        let script = format!(
            "{}COMP_WORDS=({}); COMP_CWORD={}; {function}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script(program, Shell::Bash),
            words
                .iter()
                .map(|it| format!("'{it}' "))
                .collect::<String>(),
            words.len() - 1
        );
        let output = Process::new("bash").args(["-c", &script]).output().ok()?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.is_empty(), "{errors}");
        let printed = String::from_utf8(output.stdout).expect("text");
        let lines = printed.lines().filter(|line| !line.is_empty());
        Some(lines.map(str::to_owned).collect())
    }

    #[test]
    fn bash_completes_commands_and_options() {
        for (program, words, expected) in [
            (
                &BREW,
                &["brew-it", ""][..],
                &["pour", "help", "completions"][..],
            ),
            (&BREW, &["brew-it", "p"], &["pour"]),
            (&BREW, &["brew-it", "--v"], &["--version"]),
            (&BREW, &["brew-it", "pour", "-"], &["--cup", "-o"]),
            (&BREW, &["brew-it", "pour", ""], &[]),
            (&BREW, &["brew-it", "pour", "x", "--c"], &["--cup"]),
            (&BREW, &["brew-it", "help", "p"], &["pour"]),
            (&BREW, &["brew-it", "completions", "z"], &["zsh"]),
            (&ONE, &["sip", "--"], &["--cup"]),
            (&ONE, &["sip", "-o", "x", "--"], &["--cup"]),
            (&ONE, &["sip", "h"], &["help"]),
        ] {
            // A machine without bash needs no completions of it.
            if let Some(completed) = completed(program, words) {
                assert_eq!(completed, expected, "{words:?}");
            }
        }
    }

    #[test]
    fn fish_and_zsh_know_what_each_word_is() {
        let fish = script(&BREW, Shell::Fish);
        for line in [
            "complete -c brew-it -n __fish_use_subcommand -f -a pour -d 'Don\\'t spill'\n",
            "-n '__fish_seen_subcommand_from pour' -l cup -r -d 'The cup\\'s name'\n",
            "-n '__fish_seen_subcommand_from pour' -s o -r -d 'A file'\n",
        ] {
            assert!(fish.contains(line), "{fish}");
        }
        let zsh = script(&BREW, Shell::Zsh);
        for part in [
            "#compdef brew-it\n",
            " 'pour:Don'\\''t spill'",
            "pour) flags=( '--cup:The cup'\\''s name' '-o:A file') names=() ;;\n",
        ] {
            assert!(zsh.contains(part), "{zsh}");
        }
    }
}
