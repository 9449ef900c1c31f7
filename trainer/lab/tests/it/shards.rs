//! Comparisons in shards.

use std::fs;

use crate::common::{run, with_corpora};
use serde_json::Value;

/// The results without the seconds that a training took, which no two runs share.
fn without_seconds(mut json: Value) -> Value {
    for rows in ["results", "runs", "cells"] {
        if let Some(rows) = json.get_mut(rows).and_then(Value::as_array_mut) {
            rows.iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(|row| {
                    row.remove("seconds");
                });
        }
    }
    json
}

#[test]
fn merged_comparisons_are_the_whole() {
    let folder = with_corpora();
    let folder = folder.path();
    for command in [
        "evaluate corpus.csv --modes 12,20 --runs 3 --methods linear,gbt --json",
        "matrix corpus.csv other.csv --method linear --modes 12 --runs 2 --json",
    ] {
        let whole = run(folder, command).json();
        for number in 1..=2 {
            let part = run(folder, &format!("{command} --shard={number}/2"));
            assert_eq!(part.code, 0, "{}", part.stderr);
            fs::write(folder.join(format!("part-{number}")), part.stdout).expect("written");
        }
        let merged = run(folder, "merge part-2 part-1").json();
        assert_eq!(without_seconds(merged), without_seconds(whole), "{command}");
        let lost = run(folder, "merge part-2");
        assert_eq!(lost.code, 3);
        assert!(
            lost.stderr.contains("shard 1/2 is missing"),
            "{}",
            lost.stderr
        );
    }
}

#[test]
fn what_cannot_run_in_shards_says_so() {
    let folder = with_corpora();
    for (command, expected) in [
        (
            "optimize corpus.csv --shard 1/2",
            "`optimize` takes no --shard; evaluate, matrix, figures do",
        ),
        (
            "evaluate corpus.csv --plots p --shard 1/2",
            "leave one of --plots and --shard out",
        ),
        (
            "evaluate corpus.csv --shard 3/2",
            "--shard is `3/2`, expected the number of a shard and that of all shards",
        ),
    ] {
        let refused = run(folder.path(), command);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
}
