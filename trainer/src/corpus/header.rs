//! The header of a corpus file: where its columns are, and what stands in place of one that is missing.

use csv::ByteRecord;
use wattgate_cli::nearest::nearest;

use super::{AXIS_COLUMNS, COLUMNS, Problem};

/// The columns that may be absent.
pub const OPTIONAL_COLUMNS: [&str; 10] = [
    "kind",
    "tpc_pg_mask",
    "minibatch",
    "workers",
    "storage",
    "epoch",
    "fetch_ms",
    "compute_ms",
    "unit",
    "idle_mw",
];

/// The column in which `wattgate profile` says why a row has no measurement.
const MARK: &str = "mark";

/// The positions of the columns in a row.
pub struct Columns {
    /// Those of [`COLUMNS`].
    pub required: [usize; COLUMNS.len()],
    /// Those of [`OPTIONAL_COLUMNS`].
    pub optional: [Option<usize>; OPTIONAL_COLUMNS.len()],
    /// That of the reason why a row has no measurement.
    pub mark: Option<usize>,
}

impl Columns {
    /// Finds the columns in a header without blanks around its names. A defect comes with the column to blame.
    pub fn find(header: &ByteRecord) -> Result<Self, (Option<&'static str>, Problem)> {
        let place = |name: &'static str| {
            let named = |(_, field): &(usize, &[u8])| *field == name.as_bytes();
            let mut places = header.iter().enumerate().filter(named);
            let first = places.next().map(|(place, _)| place);
            match places.next() {
                Some(_) => Err((Some(name), Problem::DuplicateColumn)),
                None => Ok(first),
            }
        };
        let names: Vec<String> = header
            .iter()
            .map(|field| String::from_utf8_lossy(field).into_owned())
            .collect();
        let mut required = [0; COLUMNS.len()];
        for (column, name) in required.iter_mut().zip(COLUMNS) {
            *column = place(name)?.ok_or_else(|| missing(&names, name))?;
        }
        let mut optional = [None; OPTIONAL_COLUMNS.len()];
        for (column, name) in optional.iter_mut().zip(OPTIONAL_COLUMNS) {
            *column = place(name)?;
        }
        let mark = place(MARK)?;
        Ok(Self {
            required,
            optional,
            mark,
        })
    }
}

/// Why a header lacks a column: it is no header, its fields are not separated, or the column has another name.
fn missing(header: &[String], column: &'static str) -> (Option<&'static str>, Problem) {
    let others: Vec<&str> = header.iter().map(String::as_str).collect();
    let others = others.into_iter().filter(|name| !is_column(name));
    let others: Vec<&str> = others.filter(|name| !name.is_empty()).collect();
    let is_number = |name: &&str| name.replacen(',', ".", 1).parse::<f64>().is_ok();
    if !header.iter().any(|name| is_column(name)) && others.iter().any(is_number) {
        return (None, Problem::NoHeader);
    }
    if let [found] = header {
        let found = found.chars().take(40).collect();
        return (None, Problem::NotSeparated { found });
    }
    let advice = match instead(&others, column) {
        Some(found) => format!("the header has `{found}`: {}", conversion(found, column)),
        None if AXIS_COLUMNS.contains(&column) => {
            let advice = "add it; it is blank in every row if it was constant, or if the board does not show it";
            advice.to_owned()
        }
        None => format!("a corpus has the columns {}", COLUMNS.join(",")),
    };
    (Some(column), Problem::MissingColumn { advice })
}

fn is_column(name: &str) -> bool {
    COLUMNS.contains(&name) || OPTIONAL_COLUMNS.contains(&name) || name == MARK
}

/// For each of [`COLUMNS`], the words of which other programs and people put one into its name.
const WORDS: [&[&str]; COLUMNS.len()] = [
    &["device", "board", "machine", "platform"],
    &["workload", "network", "model", "task", "job"],
    &["core"],
    &["cpu"],
    &["gpu"],
    &["emc", "mem", "ddr", "dram"],
    &["time", "latency", "duration"],
    &["power", "watt"],
];

/// Words of a clock's name besides that of its axis; a CPU has a power and a load, too.
const CLOCK_WORDS: [&str; 5] = ["hz", "freq", "clock", "clk", "speed"];

/// The field of a header that is probably meant as a column.
fn instead<'a>(others: &[&'a str], column: &str) -> Option<&'a str> {
    let at = COLUMNS.iter().position(|known| *known == column)?;
    let is_clock = (3..6).contains(&at);
    let is_meant = |name: &&&str| {
        let name = name.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let is_axis = WORDS[at].contains(&name.as_str());
        !name.contains("timestamp") && has(WORDS[at]) && (!is_clock || is_axis || has(&CLOCK_WORDS))
    };
    let meant: Vec<&str> = others.iter().filter(is_meant).copied().collect();
    match meant[..] {
        [only] => Some(only),
        [first, ..] => nearest(column, meant).or(Some(first)),
        [] => nearest(column, others.iter().copied()),
    }
}

/// Units that stand in place of a column's own: their names, and how a value is converted; none for the own unit.
type Units = [(&'static [&'static str], Option<&'static str>)];

const CLOCKS: &Units = &[
    (&["khz"], None),
    (&["mhz"], Some("multiply it by 1000")),
    (&["hz"], Some("divide it by 1000")),
    (&["ghz"], Some("multiply it by 1000000")),
];
const TIMES: &Units = &[
    (&["ms", "msec", "millis", "milliseconds"], None),
    (
        &["s", "sec", "secs", "seconds"],
        Some("multiply it by 1000"),
    ),
    (
        &["us", "µs", "usec", "microseconds"],
        Some("divide it by 1000"),
    ),
    (&["ns", "nanoseconds"], Some("divide it by 1000000")),
];
const POWERS: &Units = &[
    (&["mw", "milliwatts"], None),
    (&["w", "watt", "watts"], Some("multiply it by 1000")),
    (&["uw", "µw", "microwatts"], Some("divide it by 1000")),
];

/// What makes a field of the header the column.
fn conversion(found: &str, column: &str) -> String {
    let (units, own) = match column {
        "cpu_khz" | "gpu_khz" | "emc_khz" => (CLOCKS, "kHz"),
        "time_ms" => (TIMES, "ms"),
        "power_mw" => (POWERS, "mW"),
        _ => return format!("rename it `{column}`"),
    };
    let found = found.to_lowercase();
    let mut words = found.split(|c: char| !c.is_alphanumeric());
    let unit = words.rfind(|word| !word.is_empty()).unwrap_or_default();
    match units.iter().find(|(names, _)| names.contains(&unit)) {
        Some((_, None)) => format!("rename it `{column}`"),
        Some((_, Some(convert))) => format!("{convert} and rename it `{column}`"),
        None => format!("rename it `{column}`, and convert it if it is not in {own}"),
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
            (&["board"], "device", "rename it `device`"),
            (&["wrokload"], "workload", "rename it `workload`"),
            (&["n_cores"], "cores", "rename it `cores`"),
        ] {
            let found = instead(others, column).expect(column);
            assert_eq!(found, *others.last().expect("a field"));
            assert_eq!(conversion(found, column), expected, "{found}");
        }
        assert_eq!(instead(&["cpu_power", "timestamp"], "cpu_khz"), None);
    }
}
