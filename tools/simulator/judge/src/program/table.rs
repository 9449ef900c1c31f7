//! Text tables of rows over seeds.

use std::fmt::Write;

use wattgate_judge::Spread;

/// The first line of a table whose cells are made by [`cell`]. `figures` is recorded or simulated.
pub fn title(figures: &str) -> String {
    format!("median / worst of the seeds; {figures}\n")
}

/// A column: its heading, its width, and the cell of a row. Cells are aligned to the right.
pub type Column<R> = (&'static str, usize, fn(&R) -> String);

/// A table whose rows are in groups, each with a heading.
#[derive(Debug)]
pub struct Table<R: ?Sized + 'static> {
    text: String,
    /// The width of the first column, which names groups and rows.
    names: usize,
    columns: &'static [Column<R>],
    /// The group of the last row.
    group: Option<String>,
}

impl<R: ?Sized> Table<R> {
    /// A table without rows.
    pub fn new(names: usize, columns: &'static [Column<R>]) -> Self {
        Self {
            text: String::new(),
            names,
            columns,
            group: None,
        }
    }

    /// Adds a row. If the row before has another group, the group's heading comes first.
    pub fn row(&mut self, group: &str, name: &str, row: &R) {
        if self.group.as_deref() != Some(group) {
            self.group = Some(group.to_owned());
            self.line(group, |(heading, ..)| (*heading).to_owned());
        }
        self.line(&format!("  {name}"), |(.., cell)| cell(row));
    }

    fn line(&mut self, name: &str, cell: impl Fn(&Column<R>) -> String) {
        let names = self.names;
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{name:<names$}");
        for column in self.columns {
            let (cell, width) = (cell(column), column.1);
            let _ = write!(self.text, "{cell:>width$}");
        }
        self.text.push('\n');
    }

    /// The lines of the table.
    pub fn text(self) -> String {
        self.text
    }
}

/// The median and the worst of all seeds, with a number of digits after the point.
pub fn cell(spread: Spread, digits: usize) -> String {
    format!("{:.digits$}/{:.digits$}", spread.median, spread.worst)
}
