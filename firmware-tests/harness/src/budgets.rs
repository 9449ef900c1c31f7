//! The budgets file: for each target and figure, the budget and an optional design bound.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{Failures, Figures};

/// Tolerance of a budget, as its divisor: 2 %.
const TOLERANCE: u64 = 50;

const HEAD: &str = "\
# Figures of the images, compared on every run of firmware-tests/run.sh. A figure fails if it
# exceeds its budget by more than 2 % and the compiler is the same. `bound` is the design goal.
# Instructions are exact counts of QEMU with `-icount shift=0,sleep=off`.
# WATTGATE_UPDATE_BUDGETS=1 updates the budgets.
";

/// The budget of a figure, and its design bound.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Budget {
    budget: u64,
    bound: Option<u64>,
}

/// The budgets of a target.
#[derive(Debug, Default, Deserialize)]
struct Target {
    /// Figures of another compiler are printed but not compared.
    compiler: String,
    figures: BTreeMap<String, Budget>,
}

/// The targets of the table in README.md.
const COLUMNS: [(&str, &str); 4] = [
    ("AArch64", "aarch64-unknown-none"),
    ("Cortex-M4F", "thumbv7em-none-eabihf"),
    ("Cortex-M3", "thumbv7m-none-eabi"),
    ("Cortex-M0", "thumbv6m-none-eabi"),
];

/// The figures of that table.
const ROWS: [&str; 9] = [
    "engine, bytes",
    "code and constants, bytes",
    "static memory, bytes",
    "stack",
    "stack, computed",
    "tx1 sweep, per 100 multiply-adds",
    "instructions from reset to this mode",
    "tx1 query, least energy-delay",
    "orin cold start",
];

pub struct Budgets {
    path: PathBuf,
    targets: BTreeMap<String, Target>,
}

impl Budgets {
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
        let targets = toml::from_str(&text).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            targets,
        })
    }

    /// Prints figures beside their budgets, adds failures for those that exceed them, and stores
    /// the figures as the new budgets.
    pub fn compare(
        &mut self,
        target: &str,
        compiler: &str,
        figures: &Figures,
        failures: &mut Failures,
    ) {
        let Target {
            compiler: recorded_compiler,
            figures: budgets,
        } = self.targets.entry(target.to_owned()).or_default();
        let comparable = recorded_compiler == compiler || recorded_compiler.is_empty();
        if !comparable {
            println!("compiled by {compiler}: not compared with budgets of {recorded_compiler}");
        }
        compiler.clone_into(recorded_compiler);
        for name in budgets.keys().filter(|name| !figures.contains_key(*name)) {
            failures.push(format!("{target}: `{name}` was not measured"));
        }
        for (name, &figure) in figures {
            let old = budgets.get(name).copied();
            let bound = old.and_then(|old| old.bound);
            let verdict = match old {
                None => {
                    failures.push(format!("{target}: `{name}` has no budget"));
                    "no budget".to_owned()
                }
                Some(Budget { budget, .. })
                    if comparable && figure > budget + budget / TOLERANCE =>
                {
                    failures.push(format!("{target}: {name} {figure}, budget {budget}"));
                    format!("above its budget of {budget}")
                }
                Some(_) => String::new(),
            };
            let bound_text = match bound {
                Some(bound) if figure > bound => format!("bound {bound} MISSED"),
                Some(bound) => format!("bound {bound}"),
                None => String::new(),
            };
            println!("{name:42} {figure:10}  {bound_text} {verdict}");
            let budget = Budget {
                budget: figure,
                bound,
            };
            budgets.insert(name.clone(), budget);
        }
    }

    /// The table of README.md. A bound that is missed is marked where it is missed.
    pub fn table(&self) -> String {
        let names = COLUMNS.map(|(name, _)| name);
        let mut text = format!(
            "| figure | {} |\n|---|{}\n",
            names.join(" | "),
            "---|".repeat(names.len())
        );
        for row in ROWS {
            let cells = COLUMNS.map(|(_, triple)| {
                let figures = self.targets.get(triple).map(|target| &target.figures);
                match figures.and_then(|figures| figures.get(row)) {
                    Some(&Budget { budget, bound }) => match bound {
                        Some(bound) if budget > bound => {
                            format!("{budget}, bound {bound} **missed**")
                        }
                        Some(bound) => format!("{budget}, bound {bound}"),
                        None => budget.to_string(),
                    },
                    None => "–".to_owned(),
                }
            });
            let _ = writeln!(text, "| {row} | {} |", cells.join(" | "));
        }
        text
    }

    pub fn write(&self) -> Result<(), String> {
        let mut text = HEAD.to_owned();
        for (target, budgets) in &self.targets {
            // A key with a dot is quoted.
            let key = match target.contains('.') {
                true => format!("\"{target}\""),
                false => target.clone(),
            };
            let _ = write!(text, "\n[{key}]\ncompiler = \"{}\"\n\n", budgets.compiler);
            let _ = writeln!(text, "[{key}.figures]");
            for (name, Budget { budget, bound }) in &budgets.figures {
                let bound = bound.map_or(String::new(), |bound| format!(", bound = {bound}"));
                let _ = writeln!(text, "\"{name}\" = {{ budget = {budget}{bound} }}");
            }
        }
        fs::write(&self.path, text).map_err(|why| format!("{}: {why}", self.path.display()))
    }
}
