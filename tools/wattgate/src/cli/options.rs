//! Options that commands have in common.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{self, Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use wattgate_cli::arguments::{Given, number, of};
use wattgate_cli::quantity;
use wattgate_runtime::Milliwatts;
use wattgate_runtime::format::Kind;

use super::Failure;
use super::workload::{self, Workload};
use crate::name;
use crate::row::{Feeding, MAX_WORKERS};
use crate::window::Rules;

/// The help of [`Common`].
const COMMON: &str =
    "  --name NAME      Name of the workload, the column `workload`: 1 to 40 of a-z, 0-9, `.`, `_` and `-` [what
                   the workload tells with its steps, else the name of the program's file or script]
  --device NAME    Name of the board, the column `device` [the module's name]
  --root DIR       Root of the board's files; for simulated boards [/]
  --speed X        The board's time per real time; for simulated boards [1]
  --json           JSON lines on standard output; that of PROGRAM goes to standard error
  -h, --help       Print this
";

/// The help of a command: what it is for, its options and those of [`Common`], and notes.
pub fn help_with(usage: &str, notes: &str) -> String {
    let options = workload::OPTIONS;
    format!("{usage}{COMMON}\n{options}\n{notes}")
}

/// How modes are measured on the board of a root. Another root than `/` has a simulated board, whose release of L4T says
/// whether it is a recorded one.
fn kind_of(root: &Path) -> Kind {
    if root == Path::new("/") {
        return Kind::Measured;
    }
    let release = fs::read_to_string(root.join("etc/nv_tegra_release"));
    match release.is_ok_and(|text| text.contains("BOARD: recorded")) {
        true => Kind::Recorded,
        false => Kind::Simulated,
    }
}

/// The board and the workload.
#[derive(Debug)]
pub struct Common {
    name: Option<String>,
    pub device: Option<String>,
    pub root: PathBuf,
    pub speed: f64,
    pub json: bool,
    pub workload: Workload,
}

impl Common {
    /// The name of the workload, as far as it is known before its first step.
    pub fn name(&self) -> Option<String> {
        self.name.clone().or_else(|| self.workload.name())
    }

    /// Whether the workload may tell another name.
    pub fn may_tell_name(&self) -> bool {
        self.name.is_none() && self.workload.may_tell_name()
    }

    /// The name of the workload. `told` is what it told with its first step.
    pub fn final_name(&self, told: Option<String>) -> Result<String, Failure> {
        if let Some(told) = told.filter(|_| self.name.is_none()) {
            return name::from_text(&told).ok_or(Failure::ToldName { told });
        }
        let unnamed = || Failure::Unnamed {
            workload: self.workload.shown(),
        };
        self.name().ok_or_else(unnamed)
    }

    /// How modes are measured on the board.
    pub fn kind(&self) -> Kind {
        kind_of(&self.root)
    }

    fn take(&mut self, option: &str, parser: &mut Parser) -> Result<bool, Failure> {
        match option {
            "--name" => {
                let value = parser.value()?.string()?;
                if !name::is_name(&value) {
                    return Err(Failure::Value {
                        option: "--name",
                        value,
                        expected: name::EXPECTED,
                    });
                }
                self.name = Some(value);
            }
            "--device" => {
                self.device = Some(parser.value()?.string().map_err(of(option))?);
            }
            "--root" => {
                let root = PathBuf::from(parser.value()?);
                // A root that was mistyped is not made.
                fs::metadata(&root).map_err(|source| Failure::Root {
                    path: root.clone(),
                    source,
                })?;
                // Settings are saved under their paths, for any later start.
                self.root = path::absolute(&root).unwrap_or(root);
            }
            "--speed" => {
                self.speed = within(parser, "--speed", 0.1..=100.0, "a factor of 0.1 … 100")?;
            }
            "--json" => self.json = true,
            option => return self.workload.take(option, parser),
        }
        Ok(true)
    }
}

/// Parses the arguments of a command: those of [`Common`], and others, which `take` knows by their
/// names.
pub fn parse(
    mut parser: Parser,
    mut take: impl FnMut(&str, &mut Parser) -> Result<bool, Failure>,
) -> Result<Common, Failure> {
    let mut common = Common {
        name: None,
        device: None,
        root: PathBuf::from("/"),
        speed: 1.0,
        json: false,
        workload: Workload::default(),
    };
    let mut given = Given::default();
    loop {
        let option = match parser.next()? {
            Some(Arg::Short(letter)) => format!("-{letter}"),
            Some(Arg::Long(name)) => format!("--{name}"),
            Some(Arg::Value(program)) => {
                common.workload.take_program(program, &mut parser)?;
                continue;
            }
            None => break,
        };
        if option != REPEATABLE {
            given.add_option(option.clone())?;
        }
        if !common.take(&option, &mut parser)? && !take(&option, &mut parser)? {
            return Err(lexopt::Error::UnexpectedOption(option).into());
        }
    }
    common.workload.check()?;
    Ok(common)
}

/// The option that may be given several times.
const REPEATABLE: &str = "--reference";

/// The help of [`Plan`].
pub const PLAN: &str =
    "  --modes N|FILE   Number of modes, which a planner chooses, or a CSV file with the columns
                   cores, cpu_khz, gpu_khz and emc_khz, measured in its order [15]
  -o FILE          The corpus; rows are added to one that exists
                   [/var/lib/wattgate/corpora/BOARD/NAME.csv]
  --planner CMD    The planner [wattgate-trainer plan --ask-tell]
  --reference FILE A model or corpus of another workload on this board, on the planner's machine; repeat it
                   for several [with the default planner, models of other workloads on this board where the
                   daemon looks for models; without any, /usr/share/wattgate/references/BOARD.wgt]
  --spread PCT     Relative standard error at which a measurement ends [1]
  --longest S      Longest measurement of a mode in seconds [18]
  --caps           Measure each mode a second time with clocks that the kernel may lower (`cap` in the config)
  --seed S         Seed of the planner [1]
  --minibatch N    Samples in a step, for the column `minibatch` [as the workload reports]
  --workers N      Loader workers, for the column `workers` [blank]
  --storage NAME   Storage of the data set, for the column `storage` [blank]
  --epoch N        0 for the first epoch, which fills the page cache, 1 for later ones [blank]
";

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    pub modes: Modes,
    /// The corpus; `None`: that of the board and the workload.
    pub output: Option<PathBuf>,
    pub planner: String,
    pub references: Vec<String>,
    pub rules: Rules,
    /// Whether each mode is also measured with its clocks as ceilings.
    pub caps: bool,
    pub seed: u64,
    /// How the workload is fed, as far as the user states it.
    pub feeding: Feeding,
}

/// The modes to measure.
#[derive(Clone, Debug)]
pub enum Modes {
    Number(usize),
    File(PathBuf),
}

/// The planner where `--planner` names no other.
const PLANNER: &str = "wattgate-trainer plan --ask-tell";

impl Default for Plan {
    fn default() -> Self {
        Self {
            modes: Modes::Number(15),
            output: None,
            planner: PLANNER.to_owned(),
            references: Vec::new(),
            rules: Rules::default(),
            caps: false,
            seed: 1,
            feeding: Feeding::default(),
        }
    }
}

impl Plan {
    /// Whether the planner is known to run on this machine, and to find its files.
    pub fn is_planner_here(&self) -> bool {
        self.planner == PLANNER
    }

    /// Takes an option of this group.
    pub fn take(&mut self, option: &str, parser: &mut Parser) -> Result<bool, Failure> {
        match option {
            "--modes" => {
                let value = parser.value()?;
                self.modes = match value.to_str().map(str::parse) {
                    Some(Ok(number)) => Modes::Number(number),
                    _ => Modes::File(PathBuf::from(value)),
                };
            }
            "-o" => self.output = Some(PathBuf::from(parser.value()?)),
            "--planner" => self.planner = parser.value()?.string().map_err(of(option))?,
            "--reference" => {
                let reference = parser.value()?.string().map_err(of(option))?;
                self.references.push(reference);
            }
            "--spread" => {
                let percent = within(parser, "--spread", 0.01..=20.0, "0.01 … 20 percent")?;
                self.rules.spread = percent / 100.0;
            }
            "--longest" => {
                let seconds = within(parser, "--longest", 1.0..=3600.0, "1 … 3600 seconds")?;
                self.rules.longest = Duration::from_secs_f64(seconds);
            }
            "--caps" => self.caps = true,
            "--seed" => self.seed = number(parser, option)?,
            "--minibatch" => {
                let size = within(parser, "--minibatch", 1..=u32::MAX, "a number above 0")?;
                self.feeding.minibatch = Some(size);
            }
            "--workers" => {
                let workers = within(parser, "--workers", 0..=MAX_WORKERS, "0 … 1024 workers")?;
                self.feeding.workers = Some(workers);
            }
            "--storage" => self.feeding.storage = Some(storage(parser)?),
            "--epoch" => {
                let epoch = within(parser, "--epoch", 0..=u32::MAX, "a whole number from 0")?;
                self.feeding.epoch = Some(epoch);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The value of `--limit`.
pub fn limit(parser: &mut Parser) -> Result<Milliwatts, Failure> {
    let value = parser.value()?.string().map_err(of("--limit"))?;
    quantity::power(&value).map_err(|_| Failure::Value {
        option: "--limit",
        value,
        expected: "a power with its unit, such as 20W or 20000mW",
    })
}

/// The value of `--storage`, as the trainer takes it.
fn storage(parser: &mut Parser) -> Result<String, Failure> {
    let value = parser.value()?.string()?;
    let is_name = (1..=64).contains(&value.chars().count())
        && value.trim() == value
        && !value.chars().any(char::is_control);
    is_name.then(|| value.clone()).ok_or(Failure::Value {
        option: "--storage",
        value,
        expected: "a name of 1 to 64 characters, such as nvme",
    })
}

/// A number within a range.
pub fn within<T: FromStr + PartialOrd>(
    parser: &mut Parser,
    option: &'static str,
    range: RangeInclusive<T>,
    expected: &'static str,
) -> Result<T, Failure> {
    let value = parser.value()?.string()?;
    match value.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(Failure::Value {
            option,
            value,
            expected,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_a_simulated_board_says_whether_it_is_recorded() {
        assert_eq!(kind_of(Path::new("/")), Kind::Measured);
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(kind_of(root.path()), Kind::Simulated);
        fs::create_dir(root.path().join("etc")).expect("made");
        for (board, kind) in [("simulated", Kind::Simulated), ("recorded", Kind::Recorded)] {
            let text =
                format!("# R32 (release), REVISION: 5.1, GCID: 0, BOARD: {board}, EABI: aarch64");
            fs::write(root.path().join("etc/nv_tegra_release"), text).expect("written");
            assert_eq!(kind_of(root.path()), kind);
        }
    }
}
