//! `optimize`: compares methods by their choices under power limits.

use clap::Args;
use thiserror::Error;
use wattgate_cli::quantity;
use wattgate_cli::quantity::{QuantityError, power};
use wattgate_cli::shard::Ran;
use wattgate_runtime::{Confidence, Milliwatts};

use super::evaluate::Compared;
use super::{Failure, values};
use crate::compare::optimize::{Choosing, Limits, Optimization, optimize};
use crate::compare::plots;

const EXAMPLE: &str = "\
Examples:
  wattgate-lab optimize tx1.csv --modes 50 --confidence 0.95
  wattgate-lab optimize tx1.csv --modes 15 --sampling planned --tries 3
  wattgate-lab optimize orin.csv --limits 17W:50W:1W --methods wattgate,random,presets,maxn

Under every limit each method chooses the mode that it predicts to be the fastest within the
limit, and is scored by the measurement of that mode. The optimum is the fastest mode whose
measured power is within the limit. Only measured modes are candidates. With --tries the
measurements under a limit count as well: a limit is exceeded if the choice or a try exceeds it.

With --json: {\"version\": 1, \"kind\", \"corpus\", \"reference\", \"limits_mw\", \"results\": [{\"method\", \"modes\",
\"sampling\", \"confidence\", \"tries\", \"runs\", \"time_penalty_pct\", \"area_w\", \"over_pct\",
\"over_2pct_pct\", \"over_1w_pct\", \"unserved_pct\", \"time_penalty_quartiles\", \"solutions\":
[{\"limit_mw\", \"best_time_ms\", \"mode\", \"time_ms\", \"power_mw\", \"tries\", \"highest_mw\"}]}]};
medians over runs; the solutions are those of the first run; confidence is null for a method without a
guard band.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(flatten)]
    compared: Compared,
    /// Power limits LO:HI:STEP with units, or auto: 34 from the 5 % to the 95 % quantile of the measured power
    #[arg(long, value_name = "LIMITS", value_parser = limits, default_value = "auto")]
    limits: Limits,
    /// Confidence of the guard band, as a probability
    #[arg(long, value_name = "P", value_parser = quantity::confidence, default_value = "0.95")]
    confidence: Confidence,
    /// Number of modes that may be measured under each limit before the choice
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = values::whole::<u16>(1, 100))]
    tries: u16,
}

/// Why `--limits` is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LimitsError {
    /// Not three powers LO:HI:STEP with LO ≤ HI.
    #[error(
        "`{text}` is not a range of limits: write LO:HI:STEP with LO ≤ HI, such as 3W:9W:500mW, or auto"
    )]
    NotLimits { text: String },
    /// One of the three is not a power.
    #[error("{0}")]
    Limit(#[from] QuantityError),
}

/// Parses power limits `LO:HI:STEP`, each with a unit, or `auto`.
fn limits(text: &str) -> Result<Limits, LimitsError> {
    if text.trim() == "auto" {
        return Ok(Limits::Automatic);
    }
    let powers: Result<Vec<Milliwatts>, QuantityError> = text.split(':').map(power).collect();
    match powers?[..] {
        [low, high, step] if low <= high => Ok(Limits::Range(
            [low, high, step].map(|power| f64::from(power.0)),
        )),
        _ => Err(LimitsError::NotLimits {
            text: text.to_owned(),
        }),
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let choosing = Choosing {
        limits: arguments.limits,
        confidence: arguments.confidence,
        tries: usize::from(arguments.tries),
    };
    arguments.compared.compare(
        |comparison, progress| optimize(comparison, &choosing, progress).map(Ran::Whole),
        plots::of_optimization,
        text,
    )
}

fn text(optimization: &Optimization) -> String {
    let mut text = format!(
        "{} ({}), {} power limits\n",
        optimization.subject.corpus,
        optimization.subject.kind,
        optimization.limits_mw.len()
    );
    text += &format!(
        "{:<26}{:>6} {:<9}{:>7}{:>6}{:>10}{:>9}{:>9}{:>9}{:>9}{:>10}\n",
        "method",
        "modes",
        "sampling",
        "conf.",
        "tries",
        "penalty",
        "area",
        "over",
        "> 2 %",
        "> 1 W",
        "unserved"
    );
    for row in &optimization.results {
        let confidence = row.confidence.map_or("-".to_owned(), |c| format!("{c}"));
        text += &format!(
            "{:<26}{:>6} {:<9}{:>7}{:>6}{:>8.2} %{:>7.3} W{:>7.1} %{:>7.1} %{:>7.1} %{:>8.1} %\n",
            row.method,
            row.modes,
            row.sampling,
            confidence,
            row.tries,
            row.time_penalty_pct,
            row.area_w,
            row.over_pct,
            row.over_2pct_pct,
            row.over_1w_pct,
            row.unserved_pct
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        assert_eq!(limits("auto"), Ok(Limits::Automatic));
        let range = Limits::Range([3_000.0, 9_000.0, 500.0]);
        assert_eq!(limits("3W:9W:500mW"), Ok(range));
        for text in ["9W:3W:1W", "3W:9W", "3:9:1", "3W:9W:0W", "3W:9W:1W:1W"] {
            assert!(limits(text).is_err(), "{text}");
        }
    }
}
