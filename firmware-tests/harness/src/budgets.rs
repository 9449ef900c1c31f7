//! The file of budgets: for each target and figure what it was, and what it must not exceed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{Failures, Figures};

/// A figure may exceed its budget by one part in fifty.
const TOLERANCE: u64 = 50;

const HEAD: &str = "\
# Figures of the images, compared on every run of firmware-tests/run.sh: one that is more than
# 2 % above its budget fails. `bound` is what was set out for. Instructions are exact, those of
# QEMU with `-icount shift=0`. WATTGATE_UPDATE_BUDGETS=1 writes the budgets anew.
";

/// What a figure is held against.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Budget {
    budget: u64,
    bound: Option<u64>,
}

pub struct Budgets {
    path: PathBuf,
    targets: BTreeMap<String, BTreeMap<String, Budget>>,
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

    /// Prints figures beside their budgets, notes those that exceed them, and takes them as the
    /// new budgets.
    pub fn compare(&mut self, target: &str, figures: &Figures, failures: &mut Failures) {
        let budgets = self.targets.entry(target.to_owned()).or_default();
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
                Some(Budget { budget, .. }) if figure > budget + budget / TOLERANCE => {
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

    pub fn write(&self) -> Result<(), String> {
        let mut text = HEAD.to_owned();
        for (target, budgets) in &self.targets {
            let _ = write!(text, "\n[{target}]\n");
            for (name, Budget { budget, bound }) in budgets {
                let bound = bound.map_or(String::new(), |bound| format!(", bound = {bound}"));
                let _ = writeln!(text, "\"{name}\" = {{ budget = {budget}{bound} }}");
            }
        }
        fs::write(&self.path, text).map_err(|why| format!("{}: {why}", self.path.display()))
    }
}
