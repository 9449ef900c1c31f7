//! The header of a table: where its columns are, and what stands in place of one that is missing.

use std::io::Read;

use super::{Defect, FileError, Problem, Table};
use crate::nearest::nearest;
use crate::quantity::{FREQUENCIES, Measure, POWERS, TIMES, conversion, measure};

/// The columns that name a mode, in the order of the axes.
pub const AXIS_COLUMNS: [&str; 4] = ["cores", "cpu_khz", "gpu_khz", "emc_khz"];

/// The columns of a kind of files.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// What such a file is, as in `a corpus`.
    pub what: &'static str,
    /// The required columns.
    pub columns: &'static [&'static str],
    /// What a list of the columns ends with.
    pub and: &'static str,
    /// The columns that may be absent.
    pub optional: &'static [&'static str],
    /// Whether the column of a knob may be blank in all rows.
    pub has_blank_knobs: bool,
}

impl Layout {
    /// No columns.
    pub const NONE: Self = Self {
        what: "",
        columns: &[],
        and: "",
        optional: &[],
        has_blank_knobs: false,
    };

    /// The required columns for a message.
    pub fn listed(&self) -> String {
        self.columns.join(",") + self.and
    }

    fn has(&self, name: &str) -> bool {
        self.columns.contains(&name) || self.optional.contains(&name)
    }
}

impl<R: Read> Table<R> {
    /// The place of a column in a row; `None` if the header lacks it.
    pub fn optional(&self, column: &'static str) -> Result<Option<usize>, FileError> {
        let named = |(_, field): &(usize, &[u8])| *field == column.as_bytes();
        let mut places = self.header().enumerate().filter(named);
        let first = places.next().map(|(place, _)| place);
        match places.next() {
            Some(_) => Err(self.refuse(Defect::of(column, Problem::DuplicateColumn))),
            None => Ok(first),
        }
    }

    /// The place of a column in a row.
    pub fn required(&self, column: &'static str) -> Result<usize, FileError> {
        let place = self.optional(column)?;
        place.ok_or_else(|| self.refuse(self.missing(column)))
    }

    /// The places of columns in a row.
    pub fn places<const N: usize>(
        &self,
        columns: [&'static str; N],
    ) -> Result<[usize; N], FileError> {
        let mut places = [0; N];
        for (place, column) in places.iter_mut().zip(columns) {
            *place = self.required(column)?;
        }
        Ok(places)
    }

    /// Why the header lacks a column: it is no header, its fields are not separated, or the column has another name.
    fn missing(&self, column: &'static str) -> Defect {
        let layout = self.layout;
        let columns = layout.listed();
        let names = self.header().map(String::from_utf8_lossy);
        let names: Vec<_> = names.collect();
        let others = names.iter().map(|name| &**name);
        let others = others.filter(|name| !layout.has(name) && !name.is_empty());
        let others: Vec<&str> = others.collect();
        let is_number = |name: &&str| name.replacen(',', ".", 1).parse::<f64>().is_ok();
        if !names.iter().any(|name| layout.has(name)) && others.iter().any(is_number) {
            return Defect::whole(Problem::NoHeader { columns });
        }
        if let [found] = &names[..] {
            let found = found.chars().take(40).collect();
            return Defect::whole(Problem::NotSeparated { found, columns });
        }
        let advice = match instead(&others, column) {
            Some(found) => format!("the header has `{found}`: {}", renamed(found, column)),
            None if layout.has_blank_knobs && AXIS_COLUMNS.contains(&column) => {
                let advice = "add it; it is blank in every row if it was constant, or if the board does not show it";
                advice.to_owned()
            }
            None => format!("{} has the columns {columns}", layout.what),
        };
        Defect::of(column, Problem::MissingColumn { advice })
    }
}

/// The words of which other programs and people put one into the name of a column.
const WORDS: [(&str, &[&str]); 8] = [
    ("device", &["device", "board", "machine", "platform"]),
    ("workload", &["workload", "network", "model", "task", "job"]),
    ("cores", &["core"]),
    ("cpu_khz", &["cpu"]),
    ("gpu_khz", &["gpu"]),
    ("emc_khz", &["emc", "mem", "ddr", "dram"]),
    ("time_ms", &["time", "latency", "duration"]),
    ("power_mw", &["power", "watt"]),
];

/// Words of a clock's name besides that of its axis; a CPU has a power and a load, too.
const CLOCK_WORDS: [&str; 5] = ["hz", "freq", "clock", "clk", "speed"];

/// The field of a header that is probably meant as a column.
fn instead<'a>(others: &[&'a str], column: &str) -> Option<&'a str> {
    let words = WORDS.iter().find(|(name, _)| *name == column);
    let words = words.map_or(&[][..], |(_, words)| words);
    let is_meant = |name: &&&str| {
        let name = name.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let is_axis = words.contains(&name.as_str());
        let is_clock = column.ends_with("_khz");
        !name.contains("timestamp") && has(words) && (!is_clock || is_axis || has(&CLOCK_WORDS))
    };
    let meant: Vec<&str> = others.iter().filter(is_meant).copied().collect();
    match meant[..] {
        [only] => Some(only),
        [first, ..] => nearest(column, meant).or(Some(first)),
        [] => nearest(column, others.iter().copied()),
    }
}

/// What makes a field of the header the column.
fn renamed(found: &str, column: &str) -> String {
    let (measures, own): (&'static [Measure], _) = match column {
        "cpu_khz" | "gpu_khz" | "emc_khz" => (FREQUENCIES, "kHz"),
        "time_ms" => (TIMES, "ms"),
        "power_mw" => (POWERS, "mW"),
        _ => return format!("rename it `{column}`"),
    };
    let found = found.to_lowercase();
    let mut words = found.split(|c: char| !c.is_alphanumeric());
    let word = words.rfind(|word| !word.is_empty());
    // `time_min` is rather the least of several times than one in minutes.
    let word = word.filter(|word| *word != "min").unwrap_or_default();
    match (measure(measures, word), measure(measures, own)) {
        (Some(found), Some(own)) => match conversion(found, own) {
            Some((verb, factor)) => format!("{verb} it by {factor} and rename it `{column}`"),
            None => format!("rename it `{column}`"),
        },
        _ => format!("rename it `{column}`, and convert it if it is not in {own}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_another_name_or_unit_is_found_and_converted() {
        for (others, column, expected) in [
            (
                &["power_w"][..],
                "power_mw",
                "multiply it by 1000 and rename it `power_mw`",
            ),
            (&["Power_mW"], "power_mw", "rename it `power_mw`"),
            (
                &["Power (µW)"],
                "power_mw",
                "divide it by 1000 and rename it `power_mw`",
            ),
            (
                &["cpu_power", "cpu_mhz"],
                "cpu_khz",
                "multiply it by 1000 and rename it `cpu_khz`",
            ),
            (
                &["gpu_freq"],
                "gpu_khz",
                "rename it `gpu_khz`, and convert it if it is not in kHz",
            ),
            (
                &["timestamp", "time_s"],
                "time_ms",
                "multiply it by 1000 and rename it `time_ms`",
            ),
            (
                &["Latency[us]"],
                "time_ms",
                "divide it by 1000 and rename it `time_ms`",
            ),
            (
                &["time_min"],
                "time_ms",
                "rename it `time_ms`, and convert it if it is not in ms",
            ),
            (&["board"], "device", "rename it `device`"),
            (&["wrokload"], "workload", "rename it `workload`"),
            (&["n_cores"], "cores", "rename it `cores`"),
        ] {
            let found = instead(others, column).expect(column);
            assert_eq!(found, *others.last().expect("a field"));
            assert_eq!(renamed(found, column), expected, "{found}");
        }
        assert_eq!(instead(&["cpu_power", "timestamp"], "cpu_khz"), None);
    }
}
