//! Counts the steps in recorded output with `--steps-from`: `count_recorded PATTERN RECORD`
//!
//! A record is a sequence of pieces: a line with the time in seconds, the number of the output (1 or 2) and the number of
//! bytes, and then these bytes. Prints a line `SECONDS STEPS` whenever the count changes, and a line `note: …` for each
//! message to the user.

use std::env;
use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use wattgate_profiler::steps::lines::{Line, Lines};
use wattgate_profiler::steps::pattern::Pattern;
use wattgate_profiler::steps::tally::Tally;

fn main() -> Result<(), Box<dyn Error>> {
    let [pattern, record] = &env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("expected PATTERN RECORD".into());
    };
    let pattern = Pattern::new(pattern)?;
    let record = fs::read(record)?;
    let mut tally = Tally::new(pattern.choice());
    let mut lines = [Lines::default(), Lines::default()];
    let (start, mut shown) = (Instant::now(), 0);
    let mut rest = &record[..];
    let mut last = 0.0;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (head, after) = rest.split_at(end.ok_or("a piece without its head")?);
        let head: Vec<_> = str::from_utf8(head)?.split(' ').collect();
        let [seconds, output, length] = head[..] else {
            return Err(format!("expected `SECONDS OUTPUT BYTES`, found {head:?}").into());
        };
        let seconds: f64 = seconds.parse()?;
        let (bytes, after) = after[1..].split_at(length.parse()?);
        (rest, last) = (after, seconds);
        let lines = match output {
            "1" => &mut lines[0],
            "2" => &mut lines[1],
            _ => return Err(format!("there is no output {output}").into()),
        };
        lines.split(bytes, |line| {
            count(
                &pattern,
                &mut tally,
                line,
                start + Duration::from_secs_f64(seconds),
            )
        });
        show(&tally, seconds, &mut shown);
    }
    let end = start + Duration::from_secs_f64(last);
    for lines in &mut lines {
        lines.finish(|line| count(&pattern, &mut tally, line, end));
    }
    show(&tally, last, &mut shown);
    Ok(())
}

/// Counts a line, as the reader of a workload's output does.
fn count(pattern: &Pattern, tally: &mut Tally, line: Line<'_>, at: Instant) -> bool {
    let found = match pattern.find(&line) {
        Ok(Some(found)) => found,
        Ok(None) => return false,
        Err(problem) => {
            println!("note: {problem}");
            return true;
        }
    };
    if let Some(notice) = tally.take(&found, at, !line.is_redrawn) {
        println!("note: {notice}");
    }
    true
}

fn show(tally: &Tally, seconds: f64, shown: &mut u64) {
    let steps = tally.steps();
    if std::mem::replace(shown, steps) != steps {
        println!("{seconds:.6} {steps}");
    }
}
