//! Text tables of rows over seeds.

use std::fmt::Write;

use wattgate_scenarios::Spread;

/// The first line of a table whose cells are made by [`cell`].
pub const TITLE: &str = "median / worst of the seeds; simulated\n";

/// A column's name and width. Its cells are aligned to the right.
pub type Column = (&'static str, usize);

/// A table whose rows are in groups, each with a heading.
#[derive(Debug)]
pub struct Table {
    text: String,
    /// The width of the first column, which names groups and rows.
    names: usize,
    columns: &'static [Column],
    /// The group of the last row.
    group: Option<String>,
}

impl Table {
    /// A table without rows.
    pub fn new(names: usize, columns: &'static [Column]) -> Self {
        Self {
            text: String::new(),
            names,
            columns,
            group: None,
        }
    }

    /// Adds a row with one cell for each column. If the row before has another group, the group's
    /// heading comes first.
    pub fn row(&mut self, group: &str, name: &str, cells: &[String]) {
        if self.group.as_deref() != Some(group) {
            self.group = Some(group.to_owned());
            let columns = self.columns.iter().map(|(name, _)| *name);
            self.line(group, columns);
        }
        self.line(&format!("  {name}"), cells.iter().map(String::as_str));
    }

    fn line<'a>(&mut self, name: &str, cells: impl Iterator<Item = &'a str>) {
        let names = self.names;
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{name:<names$}");
        for (cell, (_, width)) in cells.zip(self.columns) {
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
