//! The options that a help text names.
//!
//! An option begins a line with two spaces: its names, with commas between them, one space and its value if it takes one, and
//! its description, which may go on in lines with more spaces:
//!
//! ```text
//!   -o, --output DIR  The folder to write to
//!                     [demo-report]
//!   --json            Print one JSON object
//! ```

/// An option.
#[derive(Debug, PartialEq)]
pub struct Opt<'a> {
    /// With their hyphens.
    pub names: Vec<&'a str>,
    pub takes_value: bool,
    pub about: String,
}

impl<'a> Opt<'a> {
    /// Parses a line; `None` if it begins no option.
    fn parse(line: &'a str) -> Option<Self> {
        let mut rest = line.strip_prefix("  ")?;
        let mut names = Vec::new();
        while rest.starts_with('-') {
            let end = rest.find([' ', ',']).unwrap_or(rest.len());
            names.push(&rest[..end]);
            rest = &rest[end..];
            rest = rest.strip_prefix(", ").unwrap_or(rest);
        }
        let value = rest.strip_prefix(' ').filter(|it| !it.starts_with(' '));
        let about = match value {
            Some(value) => value.split_once(' ').map_or("", |(_, about)| about),
            None => rest,
        };
        (!names.is_empty()).then(|| Self {
            names,
            takes_value: value.is_some(),
            about: about.trim_start().to_owned(),
        })
    }

    /// The start of the description, without defaults and details.
    pub fn short_about(&self) -> &str {
        let ends = [" [", "; ", ". ", ", see "];
        let ends = ends.iter().filter_map(|end| self.about.find(end));
        let end = ends.min().unwrap_or(self.about.len());
        self.about[..end].trim_end_matches('.')
    }
}

/// The options of a help text, each once.
pub fn options(help: &str) -> Vec<Opt<'_>> {
    let mut found: Vec<Opt<'_>> = Vec::new();
    let mut is_open = false;
    for line in help.lines() {
        if let Some(option) = Opt::parse(line) {
            is_open = !found.iter().any(|it| it.names == option.names);
            if is_open {
                found.push(option);
            }
        } else if line.starts_with("   ")
            && is_open
            && let Some(option) = found.last_mut()
        {
            option.about += " ";
            option.about += line.trim_start();
        } else {
            is_open = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "\
Do a thing

Usage: thing --unit N [options]

Options:
  --unit N         The unit,
                   by number [the nominal unit]
  -o, --output DIR The folder; made if it is missing
  -x               Both. Or none
  -h, --help       Print this

Keys:
  file   --the file
  --unit M  Another
Example:
  thing --unit 2 \\
    --json
";

    #[test]
    fn options_are_read_from_the_help() {
        let found = options(HELP);
        let expected = [
            (&["--unit"][..], true, "The unit, by number"),
            (&["-o", "--output"], true, "The folder"),
            (&["-x"], false, "Both"),
            (&["-h", "--help"], false, "Print this"),
        ];
        let found: Vec<_> = found
            .iter()
            .map(|it| (&it.names[..], it.takes_value, it.short_about()))
            .collect();
        assert_eq!(found, expected);
    }
}
