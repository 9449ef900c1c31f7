//! Whether rows follow the clocks. A sweep whose modes were never set has rows that are all alike: a program
//! that sets modes may have failed without a word, as nvpmodel does where a mode needs a reboot.

use std::fmt;

use super::{Corpus, Profile};

/// Modes, and ratio of the highest to the lowest product of clocks and cores, from which rows can be judged.
const LEAST_JUDGED_ROWS: usize = 8;
const LEAST_SPAN: f64 = 8.0;

/// Fewest modes whose powers are alike by a failure, and the ratio of the highest to the lowest power of such modes.
/// Two runs of one mode differ by 0.7 to 1.5 %. Times may be alike: a camera may set them.
const LEAST_ALIKE: usize = 5;
const ALIKE: f64 = 1.01;

/// Rows follow the clocks if ln power correlates with ln of that product by at least this, or ln time
/// negatively. Measured corpora have 0.64 and more, rows that are all alike 0 ± 0.2.
const LEAST_CORRELATION: f64 = 0.3;

/// Why the rows of a corpus do not follow its clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flat {
    modes: usize,
    span: f64,
    /// Correlations of power and time with clocks and cores.
    power: Option<f64>,
    time: Option<f64>,
}

impl fmt::Display for Flat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { modes, span, .. } = self;
        write!(
            f,
            "time and power do not follow clocks and cores, whose product differs by a factor of {span:.0} over \
             {modes} modes ("
        )?;
        let known = [("power", self.power), ("time", self.time)];
        let known = known.into_iter().filter_map(|(name, it)| Some((name, it?)));
        for (at, (name, correlation)) in known.enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}correlation of the {name} {correlation:.2}")?;
        }
        write!(f, "): were the modes set while the workload ran?")
    }
}

/// Why rows cannot be learned from, if so.
pub fn flat(corpus: &Corpus) -> Option<Flat> {
    let product = |mode: &Profile| mode.knobs.map(f64::from).iter().product::<f64>().ln();
    let correlation = |median: fn(&Profile) -> Option<f64>| {
        let known = corpus.modes.iter();
        let known = known.filter_map(|mode| Some([product(mode), median(mode)?.ln()]));
        let points: Vec<[f64; 2]> = known.collect();
        (points.len() >= LEAST_JUDGED_ROWS).then(|| pearson(&points))
    };
    let powers: Vec<f64> = corpus.modes.iter().filter_map(Profile::power).collect();
    let [lowest, highest] =
        [f64::min, f64::max].map(|extreme| powers.iter().copied().reduce(extreme));
    let is_alike = lowest
        .zip(highest)
        .is_some_and(|(lowest, highest)| highest < ALIKE * lowest)
        && powers.len() >= LEAST_ALIKE;
    let (power, time) = (correlation(Profile::power), correlation(Profile::time));
    let profiled = |mode: &&Profile| mode.power().or(mode.time()).is_some();
    let products = corpus.modes.iter().filter(profiled).map(product);
    let (least, most) = products
        .clone()
        .fold((f64::MAX, f64::MIN), |(least, most), it| {
            (least.min(it), most.max(it))
        });
    let span = (most - least).exp();
    let power = match is_alike {
        true => Some(0.0),
        false => power,
    };
    let follows = !is_alike
        && (power.is_some_and(|it| it >= LEAST_CORRELATION)
            || time.is_some_and(|it| it <= -LEAST_CORRELATION));
    let is_known = power.or(time).is_some() && span >= LEAST_SPAN;
    (is_known && !follows).then_some(Flat {
        modes: products.count(),
        span,
        power,
        time,
    })
}

/// Pearson's correlation; 0 for a column without variance.
fn pearson(points: &[[f64; 2]]) -> f64 {
    let count = points.len() as f64;
    let mean = |at: usize| points.iter().map(|it| it[at]).sum::<f64>() / count;
    let means = [mean(0), mean(1)];
    let sum = |a: usize, b: usize| {
        let product = |it: &[f64; 2]| (it[a] - means[a]) * (it[b] - means[b]);
        points.iter().map(product).sum::<f64>()
    };
    let spread = (sum(0, 0) * sum(1, 1)).sqrt();
    if spread > 0.0 {
        sum(0, 1) / spread
    } else {
        0.0
    }
}
