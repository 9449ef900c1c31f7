//! Delimited text as programs, spreadsheets and people write it: corpora, lists of modes, loads, traces.
//!
//! A [`Table`] has commas, semicolons, tabs or `|` between its fields, and lines that end with LF, CRLF or CR. A
//! byte-order mark, blank lines and lines that begin with `#` are skipped. What cannot be read in one way alone is refused
//! by its name: UTF-16, a `sep=` line, a decimal comma, a needed field in Latin-1. What is wrong is told by
//! file, line and column ([`FileError`]). [`columns`] finds the columns of the header, [`fields`] parses what is in them.

pub mod columns;
pub mod fields;

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Chain, Cursor, Read};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ErrorKind, ReaderBuilder};
use thiserror::Error;

use columns::Layout;

/// What is wrong with a text, whatever it is about.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The file has no text.
    #[error("the file is empty; expected a header with the columns {columns}")]
    Empty { columns: String },
    /// The header is followed by no row.
    #[error("no rows after the header")]
    NoRows,
    /// The file begins with a row of values.
    #[error("the first line has values; expected a header with the columns {columns}")]
    NoHeader { columns: String },
    /// The header is one field.
    #[error(
        "the header is one field, `{found}`; expected commas, semicolons, tabs or | between the columns {columns}"
    )]
    NotSeparated { found: String, columns: String },
    /// A required column is missing.
    #[error("missing; {advice}")]
    MissingColumn { advice: String },
    /// A column name is repeated in the header.
    #[error("repeated in the header; delete one of the columns")]
    DuplicateColumn,
    /// The header line is repeated among the rows.
    #[error("the header is repeated; delete this line")]
    RepeatedHeader,
    /// A row with more or fewer fields than the header.
    #[error("expected {expected} fields as in the header, found {found}; {advice}")]
    FieldCount {
        expected: u64,
        found: u64,
        advice: &'static str,
    },
    /// The last line has no end, in a file whose last number may then lack digits.
    #[error("the file ends within a line; copy the file again, or delete this line")]
    Cut,
    /// The file is in UTF-16.
    #[error("the text is in UTF-16; save it as UTF-8")]
    Utf16,
    /// The file has NUL bytes.
    #[error("the file has NUL bytes, so it is in UTF-16 or no text; save it as CSV in UTF-8")]
    NotText,
    /// The first line is a spreadsheet's note of its delimiter.
    #[error("the first line names the delimiter to a spreadsheet; delete this line")]
    SeparatorLine,
    /// A field is not UTF-8.
    #[error("expected text in UTF-8; if the file is in Latin-1, save it as UTF-8")]
    NotUtf8,
    /// A field does not have the form that its column expects.
    #[error("expected {expected}, found `{found}`{}", then(advice.as_deref()))]
    BadField {
        expected: Cow<'static, str>,
        found: Box<str>,
        advice: Option<Box<str>>,
    },
}

/// The end of a message that says what to do.
fn then(advice: Option<&str>) -> String {
    advice.map_or(String::new(), |advice| format!("; {advice}"))
}

/// A defect of a file: its position and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect<P = Problem> {
    /// The number of the line, from 1; `None` if the whole file is wrong.
    pub line: Option<u64>,
    /// The column's name.
    pub column: Option<&'static str>,
    /// The kind of defect.
    pub problem: P,
}

impl<P> Defect<P> {
    /// A defect of a row, or of the file, in no column.
    pub fn whole(problem: P) -> Self {
        let (line, column) = (None, None);
        Self {
            line,
            column,
            problem,
        }
    }

    /// A defect in a column.
    pub fn of(column: &'static str, problem: P) -> Self {
        let column = Some(column);
        Self {
            column,
            ..Self::whole(problem)
        }
    }
}

impl<P: fmt::Display> fmt::Display for Defect<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(column) = &self.column {
            write!(f, "column `{column}`: ")?;
        }
        self.problem.fmt(f)
    }
}

/// A refused field or row: its column, if one is to blame, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub column: Option<&'static str>,
    pub problem: Problem,
}

impl<P: From<Problem>> From<Refusal> for Defect<P> {
    fn from(Refusal { column, problem }: Refusal) -> Self {
        let problem = problem.into();
        Self {
            line: None,
            column,
            problem,
        }
    }
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum FileError<P: fmt::Display + fmt::Debug = Problem> {
    /// The file cannot be opened or read.
    #[error("{}: cannot read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The first defect of the file.
    #[error("{}: {defect}", path.display())]
    Defect { path: PathBuf, defect: Defect<P> },
}

impl<P: fmt::Display + fmt::Debug + From<Problem>> FileError<P> {
    /// The error of a file about which more can be wrong than about a text.
    pub fn from_text(error: FileError) -> Self {
        match error {
            FileError::Io { path, source } => Self::Io { path, source },
            FileError::Defect { path, defect } => {
                let Defect {
                    line,
                    column,
                    problem,
                } = defect;
                let problem = problem.into();
                let defect = Defect {
                    line,
                    column,
                    problem,
                };
                Self::Defect { path, defect }
            }
        }
    }
}

/// Bytes within which the header ends.
const LONGEST_HEADER: u64 = 1 << 16;

/// Rows below a header. They are streamed; one is there at a time, at first the header.
pub struct Table<R> {
    path: PathBuf,
    csv: csv::Reader<Lines<R>>,
    layout: &'static Layout,
    delimiter: u8,
    header: ByteRecord,
    record: ByteRecord,
    /// The line of the row, counted from one.
    line: u64,
}

impl<R: Read> Table<R> {
    /// Reads the header of a file, whose path is for messages.
    pub fn open(path: &Path, mut file: R, layout: &'static Layout) -> Result<Self, FileError> {
        let path = path.to_owned();
        let mut head = Vec::new();
        let read = (&mut file).take(LONGEST_HEADER).read_to_end(&mut head);
        if let Err(source) = read {
            return Err(FileError::Io { path, source });
        }
        let defect = |problem| FileError::Defect {
            path: path.clone(),
            defect: Defect::whole(problem),
        };
        let delimiter = delimiter(&head, layout).map_err(defect)?;
        let empty = Problem::Empty {
            columns: layout.listed(),
        };
        let empty = defect(empty);
        let csv = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .delimiter(delimiter)
            .buffer_capacity(1 << 16)
            .from_reader(Lines {
                bytes: Cursor::new(head).chain(file),
                last: b'\n',
                is_cut: false,
            });
        let mut table = Self {
            path,
            csv,
            layout,
            delimiter,
            header: ByteRecord::new(),
            record: ByteRecord::new(),
            line: 0,
        };
        if !table.advance()? {
            return Err(empty);
        }
        table.header.clone_from(&table.record);
        table.header.trim();
        Ok(table)
    }

    /// Reads the next row; `false` at the end of the file.
    pub fn advance(&mut self) -> Result<bool, FileError> {
        let more = self.csv.read_byte_record(&mut self.record);
        let more = more.map_err(|error| FileError::Io {
            path: self.path.clone(),
            // A flexible reader of bytes returns no error but those of the operating system.
            source: match error.into_kind() {
                ErrorKind::Io(source) => source,
                other => io::Error::other(format!("{other:?}")),
            },
        })?;
        if more {
            // The reader stands below the row. Its own place of the row is that of the comments and blank lines above.
            let within = self.record.as_slice().iter().filter(|byte| **byte == b'\n');
            let below = self.csv.position().line();
            self.line = below.saturating_sub(1 + within.count() as u64);
        }
        Ok(more)
    }

    /// Refuses a row with more or fewer fields than the header, and the header once more.
    pub fn check(&self) -> Result<(), Refusal> {
        let (expected, found) = (self.header.len(), self.record.len());
        let problem = if expected != found {
            let last = self.record.iter().next_back().unwrap_or_default();
            Problem::FieldCount {
                expected: expected as u64,
                found: found as u64,
                advice: match last.trim_ascii() {
                    _ if found < expected => "complete the row, or delete it",
                    b"" => "the row ends with a delimiter, and the header does not",
                    _ => "write decimal points, and put a text with a delimiter in quotes",
                },
            }
        } else if (self.header.iter().enumerate()).all(|(at, name)| self.field(at) == name) {
            Problem::RepeatedHeader
        } else {
            return Ok(());
        };
        Err(Refusal {
            column: None,
            problem,
        })
    }

    /// The line of the row, counted from one.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// A field of the row without the blanks around it.
    pub fn field(&self, at: usize) -> &[u8] {
        self.record[at].trim_ascii()
    }

    /// The names in the header.
    pub fn header(&self) -> impl Iterator<Item = &[u8]> {
        self.header.iter()
    }

    /// What separates the fields.
    pub fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// Whether the row is the last one, and its line has no end.
    pub fn is_cut(&self) -> bool {
        self.csv.get_ref().is_cut
    }

    /// A defect of the row with its line; after [`Table::open`] the row is the header.
    pub fn locate<P>(&self, defect: Defect<P>) -> Defect<P> {
        let line = Some(self.line);
        Defect { line, ..defect }
    }

    /// The error of a defect in the row.
    pub fn refuse<P: fmt::Display + fmt::Debug>(&self, defect: Defect<P>) -> FileError<P> {
        let (path, defect) = (self.path.clone(), self.locate(defect));
        FileError::Defect { path, defect }
    }

    /// Parses all rows; fails at the first defect, and if there is none.
    pub fn rows<T, P: fmt::Display + fmt::Debug + From<Problem>>(
        &mut self,
        mut parse: impl FnMut(&Self) -> Result<T, Defect<P>>,
    ) -> Result<Vec<T>, FileError<P>> {
        let mut rows = Vec::new();
        while self.advance().map_err(FileError::from_text)? {
            let row = self.check().map_err(Defect::from);
            let row = row.and_then(|()| parse(self));
            rows.push(row.map_err(|defect| self.refuse(defect))?);
        }
        match rows.is_empty() {
            true => Err(FileError::Defect {
                path: self.path.clone(),
                defect: Defect::whole(Problem::NoRows.into()),
            }),
            false => Ok(rows),
        }
    }
}

/// What separates the fields of a file that begins so: that of comma, semicolon, tab and `|` with which the header has
/// most of the columns; if it has none of them, the one with which it has most fields.
fn delimiter(head: &[u8], layout: &Layout) -> Result<u8, Problem> {
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Err(Problem::Utf16);
    }
    if head.contains(&0) {
        return Err(Problem::NotText);
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let mut lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    let header = lines.find(|line| !line.starts_with(b"#") && !line.trim_ascii().is_empty());
    let header = header.unwrap_or_default();
    if header.starts_with(b"sep=") {
        return Err(Problem::SeparatorLine);
    }
    let fields = |delimiter: u8| header.split(move |byte| *byte == delimiter);
    let is_column = |field: &&[u8]| {
        let name = field.trim_ascii();
        let quoted = name.strip_prefix(b"\"");
        let quoted = quoted.and_then(|it| it.strip_suffix(b"\""));
        let name = quoted.unwrap_or(name);
        (layout.columns.iter()).any(|column| column.as_bytes() == name)
    };
    let known = |delimiter: &u8| {
        let known = fields(*delimiter).filter(is_column).count();
        (known, fields(*delimiter).count())
    };
    // The last of equals, so the comma stands last.
    let delimiters = [b'|', b'\t', b';', b','];
    Ok(delimiters.into_iter().max_by_key(known).unwrap_or(b','))
}

/// A file whose lines all end with LF: the CSV reader counts no others. Its beginning was read to learn its dialect.
struct Lines<R> {
    bytes: Chain<Cursor<Vec<u8>>, R>,
    /// The byte of the file that was read last.
    last: u8,
    is_cut: bool,
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.bytes.read(buffer)?;
            let Some(last) = buffer[..count].last().copied() else {
                let has_end = matches!(self.last, b'\n' | b'\r') || buffer.is_empty();
                if has_end {
                    return Ok(0);
                }
                (self.last, self.is_cut) = (b'\n', true);
                buffer[0] = b'\n';
                return Ok(1);
            };
            let mut before = std::mem::replace(&mut self.last, last);
            if before != b'\r' && !buffer[..count].contains(&b'\r') {
                return Ok(count);
            }
            let mut kept = 0;
            for at in 0..count {
                let byte = buffer[at];
                if (before, byte) != (b'\r', b'\n') {
                    buffer[kept] = if byte == b'\r' { b'\n' } else { byte };
                    kept += 1;
                }
                before = byte;
            }
            if kept > 0 {
                return Ok(kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fields::number;

    static LOADS: Layout = Layout {
        what: "a load",
        columns: &["t_ms", "activity"],
        ..Layout::NONE
    };

    fn read(bytes: &[u8]) -> Result<Vec<[f64; 2]>, String> {
        let read = || {
            let mut table = Table::open(Path::new("load.csv"), bytes, &LOADS)?;
            let mut places = [0; 2];
            for (place, name) in places.iter_mut().zip(LOADS.columns) {
                *place = table.required(name)?;
            }
            table.rows(|row| -> Result<[f64; 2], Defect> {
                let value = |at: usize| number((LOADS.columns[at], row.field(places[at])), 4e3);
                Ok([value(0)?, value(1)?])
            })
        };
        read().map_err(|error: FileError| error.to_string())
    }

    #[test]
    fn every_dialect_is_the_same_text() {
        let plain = "t_ms,activity\n0,0.5\n3000,1\n";
        let expected = vec![[0.0, 0.5], [3_000.0, 1.0]];
        for dialect in [
            plain.to_owned(),
            format!("\u{feff}{plain}"),
            plain.replace(',', ";"),
            plain.replace(',', "\t"),
            plain.replace(',', " | "),
            plain.replace('\n', "\r\n"),
            format!("# by hand\n{plain}").replace('\n', "\r"),
            format!("\n# 1, 2; by hand\n\n{plain}# the end\n"),
            format!("\u{feff}{}", plain.replace(',', ";").replace('\n', "\r\n")),
            "activity,note,t_ms\n0.5,\"a, b\",0\n\"1\",,3000".to_owned(),
        ] {
            assert_eq!(read(dialect.as_bytes()), Ok(expected.clone()), "{dialect}");
        }
        let mut latin_1 = b"t_ms,activity,note\n0,0.5,f?r\n3000,1,\n".to_vec();
        latin_1[26] = 0xfc;
        assert_eq!(read(&latin_1), Ok(expected));
    }

    #[test]
    fn what_is_ambiguous_or_wrong_is_named_with_its_place() {
        let utf_16: Vec<u8> = "\u{feff}t_ms,activity\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let columns = "t_ms,activity";
        for (bytes, expected) in [
            (
                &utf_16[..],
                "the text is in UTF-16; save it as UTF-8".to_owned(),
            ),
            (
                &utf_16[2..],
                "the file has NUL bytes, so it is in UTF-16 or no text; save it as CSV in UTF-8".to_owned(),
            ),
            (
                b"sep=;\nt_ms;activity\n",
                "the first line names the delimiter to a spreadsheet; delete this line".to_owned(),
            ),
            (
                b"# nothing\n",
                format!("the file is empty; expected a header with the columns {columns}"),
            ),
            (
                b"t_ms,activity\r\n# a comment\r\n\r\n0,\"a\nb\"\r\n",
                "line 4: column `activity`: expected a number, 0 … 4000, found `a\nb`".to_owned(),
            ),
            (b"t_ms,activity\n", "no rows after the header".to_owned()),
            (
                b"0,1\n3000,1\n",
                format!("line 1: the first line has values; expected a header with the columns {columns}"),
            ),
            (
                b"t_ms activity\n0 1\n",
                format!(
                    "line 1: the header is one field, `t_ms activity`; expected commas, semicolons, tabs or | between \
                     the columns {columns}"
                ),
            ),
            (
                b"t_ms,load\n0,1\n",
                format!("line 1: column `activity`: missing; a load has the columns {columns}"),
            ),
            (
                b"t_ms,activity,t_ms\n0,1,0\n",
                "line 1: column `t_ms`: repeated in the header; delete one of the columns".to_owned(),
            ),
            (
                b"t_ms,activity\n0,1\nt_ms,activity\n",
                "line 3: the header is repeated; delete this line".to_owned(),
            ),
            (
                b"t_ms,activity\n\n0,0,5\n",
                "line 3: expected 2 fields as in the header, found 3; write decimal points, and put a text with a \
                 delimiter in quotes"
                    .to_owned(),
            ),
            (
                b"t_ms;activity\n0;0,5\n",
                "line 2: column `activity`: expected a number with a decimal point, not a comma, found `0,5`".to_owned(),
            ),
            (
                b"t_ms,activity\n0,\xb5\n",
                "line 2: column `activity`: expected text in UTF-8; if the file is in Latin-1, save it as UTF-8".to_owned(),
            ),
            (
                b"t_ms,activity\n0,NaN\n",
                "line 2: column `activity`: expected a number, 0 … 4000, found `NaN`".to_owned(),
            ),
        ] {
            let expected = Err(format!("load.csv: {expected}"));
            assert_eq!(read(bytes), expected, "{}", bytes.escape_ascii());
        }
    }
}
