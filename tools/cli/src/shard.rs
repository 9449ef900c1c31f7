//! Long computations in shards: `--shard I/N` runs every N-th job from the I-th on and prints a *part*; `merge` reads the
//! parts of all shards and prints what the whole computation prints, to the last bit.

use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A shard: its number from 1 on, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shard {
    number: usize,
    count: usize,
}

impl FromStr for Shard {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (number, count) = text.split_once('/').ok_or(())?;
        let [number, count] = [number, count].map(|text| text.parse().map_err(|_| ()));
        let shard = Self {
            number: number?,
            count: count?,
        };
        let is_one = (1..=shard.count).contains(&shard.number);
        is_one.then_some(shard).ok_or(())
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.number, self.count)
    }
}

/// Why shards cannot run or be merged.
#[derive(Debug, Error)]
pub enum ShardError {
    #[error("--shard is `{value}`, expected a shard and their number, such as 2/4")]
    Value { value: String },
    #[error("`{command}` takes no --shard; {known} do")]
    Command { command: String, known: String },
    #[error("missing the parts; name a file of each shard")]
    NoParts,
    #[error("{}: cannot read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{}: not what a shard prints, or cut off: {why}; run this shard again", path.display()
    )]
    Defect { path: PathBuf, why: String },
    #[error("{}: {what} from {}; merge the parts of one computation", path.display(), first.display())]
    Differs {
        path: PathBuf,
        first: PathBuf,
        what: &'static str,
    },
    #[error("shard {shard} is missing: `{command} --shard {shard}` prints it")]
    Missing { shard: Shard, command: String },
    #[error("shard {shard} is in {} and {}", one.display(), other.display())]
    Twice {
        shard: Shard,
        one: PathBuf,
        other: PathBuf,
    },
    #[error("the parts have {found} jobs, the computation has {expected}: an input has changed")]
    Jobs { found: usize, expected: usize },
    #[error("a result in a part cannot be read: {why}")]
    Result { why: serde_json::Error },
}

impl ShardError {
    /// The exit code: 2 for arguments, 3 for a part, 5 for a file that cannot be read.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Value { .. } | Self::Command { .. } | Self::NoParts => 2,
            Self::Io { .. } => 5,
            _ => 3,
        }
    }
}

/// What a shard prints.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Part {
    version: u32,
    /// Without `--shard`.
    arguments: Vec<String>,
    /// Hash of the program.
    build: u64,
    shard: [usize; 2],
    jobs: usize,
    /// The results of the shard's jobs as JSON.
    results: Vec<serde_json::Value>,
}

/// Which jobs of a computation run here.
#[derive(Debug)]
pub enum Jobs {
    /// All.
    All,
    /// Those of a shard, with the arguments of the whole computation.
    Shard(Shard, Vec<String>),
    /// None: their results were read from parts.
    Merged(Vec<serde_json::Value>),
}

/// What has run.
#[derive(Debug)]
pub enum Ran<T> {
    /// All jobs: what they give, in their order.
    Whole(T),
    /// Those of a shard: the part to print.
    Part(String),
}

impl<T> Ran<T> {
    /// Applies a function to what all jobs give.
    pub fn map<U>(self, apply: impl FnOnce(T) -> U) -> Ran<U> {
        match self {
            Self::Whole(whole) => Ran::Whole(apply(whole)),
            Self::Part(part) => Ran::Part(part),
        }
    }
}

impl Jobs {
    /// Takes `--shard` out of the arguments of a program, or reads the parts that `merge` names: returns the arguments of the
    /// whole computation as well. `known` are the commands that run in shards.
    pub fn take(arguments: Vec<String>, known: &[&str]) -> Result<(Self, Vec<String>), ShardError> {
        if arguments.first().is_some_and(|first| first == "merge")
            && !arguments
                .iter()
                .any(|argument| argument == "--help" || argument == "-h")
        {
            let paths: Vec<PathBuf> = arguments[1..].iter().map(PathBuf::from).collect();
            return merged(&paths);
        }
        let mut rest = Vec::new();
        let mut shard = None;
        let mut all = arguments.into_iter();
        while let Some(argument) = all.next() {
            let value = match argument.strip_prefix("--shard") {
                Some("") => all.next().unwrap_or_default(),
                Some(value) if value.starts_with('=') => value[1..].to_owned(),
                _ => {
                    rest.push(argument);
                    continue;
                }
            };
            shard = Some(value.parse().map_err(|()| ShardError::Value { value })?);
        }
        let Some(shard) = shard else {
            return Ok((Self::All, rest));
        };
        let command = rest.first().cloned().unwrap_or_default();
        if !known.contains(&&*command) {
            let known = known.join(", ");
            return Err(ShardError::Command { command, known });
        }
        Ok((Self::Shard(shard, rest.clone()), rest))
    }

    /// Runs the jobs that run here. Results are equal to those of the whole computation if each depends on its job alone.
    pub fn run<J, T, E>(
        &self,
        jobs: &[J],
        run: impl FnOnce(&[&J]) -> Result<Vec<T>, E>,
    ) -> Result<Ran<Vec<T>>, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<ShardError>,
    {
        match self {
            Self::All => Ok(Ran::Whole(run(&jobs.iter().collect::<Vec<_>>())?)),
            Self::Shard(shard, arguments) => {
                let mine = jobs.iter().skip(shard.number - 1).step_by(shard.count);
                let results = run(&mine.collect::<Vec<_>>())?;
                let results: Result<Vec<_>, _> = results.iter().map(serde_json::to_value).collect();
                let part = Part {
                    version: 1,
                    arguments: arguments.clone(),
                    build: build(),
                    shard: [shard.number, shard.count],
                    jobs: jobs.len(),
                    results: results.map_err(|why| ShardError::Result { why })?,
                };
                let text =
                    serde_json::to_string(&part).map_err(|why| ShardError::Result { why })?;
                Ok(Ran::Part(text + "\n"))
            }
            Self::Merged(results) => {
                let (found, expected) = (results.len(), jobs.len());
                if found != expected {
                    return Err(ShardError::Jobs { found, expected }.into());
                }
                let results = results.iter().map(T::deserialize).collect::<Result<_, _>>();
                Ok(Ran::Whole(
                    results.map_err(|why| ShardError::Result { why })?,
                ))
            }
        }
    }
}

/// Hash of this program, which tells builds apart.
fn build() -> u64 {
    let mut hasher = DefaultHasher::new();
    let program = std::env::current_exe().and_then(fs::read);
    hasher.write(&program.unwrap_or_default());
    hasher.finish()
}

fn read(path: &Path) -> Result<Part, ShardError> {
    let text = fs::read(path).map_err(|source| ShardError::Io {
        path: path.to_owned(),
        source,
    })?;
    let defect = |why: String| ShardError::Defect {
        path: path.to_owned(),
        why,
    };
    let part: Part = serde_json::from_slice(&text).map_err(|why| defect(why.to_string()))?;
    let [number, count] = part.shard;
    if part.version != 1 || !(1..=count).contains(&number) {
        return Err(defect("another version, or no such shard".to_owned()));
    }
    let expected = (number - 1..part.jobs).step_by(count).count();
    match part.results.len() == expected {
        true => Ok(part),
        false => Err(defect(format!(
            "{} results, expected {expected}",
            part.results.len()
        ))),
    }
}

/// The results of all parts in the order of the jobs, and the arguments of the whole computation.
fn merged(paths: &[PathBuf]) -> Result<(Jobs, Vec<String>), ShardError> {
    let first_path = paths.first().ok_or(ShardError::NoParts)?;
    let first = read(first_path)?;
    let [_, count] = first.shard;
    let mut places: Vec<Option<(&Path, Part)>> = (0..count).map(|_| None).collect();
    for path in paths {
        let part = read(path)?;
        let differs = |what| ShardError::Differs {
            path: path.clone(),
            first: first_path.clone(),
            what,
        };
        if part.arguments != first.arguments {
            return Err(differs("its arguments differ"));
        }
        if part.build != first.build {
            return Err(differs("the program that made it differs"));
        }
        if (part.jobs, part.shard[1]) != (first.jobs, count) {
            return Err(differs("the number of its jobs or shards differs"));
        }
        let number = part.shard[0];
        if let Some((one, _)) = &places[number - 1] {
            return Err(ShardError::Twice {
                shard: Shard { number, count },
                one: (*one).to_owned(),
                other: path.clone(),
            });
        }
        places[number - 1] = Some((path, part));
    }
    let mut parts = Vec::new();
    for (at, place) in places.into_iter().enumerate() {
        let (_, part) = place.ok_or_else(|| ShardError::Missing {
            shard: Shard {
                number: at + 1,
                count,
            },
            command: first.arguments.join(" "),
        })?;
        parts.push(part.results.into_iter());
    }
    let results = (0..first.jobs).filter_map(|job| parts[job % count].next());
    Ok((Jobs::Merged(results.collect()), first.arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 1] = ["thirds"];

    fn arguments(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Thirds of 0 … 9, which JSON must keep to the last bit.
    fn thirds(jobs: &Jobs) -> Result<Ran<Vec<f64>>, ShardError> {
        let all: Vec<u32> = (0..10).collect();
        jobs.run(&all, |jobs| {
            Ok(jobs.iter().map(|&&job| f64::from(job) / 3.0).collect())
        })
    }

    fn parts(folder: &Path, count: usize) -> Vec<String> {
        let part = |number: usize| {
            let text = format!("thirds --of 10 --shard {number}/{count}");
            let (jobs, rest) = Jobs::take(arguments(&text), &KNOWN).expect("a shard");
            assert_eq!(rest, arguments("thirds --of 10"));
            let Ran::Part(part) = thirds(&jobs).expect("it runs") else {
                panic!("a part");
            };
            let path = folder.join(format!("part-{number}"));
            fs::write(&path, part).expect("written");
            path.display().to_string()
        };
        (1..=count).map(part).collect()
    }

    fn merge(paths: &[String]) -> Result<(Jobs, Vec<String>), ShardError> {
        Jobs::take([&["merge".to_owned()], paths].concat(), &KNOWN)
    }

    #[test]
    fn merged_parts_are_the_whole_to_the_last_bit() {
        let folder = tempfile::tempdir().expect("a folder");
        for count in [1, 3, 4, 12] {
            let (jobs, rest) = merge(&parts(folder.path(), count)).expect("all parts");
            assert_eq!(rest, arguments("thirds --of 10"));
            let (Ran::Whole(merged), Ran::Whole(whole)) = (
                thirds(&jobs).expect("merged"),
                thirds(&Jobs::All).expect("whole"),
            ) else {
                panic!("all results");
            };
            let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(merged), bits(whole));
        }
    }

    #[test]
    fn a_shard_that_failed_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut paths = parts(folder.path(), 3);
        let lost = paths.remove(1);
        let why = merge(&paths).expect_err("a part is missing").to_string();
        assert_eq!(
            why,
            "shard 2/3 is missing: `thirds --of 10 --shard 2/3` prints it"
        );
        fs::write(&lost, "").expect("cut off");
        paths.push(lost.clone());
        let why = merge(&paths).expect_err("a part is cut off").to_string();
        assert!(
            why.starts_with(&lost) && why.contains("run this shard again"),
            "{why}"
        );
        paths[2] = paths[0].clone();
        assert!(matches!(merge(&paths), Err(ShardError::Twice { .. })));
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for value in ["0/4", "5/4", "1", "a/b", "1/0"] {
            let all = arguments(&format!("thirds --shard={value}"));
            assert!(
                matches!(Jobs::take(all, &KNOWN), Err(ShardError::Value { .. })),
                "{value}"
            );
        }
        let other = Jobs::take(arguments("halves --shard 1/2"), &KNOWN);
        assert!(matches!(other, Err(ShardError::Command { .. })));
        assert!(matches!(merge(&[]), Err(ShardError::NoParts)));
    }
}
