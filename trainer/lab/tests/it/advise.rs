//! `advise` on random simulated workloads, and what it says where it knows little.

use crate::advised::Random;
use crate::common::{corpus, folder, run, write};

/// `cargo run --release -p wattgate-lab --example advice` does so with 100.
#[test]
fn advice_is_near_the_truth_and_no_loss() {
    let folder = folder();
    for seed in [1, 4] {
        let Ok(worth) = Random::drawn(seed).judge(folder.path()) else {
            continue;
        };
        assert!(worth.is_near(), "{seed}: {worth:?}");
        assert!(worth.gain >= 1.0, "{seed}: {worth:?}");
        assert!(worth.load <= 1.05, "{seed}: {worth:?}");
    }
}

#[test]
fn a_corpus_without_feedings_says_what_it_does_not_know() {
    let folder = folder();
    write(folder.path(), "plain.csv", corpus().join("\n"));
    let advice = run(folder.path(), "advise --corpus plain.csv --limit 2W");
    assert_eq!(advice.code, 0, "{}", advice.stderr);
    let expected = "
Not sure:
  how long steps wait for the loader: the corpus has no `fetch_ms`
  how many loader workers feed it: the corpus has no `workers`
  what another minibatch is worth: profile some modes with another size
";
    assert!(advice.stdout.ends_with(expected), "{}", advice.stdout);
    assert!(
        advice
            .stdout
            .starts_with("measured: job on board under 2 W\n\nNow: ")
    );
}

#[test]
fn too_little_is_refused() {
    let folder = folder();
    let path = folder.path();
    let rows = corpus();
    write(path, "plain.csv", rows.join("\n"));
    write(path, "few.csv", rows[..4].join("\n"));
    let refused = |arguments: &str| {
        let run = run(path, arguments);
        (run.code, run.stderr)
    };
    let (code, message) = refused("advise --corpus plain.csv --limit 100mW");
    assert_eq!(code, 4);
    assert!(
        message.starts_with(
            "error: plain.csv: no profiled mode of the feeding with the most modes is within 0.1 W; the least draws "
        ),
        "{message}"
    );
    let few = "error: few.csv: no feeding has 4 modes with a time and a power; profile more\n";
    assert_eq!(
        refused("advise --corpus few.csv --limit 2W"),
        (3, few.to_owned())
    );
}
