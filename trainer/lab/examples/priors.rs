//! Learns the shipped priors from all families of corpora and prints them: `tools/priors.sh`.

mod families;

use std::path::PathBuf;
use std::process::ExitCode;

use wattgate_trainer::fit::learn_priors as learn;

fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1);
    let folder = folder.map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let families = match families::all(&folder) {
        Ok(families) => families,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(5);
        }
    };
    let families: Vec<_> = families.into_iter().map(|(_, corpora)| corpora).collect();
    match learn(&families) {
        Ok(priors) => {
            print!("{}", priors.to_csv());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
