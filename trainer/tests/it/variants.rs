//! What other programs, spreadsheets and people make of one sound corpus: other units, dialects and holes. Each variant
//! is read as the same corpus, read with a warning, or refused, and the message says what is meant and what to do.

use std::fs;

use serde_json::Value;

use crate::common::{HEADER, Run, folder, run, write};

/// What becomes of a variant.
enum Expected {
    /// It is the same corpus.
    Same,
    /// It is sound and lacks something, or has other values.
    Sound,
    /// It is read, and a warning has these words.
    Warned(&'static [&'static str]),
    /// It is refused with these words.
    Refused(&'static [&'static str]),
}

use Expected::{Refused, Same, Sound, Warned};

/// A smooth corpus of a board in the tables, with one memory clock.
fn sound() -> String {
    let mut lines = vec![HEADER.to_owned()];
    for cores in [4_u32, 8, 12] {
        for cpu in [729_600_u32, 1_344_000, 2_201_600] {
            for gpu in [114_750_u32, 318_750, 624_750, 1_300_500] {
                let [c, p, g] = [cores, cpu, gpu].map(f64::from);
                let time = 61.0 + 3e7 / (p * c) + 2.5e7 / g;
                let power = 7_500.0 + 3e-7 * p * p.sqrt() * c.sqrt() + 0.012 * g;
                lines.push(format!(
                    "orin-agx-64,yolo,{cores},{cpu},{gpu},3199000,{time:.4},{power:.1}"
                ));
            }
        }
    }
    lines.join("\n") + "\n"
}

/// The text with the fields of a column changed, those of row 0, 1, …; the header stays.
fn each(text: &str, column: &str, change: impl Fn(usize, &str) -> String) -> String {
    let at = HEADER.split(',').position(|name| name == column);
    let at = at.expect("a column");
    let lines = text.lines().enumerate().map(|(line, row)| {
        let mut fields: Vec<String> = row.split(',').map(str::to_owned).collect();
        if line > 0 {
            fields[at] = change(line - 1, &fields[at]);
        }
        fields.join(",") + "\n"
    });
    lines.collect()
}

/// The text with a column of numbers multiplied.
fn scaled(text: &str, column: &str, factor: f64) -> String {
    each(text, column, |_, field| {
        (factor * number(field)).to_string()
    })
}

/// The text with the three clocks changed.
fn clocks(text: &str, change: impl Fn(f64) -> String) -> String {
    ["cpu_khz", "gpu_khz", "emc_khz"]
        .into_iter()
        .fold(text.to_owned(), |text, column| {
            each(&text, column, |_, field| change(number(field)))
        })
}

/// The text with another value in a column of the fifth row.
fn fifth(text: &str, column: &str, value: &str) -> String {
    each(text, column, |row, field| match row {
        4 => value.to_owned(),
        _ => field.to_owned(),
    })
}

/// The text with another value in all rows of a column.
fn all(text: &str, column: &str, value: &str) -> String {
    each(text, column, |_, _| value.to_owned())
}

/// The text without a column.
fn without(text: &str, column: &str) -> String {
    let at = HEADER.split(',').position(|name| name == column);
    let rows = text.lines().map(|row| {
        let fields = row.split(',').enumerate();
        let kept: Vec<&str> = fields
            .filter(|(place, _)| Some(*place) != at)
            .map(|(_, field)| field)
            .collect();
        kept.join(",") + "\n"
    });
    rows.collect()
}

fn number(field: &str) -> f64 {
    field.parse().expect("a number")
}

fn utf_16(text: &str, order: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(order).collect()
}

/// Rows without the header.
fn body(text: &str) -> &str {
    text.split_once('\n').expect("a header").1
}

type Variant = (&'static str, Vec<u8>, Expected);

fn dialects(plain: &str) -> Vec<Variant> {
    let lines = || plain.lines();
    let join = |lines: Vec<String>| lines.join("\n").into_bytes();
    let with_index = |(at, row): (usize, &str)| match at {
        0 => format!(",{row}"),
        at => format!("{},{row}", at - 1),
    };
    let quoted = plain.replace(',', "\",\"").replace('\n', "\"\n\"");
    let quoted = format!("\"{}", quoted.strip_suffix('"').expect("a last line"));
    let mut shuffled: Vec<&str> = lines().skip(1).collect();
    shuffled.reverse();
    let reversed = lines().map(|row| row.split(',').rev().collect::<Vec<&str>>().join(","));
    let with_comma = |row: String| row.replace('.', ",");
    let mut latin_1 = plain.replace("yolo", "y#lo").into_bytes();
    latin_1
        .iter_mut()
        .filter(|byte| **byte == b'#')
        .for_each(|byte| *byte = 0xf6);
    let mut latin_1_note = plain
        .lines()
        .enumerate()
        .map(|(at, row)| format!("{row},{}\n", if at == 0 { "note" } else { "f#r" }))
        .collect::<String>()
        .into_bytes();
    latin_1_note
        .iter_mut()
        .filter(|byte| **byte == b'#')
        .for_each(|byte| *byte = 0xfc);
    vec![
        ("semicolons", plain.replace(',', ";").into(), Same),
        ("tabs", plain.replace(',', "\t").into(), Same),
        ("bars", plain.replace(',', "|").into(), Same),
        ("byte-order mark", format!("\u{feff}{plain}").into(), Same),
        (
            "lines that end with CRLF",
            plain.replace('\n', "\r\n").into(),
            Same,
        ),
        (
            "lines that end with CR",
            plain.replace('\n', "\r").into(),
            Same,
        ),
        (
            "lines that end with CR, and a comment",
            format!("# by hand\n{plain}").replace('\n', "\r").into(),
            Same,
        ),
        (
            "all that a spreadsheet writes",
            format!("\u{feff}{}", plain.replace(',', ";").replace('\n', "\r\n")).into(),
            Same,
        ),
        (
            "comment before the header",
            format!("# 25 W; by hand\n{plain}").into(),
            Same,
        ),
        (
            "comments between the rows",
            plain
                .replace(
                    "\norin-agx-64,yolo,8,",
                    "\n# eight, cores\norin-agx-64,yolo,8,",
                )
                .into(),
            Same,
        ),
        ("blank lines", plain.replace('\n', "\n\n").into(), Same),
        ("no end of the last line", plain.trim_end().into(), Same),
        ("fields in quotes", quoted.into(), Same),
        (
            "blanks after the commas",
            plain.replace(',', ", ").into(),
            Same,
        ),
        (
            "a delimiter at the end of each line",
            plain.replace('\n', ",\n").into(),
            Same,
        ),
        (
            "an index in front",
            join(lines().enumerate().map(with_index).collect()),
            Same,
        ),
        (
            "a further column",
            join(lines().map(|row| format!("{row},25 °C")).collect()),
            Same,
        ),
        ("a further column in Latin-1", latin_1_note, Same),
        ("columns in another order", join(reversed.collect()), Same),
        (
            "rows in another order",
            format!("{HEADER}\n{}", shuffled.join("\n")).into(),
            Same,
        ),
        (
            "numbers with an exponent",
            each(plain, "power_mw", |_, field| format!("{:e}", number(field))).into(),
            Same,
        ),
        (
            "whole numbers with a point",
            clocks(
                &each(plain, "cores", |_, field| format!("{field}.0")),
                |khz| format!("{khz}.0"),
            )
            .into(),
            Same,
        ),
        (
            "decimal commas between semicolons",
            with_comma(plain.replace(',', ";")).into(),
            Refused(&["line 2", "`time_ms`", "a decimal point, not a comma"]),
        ),
        (
            "decimal commas between commas",
            with_comma(plain.to_owned()).into(),
            Refused(&["line 2", "found 10", "write decimal points"]),
        ),
        (
            "decimal commas in quotes",
            each(plain, "power_mw", |_, field| {
                format!("\"{}\"", field.replace('.', ","))
            })
            .into(),
            Refused(&["line 2", "`power_mw`", "a decimal point, not a comma"]),
        ),
        (
            "thousands separators in a clock",
            fifth(plain, "cpu_khz", "1'344'000").into(),
            Refused(&["line 6", "`cpu_khz`", "no thousands separators"]),
        ),
        (
            "thousands separators in a power",
            fifth(plain, "power_mw", "14 200").into(),
            Refused(&["line 6", "`power_mw`", "no thousands separators"]),
        ),
        (
            "a comma that may be either",
            fifth(plain, "power_mw", "\"14,200\"").into(),
            Refused(&[
                "line 6",
                "`power_mw`",
                "decimal point",
                "no thousands separators",
            ]),
        ),
        (
            "UTF-16 with a byte-order mark",
            utf_16(&format!("\u{feff}{plain}"), u16::to_le_bytes),
            Refused(&["UTF-16", "save it as UTF-8"]),
        ),
        (
            "UTF-16 without one",
            utf_16(plain, u16::to_be_bytes),
            Refused(&["UTF-16", "save it as CSV in UTF-8"]),
        ),
        (
            "a name in Latin-1",
            latin_1,
            Refused(&["line 2", "`workload`", "Latin-1", "save it as UTF-8"]),
        ),
        (
            "blanks between the fields",
            plain.replace(',', " ").into(),
            Refused(&["the header is one field", "expected commas"]),
        ),
        (
            "a line that names the delimiter",
            format!("sep=;\n{}", plain.replace(',', ";")).into(),
            Refused(&["the first line names the delimiter", "delete"]),
        ),
        (
            "no header",
            body(plain).into(),
            Refused(&["line 1", "the first line has values", HEADER]),
        ),
        (
            "a delimiter at the end of each row alone",
            format!("{HEADER}\n{}", body(plain).replace('\n', ",\n")).into(),
            Refused(&["line 2", "the row ends with a delimiter"]),
        ),
        (
            "the header once more",
            format!("{plain}{plain}").into(),
            Refused(&["line 38", "the header is repeated"]),
        ),
        ("nothing", Vec::new(), Refused(&["the file is empty"])),
        ("a header alone", HEADER.into(), Refused(&["no rows"])),
    ]
}

fn units(plain: &str) -> Vec<Variant> {
    let renamed = |from: &str, to: &str| plain.replacen(from, to, 1).into_bytes();
    vec![
        (
            "a column of W",
            scaled(plain, "power_mw", 1e-3)
                .replace("power_mw", "power_w")
                .into(),
            Refused(&["`power_mw`", "`power_w`: multiply it by 1000 and rename it"]),
        ),
        (
            "a column of mW in other letters",
            renamed("power_mw", "Power [mW]"),
            Refused(&["`power_mw`", "`Power [mW]`: rename it `power_mw`"]),
        ),
        (
            "a column of s",
            renamed("time_ms", "time_s"),
            Refused(&["`time_ms`", "`time_s`: multiply it by 1000 and rename it"]),
        ),
        (
            "a column of µs",
            renamed("time_ms", "Latency (us)"),
            Refused(&[
                "`time_ms`",
                "`Latency (us)`: divide it by 1000 and rename it",
            ]),
        ),
        (
            "a column of MHz",
            renamed("cpu_khz", "cpu_mhz"),
            Refused(&["`cpu_khz`", "`cpu_mhz`: multiply it by 1000 and rename it"]),
        ),
        (
            "a column of Hz",
            renamed("gpu_khz", "GPU_Hz"),
            Refused(&["`gpu_khz`", "`GPU_Hz`: divide it by 1000 and rename it"]),
        ),
        (
            "a column of a unit that nobody names",
            renamed("gpu_khz", "gpu_freq"),
            Refused(&[
                "`gpu_khz`",
                "`gpu_freq`: rename it `gpu_khz`, and convert it",
            ]),
        ),
        (
            "another word for the board",
            renamed("device", "board"),
            Refused(&["`device`", "`board`: rename it `device`"]),
        ),
        (
            "another word for the cores",
            renamed("cores", "num_cores"),
            Refused(&["`cores`", "`num_cores`: rename it `cores`"]),
        ),
        (
            "a name with a mistake",
            renamed("workload", "wrokload"),
            Refused(&["`workload`", "`wrokload`: rename it `workload`"]),
        ),
        (
            "W",
            scaled(plain, "power_mw", 1e-3).into(),
            Refused(&["line 2", "`power_mw`", "in W, multiply it by 1000"]),
        ),
        (
            "µW",
            scaled(plain, "power_mw", 1e3).into(),
            Refused(&["line 2", "`power_mw`", "in µW, divide it by 1000"]),
        ),
        (
            "GHz",
            clocks(plain, |khz| (khz / 1e6).to_string()).into(),
            Refused(&["line 2", "`cpu_khz`", "in GHz, multiply it by 1000000"]),
        ),
        (
            "MHz",
            clocks(plain, |khz| (khz / 1e3).to_string()).into(),
            Refused(&["line 2", "`cpu_khz`", "in MHz, multiply it by 1000"]),
        ),
        (
            "Hz",
            clocks(plain, |khz| (khz * 1e3).to_string()).into(),
            Refused(&["line 2", "`cpu_khz`", "in Hz, divide it by 1000"]),
        ),
        (
            "s",
            scaled(plain, "time_ms", 1e-3).into(),
            Warned(&["time_ms has 0.0", "seconds?", "Multiply them by 1000"]),
        ),
        (
            "µs",
            scaled(plain, "time_ms", 1e3).into(),
            Warned(&["time_ms has ", "microseconds?", "Divide them by 1000"]),
        ),
        (
            "ns",
            scaled(plain, "time_ms", 1e6).into(),
            Refused(&["line 2", "`time_ms`", "in ns, by 1000000"]),
        ),
        (
            "numbers with W",
            each(plain, "power_mw", |_, field| {
                format!("{} W", number(field) / 1e3)
            })
            .into(),
            Refused(&["line 2", "`power_mw`", "write the number alone, in mW"]),
        ),
        (
            "numbers with ms",
            each(plain, "time_ms", |_, field| format!("{field}ms")).into(),
            Refused(&["line 2", "`time_ms`", "write the number alone, in ms"]),
        ),
        (
            "numbers with MHz",
            clocks(plain, |khz| format!("{} MHz", khz / 1e3)).into(),
            Refused(&["line 2", "`cpu_khz`", "write the number alone, in kHz"]),
        ),
        (
            "clocks rounded to MHz",
            clocks(plain, |khz| format!("{:.0}000", khz / 1e3)).into(),
            Same,
        ),
        (
            "clocks cut to MHz",
            clocks(plain, |khz| format!("{}000", (khz / 1e3).floor())).into(),
            Same,
        ),
        (
            "clocks of the board with another release",
            plain.replace(",624750,", ",612000,").into(),
            Warned(&[
                "gpu_khz has 612000, which orin-agx-64 does not have",
                "the nearest to 612000 is 624750",
            ]),
        ),
        (
            "all clocks of the board with another release",
            each(plain, "gpu_khz", |_, field| {
                let others = [
                    ("114750", "306000"),
                    ("318750", "408000"),
                    ("624750", "612000"),
                    ("1300500", "1300500"),
                ];
                let other = others.into_iter().find(|(old, _)| *old == field);
                other.expect("a clock").1.to_owned()
            })
            .into(),
            Warned(&[
                "gpu_khz has 306000, 408000, 612000, which orin-agx-64 does not have",
                "orin-agx-64-jp6 has all values of this file",
            ]),
        ),
        (
            "more cores than the board has",
            plain.replace("yolo,12,", "yolo,16,").into(),
            Warned(&["cores has 16, which orin-agx-64 does not have"]),
        ),
        (
            "powers that trip the protection",
            scaled(plain, "power_mw", 10.0).into(),
            Warned(&[
                "power_mw has up to ",
                "over-current protection of orin-agx-64",
            ]),
        ),
        (
            "a board of no table",
            plain.replace("orin-agx-64", "carrier").into(),
            Sound,
        ),
    ]
}

fn holes(plain: &str) -> Vec<Variant> {
    let of_eight = plain
        .lines()
        .filter(|row| row.starts_with("device") || row.contains(",yolo,8,"))
        .map(|row| format!("{row}\n"))
        .collect::<String>();
    let some = |column, value: &'static str| {
        let rows = each(plain, column, |row, field| match row % 5 {
            2 => value.to_owned(),
            _ => field.to_owned(),
        });
        rows.into_bytes()
    };
    vec![
        (
            "a constant clock is blank",
            all(plain, "emc_khz", "").into(),
            Sound,
        ),
        (
            "a constant clock is NA",
            all(plain, "emc_khz", "NA").into(),
            Sound,
        ),
        (
            "a constant clock is 1, as the profiler has it",
            all(plain, "emc_khz", "1").into(),
            Sound,
        ),
        (
            "constant cores are blank",
            all(&of_eight, "cores", "").into(),
            Warned(&["cores is blank in every row", "write the number of cores"]),
        ),
        ("some powers are blank", some("power_mw", ""), Sound),
        ("some powers are NA", some("power_mw", "NA"), Sound),
        ("some powers are null", some("power_mw", "null"), Sound),
        ("some times are dashes", some("time_ms", "-"), Sound),
        (
            "all powers are blank",
            all(plain, "power_mw", "").into(),
            Sound,
        ),
        (
            "all times are blank",
            all(plain, "time_ms", "").into(),
            Sound,
        ),
        (
            "a clock is blank in some rows",
            some("emc_khz", ""),
            Refused(&["`emc_khz`", "blank in some rows", "in every row"]),
        ),
        (
            "cores are blank in some rows",
            some("cores", ""),
            Refused(&["`cores`", "blank in some rows", "in every row"]),
        ),
        (
            "a power is NaN",
            fifth(plain, "power_mw", "NaN").into(),
            Refused(&["line 6", "`power_mw`", "leave an unknown value blank"]),
        ),
        (
            "a power is 0",
            fifth(plain, "power_mw", "0").into(),
            Refused(&["line 6", "`power_mw`"]),
        ),
        (
            "a time is negative",
            fifth(plain, "time_ms", "-5").into(),
            Refused(&["line 6", "`time_ms`"]),
        ),
        (
            "a row is not filled in",
            fifth(&fifth(plain, "time_ms", ""), "power_mw", "").into(),
            Refused(&["line 6", "neither time_ms nor power_mw"]),
        ),
        (
            "a row is cut off",
            plain[..plain.len() - 12].into(),
            Refused(&["line 37", "expected 8 fields"]),
        ),
        (
            "no column of a clock",
            without(plain, "emc_khz").into(),
            Refused(&["`emc_khz`", "missing", "is blank in every row"]),
        ),
        (
            "no column of the power",
            without(plain, "power_mw").into(),
            Refused(&["`power_mw`", "missing", HEADER]),
        ),
        (
            "no name of the board",
            all(plain, "device", "").into(),
            Refused(&["line 2", "`device`", "a name of 1 to 64 characters"]),
        ),
        (
            "a second workload",
            fifth(plain, "workload", "bert").into(),
            Refused(&["line 6", "yolo, bert", "--workload"]),
        ),
        (
            "a second board",
            fifth(plain, "device", "tx2").into(),
            Refused(&["line 6", "`device`", "expected `orin-agx-64`"]),
        ),
    ]
}

/// Checks a text, and returns its summary and warnings.
fn checked(text: &[u8]) -> (Run, Value, Vec<String>) {
    let folder = folder();
    write(folder.path(), "corpus.csv", text);
    let run = run(folder.path(), "check corpus.csv --json");
    let json: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
    let warnings = json.pointer("/files/0/warnings").and_then(Value::as_array);
    let texts = warnings.into_iter().flatten().filter_map(Value::as_str);
    let warnings = texts.map(str::to_owned).collect();
    (run, json, warnings)
}

#[test]
fn no_variant_passes_in_silence_and_no_sound_one_is_refused() {
    let plain = sound();
    let (run, expected_json, warnings) = checked(plain.as_bytes());
    assert_eq!((run.code, warnings), (0, Vec::new()), "{}", run.stderr);
    assert_eq!(expected_json["files"][0]["modes"], 36);
    let parts = [dialects(&plain), units(&plain), holes(&plain)];
    let variants: Vec<Variant> = parts.into_iter().flatten().collect();
    assert!(variants.len() >= 60, "{}", variants.len());
    let mut wrong = Vec::new();
    for (name, text, expected) in variants {
        let (run, json, warnings) = checked(&text);
        let said = format!("{}{}", run.stdout, run.stderr);
        let has = |words: &[&str], text: &str| words.iter().all(|word| text.contains(word));
        let is_right = match expected {
            Same => (run.code, warnings.len()) == (0, 0) && json == expected_json,
            Sound => (run.code, warnings.len()) == (0, 0),
            Warned(words) => run.code == 0 && warnings.iter().any(|it| has(words, it)),
            Refused(words) => run.code == 3 && has(words, &said),
        };
        if !is_right {
            wrong.push(format!("{name}: exit {}\n{said}", run.code));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The sound corpus with the name of another workload, longer times and higher powers.
fn sound_of_another() -> String {
    let named = sound().replace(",yolo,", ",bert,");
    scaled(&scaled(&named, "time_ms", 2.5), "power_mw", 1.1)
}

#[test]
fn one_workload_of_a_file_of_several_is_picked() {
    let folder = folder();
    let path = folder.path();
    let (yolo, bert) = (sound(), sound_of_another());
    write(path, "yolo.csv", &yolo);
    write(path, "bert.csv", &bert);
    write(path, "both.csv", format!("{yolo}{}", body(&bert)));
    for workload in ["yolo", "bert"] {
        let summary = |arguments: &str| {
            let mut json = run(path, &format!("check {arguments} --json")).json();
            json["files"][0]["file"] = Value::Null;
            json
        };
        let picked = summary(&format!("both.csv --workload {workload}"));
        assert_eq!(picked, summary(&format!("{workload}.csv")));
        for corpus in [
            format!("both.csv --workload {workload}"),
            format!("{workload}.csv"),
        ] {
            let name = corpus.replace(' ', "-");
            let fit = run(path, &format!("fit {corpus} --modes 20 -o {name}.wgt"));
            assert_eq!(fit.code, 0, "{}", fit.stderr);
        }
        let model = |name: String| fs::read(path.join(name)).expect("a model");
        let picked = model(format!("both.csv---workload-{workload}.wgt"));
        assert_eq!(picked, model(format!("{workload}.csv.wgt")));
    }
    let plan = "plan both.csv --workload bert --board both.csv --modes 36";
    let planned = run(path, plan);
    assert!(
        planned.stdout.starts_with("36 modes measured"),
        "{}",
        planned.stderr
    );
    let none = run(path, "fit both.csv --workload resnet -o none.wgt");
    let expected = "error: both.csv: no row of the workload `resnet`; the file has yolo, bert\n";
    assert_eq!((none.code, none.stderr.as_str()), (3, expected));
    // The other workloads of the file are references.
    let transfer = "fit bert.csv --reference both.csv --modes 12 -o bert.wgt --json";
    assert_eq!(run(path, transfer).json()["reference"], "both.csv (yolo)");
}

/// The board may be named by another word than that of the tables.
#[test]
fn clocks_are_those_of_the_board_that_is_named() {
    let folder = folder();
    let path = folder.path();
    let plain = sound();
    write(path, "board.csv", &plain);
    let rounded = clocks(&plain, |khz| format!("{:.0}000", khz / 1e3));
    let rounded = rounded.replace("orin-agx-64,", "carrier,");
    write(path, "rounded.csv", &rounded);
    let fit = "fit rounded.csv --board board.csv --modes 20 -o model.wgt --json";
    assert_eq!(run(path, fit).json()["modes_in_grid"], 36);
    let other = plain.replace(",624750,", ",612000,");
    let other = other
        .replace(",318750,", ",408000,")
        .replace(",114750,", ",306000,");
    let no_cores = all(&plain, "cores", "");
    let no_memory = all(&plain, "emc_khz", "");
    for (corpus, expected) in [
        (
            other,
            "gpu_khz has no 306000; the nearest is 318750; orin-agx-64-jp6 has all values of this file",
        ),
        (
            no_cores,
            "cores is blank, so nobody knows which modes of the board these are",
        ),
        (no_memory, "emc_khz is blank; write the clock that was set"),
    ] {
        write(path, "corpus.csv", corpus);
        let fit = run(path, "fit corpus.csv --board orin-agx-64 -o other.wgt");
        assert_eq!(fit.code, 3, "{}", fit.stdout);
        assert!(fit.stderr.contains(expected), "{}", fit.stderr);
    }
}

#[test]
fn a_fit_warns_of_what_is_probably_not_meant() {
    let folder = folder();
    write(
        folder.path(),
        "corpus.csv",
        scaled(&sound(), "time_ms", 1e-3),
    );
    let fit = run(folder.path(), "fit corpus.csv --modes 20 -o model.wgt");
    assert_eq!(fit.code, 0, "{}", fit.stderr);
    let expected = "warning: corpus.csv: time_ms has 0.0";
    assert!(fit.stderr.starts_with(expected), "{}", fit.stderr);
    // A wrong unit that may be right is seen in the report.
    assert!(
        fit.stdout
            .contains("\nfastest step 81 µs, slowest 289 µs; least power "),
        "{}",
        fit.stdout
    );
}
