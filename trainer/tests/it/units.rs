//! Corpora of several units of a board.

use std::path::Path;

use serde_json::Value;
use wattgate_runtime::fleet::UnitId;
use wattgate_runtime::{Confidence, Model};

use crate::common::{HEADER, folder, measured, row, run, write};

/// The modes of the made-up board.
fn modes() -> Vec<[u32; 4]> {
    let mut modes = Vec::new();
    for cores in 1..=4 {
        for cpu in [400_000, 800_000, 1_200_000, 1_600_000] {
            for gpu in [300_000, 600_000, 900_000] {
                modes.extend([800_000, 1_600_000].map(|emc| [cores, cpu, gpu, emc]));
            }
        }
    }
    modes
}

/// A corpus of a unit that differs by factors of time and power, in every `step`th mode from `first` on. Its readings
/// have an error of half a percent.
fn unit(id: &str, [time, power]: [f64; 2], (first, step): (usize, usize)) -> String {
    let mut text = format!("{HEADER},unit\n");
    for (at, [cores, cpu, gpu, emc]) in modes().into_iter().enumerate().skip(first).step_by(step) {
        let row = row(cores, cpu, gpu, emc);
        let fields: Vec<&str> = row.split(',').collect();
        let value = |at: usize| fields[at].parse::<f64>().expect("a number");
        let noise = |k: f64| {
            1.0 + 0.01 * (((at + 7) as f64 * k + time * 31.0 + power * 17.0).fract() - 0.5)
        };
        let (time, power) = (
            time * value(6) * noise(0.618),
            power * value(7) * noise(0.414),
        );
        text += &format!("{},{time},{power},{id}\n", fields[..6].join(","));
    }
    text
}

/// Fits a model to 30 modes of some files. Returns the report, and each unit that the model lists with its power ratio.
fn fit(folder: &Path, files: &str) -> (Value, Vec<(String, f32)>) {
    let report = run(
        folder,
        &format!("fit {files} --modes 30 -o model.wgt --json"),
    )
    .json();
    let bytes = std::fs::read(folder.join("model.wgt")).expect("a model");
    assert!(bytes.len() <= 1_536, "{} bytes", bytes.len());
    let model = Model::parse(&bytes).expect("a model");
    let fleet = model.fleet().expect("a fleet");
    let id_and_power = |id: UnitId| {
        let unit = fleet.unit(Some(id), Confidence::P95).expect("supported");
        assert!(unit.is_profiled);
        (id.to_string(), unit.power.exp())
    };
    (report, fleet.units().map(id_and_power).collect())
}

fn doubts(report: &Value) -> Vec<String> {
    let doubts = report["unit_doubts"].as_array().expect("a list").iter();
    doubts
        .map(|doubt| doubt.as_str().expect("a text").to_owned())
        .collect()
}

/// Ids and factors of units.
const UNITS: [(&str, [f64; 2]); 4] = [
    ("00000001", [1.02, 1.10]),
    ("00000002", [0.98, 0.95]),
    ("00000003", [1.00, 1.02]),
    ("00000004", [1.00, 0.93]),
];

#[test]
fn the_levels_of_units_are_found_in_common_modes_and_in_others() {
    let folder = folder();
    let path = folder.path();
    let mean = |at: usize| {
        let logs = UNITS.iter().map(|(_, factors)| factors[at].ln());
        (logs.sum::<f64>() / UNITS.len() as f64).exp()
    };
    let one = {
        let (id, factors) = UNITS[0];
        write(path, "0.csv", unit(id, factors, (0, 1)));
        let (report, listed) = fit(path, "0.csv");
        assert_eq!(listed, [(id.to_owned(), 1.0)]);
        report["other_units_power_ratio"].as_f64().expect("a ratio")
    };
    assert!((1.17..1.26).contains(&one), "{one}");
    // All units in every second mode; each unit in modes of its own.
    for apart in [false, true] {
        for (at, (id, factors)) in UNITS.into_iter().enumerate() {
            let which = if apart { (at, UNITS.len()) } else { (0, 2) };
            write(path, &format!("{at}.csv"), unit(id, factors, which));
        }
        let (report, listed) = fit(path, "0.csv 1.csv 2.csv 3.csv");
        assert_eq!(doubts(&report), [""; 0]);
        let of_four = report["other_units_power_ratio"].as_f64().expect("a ratio");
        // √(1 + 1/4) in place of √2.
        let expected = (one.ln() * (1.25_f64 / 2.0).sqrt()).exp();
        assert!(
            (of_four / expected - 1.0).abs() < 0.02,
            "{of_four} {expected}"
        );
        let reported = report["units"].as_array().expect("a list");
        for (((id, [time, power]), reported), (listed_id, listed)) in
            UNITS.iter().zip(reported).zip(&listed)
        {
            assert_eq!(
                (reported["id"].as_str(), listed_id.as_str()),
                (Some(*id), *id)
            );
            let near = |found: &Value, expected: f64| {
                let found = found.as_f64().expect("a ratio");
                assert!(
                    (found / expected - 1.0).abs() < 0.015,
                    "{id}, apart {apart}: {found} {expected}"
                );
            };
            near(&reported["time_ratio"], time / mean(0));
            near(&reported["power_ratio"], power / mean(1));
            let of_report = reported["power_ratio"].as_f64().expect("a ratio");
            assert!((f64::from(*listed) / of_report - 1.0).abs() < 1e-3);
        }
    }
}

#[test]
fn two_units_with_one_serial_number_are_named_and_get_the_wide_band() {
    let folder = folder();
    let path = folder.path();
    write(path, "a.csv", unit("0badcafe", [1.0, 1.0], (0, 2)));
    write(path, "b.csv", unit("0badcafe", [1.0, 1.18], (1, 2)));
    write(path, "c.csv", unit("00000001", [1.0, 1.05], (0, 3)));
    let (report, listed) = fit(path, "a.csv b.csv c.csv");
    let doubts = doubts(&report);
    assert_eq!(doubts.len(), 1, "{doubts:?}");
    assert!(
        doubts[0].starts_with("unit 0badcafe: b.csv has 1.1"),
        "{doubts:?}"
    );
    let ids: Vec<&str> = listed.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["00000001"]);
    // Of one unit, profiled twice, nothing is said.
    write(path, "b.csv", unit("0badcafe", [1.0, 1.01], (1, 2)));
    let (report, listed) = fit(path, "a.csv b.csv");
    assert_eq!(self::doubts(&report), [""; 0]);
    assert_eq!(listed.len(), 1);
    assert_eq!(report["units"].as_array().expect("a list").len(), 1);
}

#[test]
fn rows_of_several_units_in_one_file_are_named() {
    let folder = folder();
    let path = folder.path();
    let two = |second: f64, id: &str| {
        let both = unit(id, [1.0, 1.0], (0, 1)) + &unit(id, [1.0, second], (0, 1));
        both.replacen(HEADER, "#", 1)
            .replace(&format!("{HEADER},unit\n"), "")
            .replacen('#', HEADER, 1)
    };
    write(path, "mixed.csv", two(1.2, "0badcafe"));
    let (report, listed) = fit(path, "mixed.csv");
    let doubts = doubts(&report);
    assert!(
        doubts[0].contains("runs of one mode differ by a factor of 1.2"),
        "{doubts:?}"
    );
    assert!(listed.is_empty());
    write(path, "repeated.csv", two(1.01, "0badcafe"));
    let (report, listed) = fit(path, "repeated.csv");
    assert_eq!((self::doubts(&report).len(), listed.len()), (0, 1));
    // A file that says so is refused with the remedy.
    let said = unit("0badcafe", [1.0, 1.0], (0, 2)) + &unit("00000001", [1.0, 1.0], (1, 2));
    let said = said
        .replacen(HEADER, "#", 1)
        .replace(&format!("{HEADER},unit\n"), "");
    write(path, "said.csv", said.replacen('#', HEADER, 1));
    let refused = run(path, "fit said.csv -o other.wgt");
    let expected = "error: said.csv: line 50: column `unit`: expected `0badcafe` as in the rows before, found \
                    `00000001`: one file holds one unit of the board; `fit` takes several files\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (3, expected));
    write(path, "bad.csv", unit("12", [1.0, 1.0], (0, 1)));
    let refused = run(path, "check bad.csv");
    let said = refused.stdout + &refused.stderr;
    assert!(
        said.contains("column `unit`: expected 8 hexadecimal digits, or a blank, found `12`"),
        "{said}"
    );
}

#[test]
fn files_that_are_not_of_units_of_one_board_are_refused() {
    let folder = folder();
    let path = folder.path();
    let one = unit("00000001", [1.0, 1.0], (0, 1));
    write(path, "one.csv", &one);
    write(path, "copy.csv", one.replace("00000001", "00000002"));
    let other = unit("00000002", [1.0, 1.1], (0, 1));
    write(path, "work.csv", other.replace("job", "work"));
    write(path, "device.csv", other.replace("board,", "tx9,"));
    let without: Vec<String> = other
        .lines()
        .enumerate()
        .map(|(at, line)| {
            let mut fields: Vec<&str> = line.split(',').collect();
            if at > 0 {
                fields[7] = "";
            }
            fields.join(",")
        })
        .collect();
    write(path, "time.csv", without.join("\n"));
    write(path, "slow.csv", unit("00000004", [1e3, 1.0], (1, 2)));
    write(path, "half.csv", unit("00000005", [1.0, 0.5], (1, 2)));
    for (file, expected) in [
        (
            "work.csv",
            "error: work.csv is of workload `work`, one.csv of `job`: a fit takes units of one board with one workload; leave one of the files out\n",
        ),
        (
            "device.csv",
            "error: device.csv is of board `tx9`, one.csv of `board`: a fit takes units of one board with one workload; leave one of the files out\n",
        ),
        (
            "copy.csv",
            "error: copy.csv has the readings of one.csv, but each unit needs readings of its own; leave one of the files out\n",
        ),
        ("slow.csv", "error: slow.csv has 9"),
        ("half.csv", "error: half.csv has 0."),
        (
            "time.csv",
            "error: time.csv has no power, but one.csv has: profile both, or leave the power out of all\n",
        ),
    ] {
        let refused = run(path, &format!("fit one.csv {file} -o model.wgt"));
        assert_eq!(refused.code, 3, "{file}");
        assert!(refused.stderr.starts_with(expected), "{}", refused.stderr);
        assert!(!path.join("model.wgt").exists());
    }
    let few: Vec<&str> = one.lines().take(4).collect();
    write(
        path,
        "few.csv",
        few.join("\n").replace("00000001", "00000003"),
    );
    let refused = run(path, "fit one.csv few.csv -o model.wgt");
    let expected = "error: few.csv has 3 profiled modes; a unit needs at least 5; profile more\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (3, expected));
    // The output is none of the inputs.
    write(path, "two.csv", other);
    let refused = run(path, "fit one.csv two.csv -o two.csv");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

#[test]
fn a_file_lists_ten_units() {
    let folder = folder();
    let path = folder.path();
    let mut files = String::new();
    for at in 0..11 {
        let id = format!("{at:08x}");
        let factors = [1.0, 0.95 + 0.01 * f64::from(at)];
        write(
            path,
            &format!("{at}.csv"),
            unit(&id, factors, (at as usize, 5)),
        );
        files += &format!("{at}.csv ");
    }
    let (report, listed) = fit(path, &files);
    assert_eq!(listed.len(), 10);
    let doubts = doubts(&report);
    assert_eq!(
        doubts,
        ["a model lists 10 units; 1 of those profiled do not get the narrow band"]
    );
}

/// The repeats of one unit are not taken for several.
#[test]
fn repeats_on_one_unit_are_no_mixture() {
    for name in [
        "tx1__image5000__translucence.csv",
        "tx2__image5000__translucence.csv",
    ] {
        let Some(corpus) = measured(name) else {
            continue;
        };
        let folder = folder();
        let corpus = corpus.display();
        let fit = format!("fit {corpus} --modes 20 -o model.wgt --json");
        let report = run(folder.path(), &fit).json();
        assert_eq!(doubts(&report), [""; 0], "{name}");
    }
}
