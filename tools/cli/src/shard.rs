//! Long computations in shards: `--shard I/N` runs every N-th job from the I-th on and prints a *part*; `merge` reads the
//! parts of all shards and prints what the whole computation prints, to the last bit.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::exit;

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
    #[error(
        "--shard is `{value}`, expected the number of a shard and that of all shards, such as 2/4"
    )]
    Value { value: String },
    #[error("--shard is given twice; name one shard")]
    Given,
    #[error("`{command}` takes no --shard; {known} do")]
    Command { command: String, known: String },
    #[error("missing PART; name the file of each shard")]
    NoParts,
    #[error("{}: cannot read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{}: not what a shard prints, or cut off: {why}; run this shard again", path.display()
    )]
    Defect { path: PathBuf, why: String },
    #[error("{}: {what} than {}; merge the parts of one computation", path.display(), first.display())]
    Differs {
        path: PathBuf,
        first: PathBuf,
        what: &'static str,
    },
    #[error("shard {shard} is missing: `{command} --shard {shard}` prints it")]
    Missing { shard: Shard, command: String },
    #[error("shard {shard} is in {} and {}; name one of them", one.display(), other.display())]
    Twice {
        shard: Shard,
        one: PathBuf,
        other: PathBuf,
    },
    #[error(
        "the parts have {found} jobs, the computation has {expected}: an input has changed; run all shards again"
    )]
    Jobs { found: usize, expected: usize },
    #[error("a result cannot be written to a part and read again: {why}")]
    Result { why: serde_json::Error },
}

impl ShardError {
    /// The exit code of a program that fails by it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Value { .. } | Self::Given | Self::Command { .. } | Self::NoParts => {
                exit::ARGUMENTS
            }
            Self::Io { .. } => exit::OTHER,
            _ => exit::INPUT,
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
    /// Takes `--shard` out of a program's arguments, or reads the parts that `merge` names. Also returns the arguments of the
    /// whole computation. `known` are the commands that run in shards.
    pub fn take(
        arguments: Vec<OsString>,
        known: &[&str],
    ) -> Result<(Self, Vec<OsString>), ShardError> {
        // Such as --help.
        let has_option = || {
            arguments
                .iter()
                .any(|it| it.as_encoded_bytes().starts_with(b"-"))
        };
        if arguments.first().is_some_and(|first| first == "merge") && !has_option() {
            let paths: Vec<PathBuf> = arguments[1..].iter().map(PathBuf::from).collect();
            let (jobs, arguments) = merged(&paths)?;
            return Ok((jobs, arguments.into_iter().map(OsString::from).collect()));
        }
        let mut rest = Vec::new();
        let mut shard = None;
        let mut all = arguments.into_iter();
        while let Some(argument) = all.next() {
            let text = argument.to_string_lossy();
            let value = match text.strip_prefix("--shard") {
                Some("") => {
                    let next = all.next().unwrap_or_default();
                    next.to_string_lossy().into_owned()
                }
                Some(value) if value.starts_with('=') => value.replacen('=', "", 1),
                _ => {
                    rest.push(argument);
                    continue;
                }
            };
            if shard.is_some() {
                return Err(ShardError::Given);
            }
            shard = Some(value.parse().map_err(|()| ShardError::Value { value })?);
        }
        let Some(shard) = shard else {
            return Ok((Self::All, rest));
        };
        let texts = rest.iter().map(|it| it.to_string_lossy().into_owned());
        let texts: Vec<String> = texts.collect();
        let command = texts.first().cloned().unwrap_or_default();
        if !known.contains(&&*command) {
            let known = known.join(", ");
            return Err(ShardError::Command { command, known });
        }
        Ok((Self::Shard(shard, texts), rest))
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
                // JSON has no infinite number. What it cannot hold is named here, not after hours in `merge`.
                let written = results.iter().map(|result| {
                    let json = serde_json::to_value(result)?;
                    T::deserialize(&json).map(|_| json)
                });
                let results: Result<Vec<_>, serde_json::Error> = written.collect();
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
    let mut places: BTreeMap<usize, (&Path, Part)> = BTreeMap::new();
    for path in paths {
        let part = read(path)?;
        let differs = |what| ShardError::Differs {
            path: path.clone(),
            first: first_path.clone(),
            what,
        };
        if part.arguments != first.arguments {
            return Err(differs("made with other arguments"));
        }
        if part.build != first.build {
            return Err(differs("made by another program"));
        }
        if (part.jobs, part.shard[1]) != (first.jobs, count) {
            return Err(differs("of another number of jobs or shards"));
        }
        let number = part.shard[0];
        if let Some((one, _)) = places.insert(number, (path, part)) {
            return Err(ShardError::Twice {
                shard: Shard { number, count },
                one: one.to_owned(),
                other: path.clone(),
            });
        }
    }
    if let Some(number) = (1..=count).find(|number| !places.contains_key(number)) {
        return Err(ShardError::Missing {
            shard: Shard { number, count },
            command: first.arguments.join(" "),
        });
    }
    let parts = places.into_values();
    let mut parts: Vec<_> = parts.map(|(_, part)| part.results.into_iter()).collect();
    let results = (0..first.jobs).filter_map(|job| parts[job % count].next());
    Ok((Jobs::Merged(results.collect()), first.arguments))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    const KNOWN: [&str; 1] = ["thirds"];

    fn arguments(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
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

    fn merge(paths: &[String]) -> Result<(Jobs, Vec<OsString>), ShardError> {
        let paths = paths.iter().map(OsString::from);
        Jobs::take(
            std::iter::once("merge".into()).chain(paths).collect(),
            &KNOWN,
        )
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
    fn a_result_that_json_cannot_hold_is_named_by_its_shard() {
        let (jobs, _) = Jobs::take(arguments("thirds --shard 1/2"), &KNOWN).expect("a shard");
        let ran: Result<Ran<Vec<f64>>, ShardError> =
            jobs.run(&[1, 2], |jobs| Ok(vec![f64::NAN; jobs.len()]));
        assert!(matches!(ran, Err(ShardError::Result { .. })));
    }

    #[test]
    fn a_part_of_very_many_shards_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("part");
        let count = usize::MAX;
        let text = format!(
            r#"{{"version":1,"arguments":[],"build":0,"shard":[2,{count}],"jobs":1,"results":[]}}"#
        );
        fs::write(&path, text).expect("written");
        let why = merge(&[path.display().to_string()]).expect_err("one of many");
        assert!(matches!(why, ShardError::Missing { .. }), "{why}");
    }

    /// Paths on Linux need not be UTF-8.
    #[test]
    fn an_argument_that_is_no_text_is_passed_on() {
        let path = OsString::from_vec(b"a\xff".to_vec());
        let all = vec![OsString::from("thirds"), path];
        let (jobs, rest) = Jobs::take(all.clone(), &KNOWN).expect("no shard");
        assert!(matches!(jobs, Jobs::All));
        assert_eq!(rest, all);
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
        let twice = Jobs::take(arguments("thirds --shard 1/2 --shard=2/2"), &KNOWN);
        assert!(matches!(twice, Err(ShardError::Given)));
        let other = Jobs::take(arguments("halves --shard 1/2"), &KNOWN);
        assert!(matches!(other, Err(ShardError::Command { .. })));
        assert!(matches!(merge(&[]), Err(ShardError::NoParts)));
    }
}
