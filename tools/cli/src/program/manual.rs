//! The manual page of a program, in mdoc, made from its help texts. The programs whose pages are written by hand do not use it.
//!
//! A paragraph of a help text is filled, but for its lines that begin with a space or have three in a row, which stay as they are.

use super::{BUILT_IN, Does, Program};
use crate::exit::TABLE;

/// Longest line of a page in bytes, which mandoc asks for.
const LONGEST: usize = 80;

/// The page, with a date such as `November 30, 2026`.
pub fn page<R>(program: &Program<R>, date: &str) -> String {
    let name = program.name;
    let general = program.about("");
    let (about, rest) = general.split_once(". ").unwrap_or((&general, ""));
    let mut page = format!(
        ".\\\" Written by `{name} manual`: a test compares them.\n\
         .Dd {date}\n.Dt {} 1\n.Os wattgate\n.Sh NAME\n.Nm {name}\n.Nd {}\n.Sh SYNOPSIS\n.Nm\n",
        name.to_uppercase(),
        about.trim_end_matches('.').to_lowercase_first()
    );
    match &program.does {
        Does::One { help, .. } => {
            page += ".Op Ar options\n.Nm\n.Cm completions\n.Ar shell\n.Sh DESCRIPTION\n";
            page += &paragraphs(&help(), name);
        }
        Does::Commands {
            notes, commands, ..
        } => {
            page += ".Ar command\n.Op Ar options\n.Sh DESCRIPTION\n";
            page += &filled(rest);
            page += &paragraphs(notes, name);
            page += ".Sh COMMANDS\n";
            let own = commands.iter().map(|command| command.name);
            for command in own.chain(BUILT_IN) {
                let text = program.text(command).unwrap_or_default();
                page += &format!(".Ss {name} {command}\n{}", paragraphs(&text, name));
            }
        }
    }
    page += ".Sh EXIT STATUS\n.Bl -tag -width Ds -compact\n";
    for row in TABLE.lines().filter_map(|line| line.strip_prefix("  ")) {
        let (code, meaning) = row.split_once("  ").unwrap_or((row, ""));
        page += &format!(
            ".It {code}\n{}",
            filled(&format!("{}.", meaning.to_uppercase_first()))
        );
    }
    page += ".El\n.Sh SEE ALSO\n.Xr wattgate 1 ,\n.Xr wattgated 8\n";
    page
}

trait FirstLetter {
    fn to_lowercase_first(&self) -> String;
    fn to_uppercase_first(&self) -> String;
}

impl FirstLetter for str {
    fn to_lowercase_first(&self) -> String {
        let at = self.chars().next().map_or(0, char::len_utf8);
        self[..at].to_lowercase() + &self[at..]
    }

    fn to_uppercase_first(&self) -> String {
        let at = self.chars().next().map_or(0, char::len_utf8);
        self[..at].to_uppercase() + &self[at..]
    }
}

/// The paragraphs of a help text.
fn paragraphs(text: &str, name: &str) -> String {
    let mut found = String::new();
    for paragraph in text.trim_end().split("\n\n") {
        let first = paragraph.lines().next().unwrap_or_default();
        let shown = match first {
            "Options:" => options(paragraph),
            _ if first.starts_with(&format!("Usage: {name}")) => {
                let lines = paragraph.lines();
                literal(lines.map(|line| line.get("Usage: ".len()..).unwrap_or_default()))
            }
            _ => runs(paragraph),
        };
        // A list or a display begins a paragraph itself.
        if !found.is_empty() && !shown.starts_with('.') {
            found += ".Pp\n";
        }
        found += &shown;
    }
    found
}

/// A paragraph whose lines are filled, or stay as they are.
fn runs(paragraph: &str) -> String {
    let stays = |line: &str| line.starts_with(' ') || line.contains("   ");
    // Such as `Boards: …`, a list of its own.
    let is_list = |line: &str| {
        line.split(' ')
            .next()
            .is_some_and(|word| word.ends_with(':'))
    };
    let lines: Vec<&str> = paragraph.lines().collect();
    let runs = lines.chunk_by(|a, b| stays(a) == stays(b) && !is_list(b));
    let mut found = String::new();
    for run in runs {
        if stays(run[0]) {
            found += &literal(run.iter().copied());
            continue;
        }
        if !found.is_empty() {
            found += ".Pp\n";
        }
        found += &filled(&run.join(" "));
    }
    found
}

/// The list of the options.
fn options(paragraph: &str) -> String {
    let mut list = ".Bl -tag -width Ds\n".to_owned();
    let mut about = String::new();
    for line in paragraph.lines().skip(1) {
        let line = line.trim_start();
        if !line.starts_with('-') {
            about += &format!(" {line}");
            continue;
        }
        list += &filled(&about);
        let (option, text) = line.split_once("  ").unwrap_or((line, ""));
        about = text.trim_start().to_owned();
        let words = option.split(' ').map(|word| {
            let (word, comma) = match word.strip_suffix(',') {
                Some(word) => (word, " ,"),
                None => (word, ""),
            };
            match word.strip_prefix('-') {
                Some(flag) => format!("Fl {}{comma}", escaped(flag)),
                None => format!("Ar {}{comma}", escaped(word)),
            }
        });
        list += &format!(".It {}\n", words.collect::<Vec<_>>().join(" "));
    }
    list + &filled(&about) + ".El\n"
}

/// Text in lines, each sentence on a new one.
fn filled(text: &str) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let word = escaped(word);
        let ends = line.ends_with(['.', '?', '!']) || line.ends_with(".)");
        let is_full = line.len() + 1 + word.len() > LONGEST;
        if !line.is_empty() && (is_full || ends && !line.ends_with("..")) {
            lines += &format!("{}\n", std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        // A line that begins with these would be a macro.
        if line.is_empty() && word.starts_with(['.', '\'']) {
            line += "\\&";
        }
        line += &word;
    }
    match line.is_empty() {
        true => lines,
        false => format!("{lines}{line}\n"),
    }
}

/// Lines that stay as they are.
fn literal<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut block = ".Bd -literal\n".to_owned();
    for line in lines {
        let mut left = LONGEST;
        for character in line.chars() {
            let character = escaped(character.encode_utf8(&mut [0; 4]));
            // `\c` goes on in the same line.
            if character.len() + "\\c".len() > left {
                block += "\\c\n";
                left = LONGEST;
            }
            if left == LONGEST && character.starts_with(['.', '\'']) {
                block += "\\&";
                left -= 2;
            }
            left -= character.len();
            block += &character;
        }
        block.push('\n');
    }
    block + ".Ed\n"
}

/// Text without characters that mean something else in a page.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '\\' => escaped += "\\e",
            '-' => escaped += "\\-",
            '`' => escaped += "\\(ga",
            '\'' => escaped += "\\(aq",
            '~' => escaped += "\\(ti",
            '^' => escaped += "\\(ha",
            character if character.is_ascii() => escaped.push(character),
            character => escaped += &format!("\\[u{:04X}]", u32::from(character)),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_filled_listed_or_stay() {
        let text = "\
Brew coffee

Usage: brew run --water ML
       brew run --tea

Options:
  --water ML       How much, such as 300. It may be
                   cold
  -o, --cup FILE   The cup

First grind. Then `brew` for 3 … 5 minutes: it takes long.
grind COARSE     for a French press
.hidden          and this

Cups: small, large
Beans: arabica
";
        let expected = "\
Brew coffee
.Bd -literal
brew run \\-\\-water ML
brew run \\-\\-tea
.Ed
.Bl -tag -width Ds
.It Fl \\-water Ar ML
How much, such as 300.
It may be cold
.It Fl o , Fl \\-cup Ar FILE
The cup
.El
.Pp
First grind.
Then \\(gabrew\\(ga for 3 \\[u2026] 5 minutes: it takes long.
.Bd -literal
grind COARSE     for a French press
\\&.hidden          and this
.Ed
.Pp
Cups: small, large
.Pp
Beans: arabica
";
        assert_eq!(paragraphs(text, "brew"), expected);
    }

    #[test]
    fn no_line_is_longer_than_mandoc_allows() {
        let long = "word-".repeat(60);
        let text = literal(std::iter::once(long.as_str()));
        assert!(text.lines().all(|line| line.len() <= LONGEST), "{text}");
        assert_eq!(text.replace("\\c\n", "").lines().count(), 3);
        let text = filled(&"a few words ".repeat(60));
        assert!(text.lines().all(|line| line.len() <= LONGEST), "{text}");
    }
}
