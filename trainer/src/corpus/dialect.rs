//! What a corpus file is written in: its encoding, its line ends, and what separates its fields.

use std::io::{self, Read};

use csv::ReaderBuilder;

use super::{COLUMNS, Problem};

/// How a file separates fields and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// What separates the fields.
    pub delimiter: u8,
    /// Whether lines end with CR alone, which the comments of the CSV reader do not know.
    has_cr_alone: bool,
}

impl Dialect {
    /// The dialect of a file that begins so. The delimiter is that of comma, semicolon, tab and `|` with which the
    /// header has most of the columns; if it has none of them, the one with which it has most fields.
    pub fn sniff(head: &[u8]) -> Result<Self, Problem> {
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
        let known = |delimiter: &u8| {
            let known = fields(*delimiter).filter(|field| is_column(field)).count();
            (known, fields(*delimiter).count())
        };
        // The last of equals, so the comma stands last.
        let delimiter = [b'|', b'\t', b';', b','].into_iter().max_by_key(known);
        Ok(Self {
            delimiter: delimiter.expect("one of four"),
            has_cr_alone: head.contains(&b'\r') && !head.contains(&b'\n'),
        })
    }

    /// A reader of the records of such a file, the header among them. Skips lines that begin with `#`.
    pub fn reader<R: Read>(self, file: R) -> csv::Reader<Lines<R>> {
        ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .delimiter(self.delimiter)
            .buffer_capacity(1 << 16)
            .from_reader(Lines {
                file,
                has_cr_alone: self.has_cr_alone,
            })
    }
}

fn is_column(field: &[u8]) -> bool {
    let name = field.trim_ascii();
    let quoted = name
        .strip_prefix(b"\"")
        .and_then(|it| it.strip_suffix(b"\""));
    let name = quoted.unwrap_or(name);
    COLUMNS.iter().any(|column| column.as_bytes() == name)
}

/// A file whose lines end with LF.
pub struct Lines<R> {
    file: R,
    has_cr_alone: bool,
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        if self.has_cr_alone {
            let ends = buffer[..count].iter_mut().filter(|byte| **byte == b'\r');
            ends.for_each(|byte| *byte = b'\n');
        }
        Ok(count)
    }
}
