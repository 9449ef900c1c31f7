//! What the measured corpus says of every mode: times and powers, their Pareto front, and the fastest mode within a limit.

use wattgate_trainer::read::{Corpus, Known, profiled};

use super::story::{Point, Truth};

/// The measured modes in ascending order of their ids. The page numbers them in this order.
pub struct Modes(Vec<Known>);

impl Modes {
    /// The modes of a measured corpus.
    pub fn new(measured: &Corpus) -> Self {
        Self(profiled(measured))
    }

    /// All of them.
    pub fn all(&self) -> &[Known] {
        &self.0
    }

    /// The number on the page of a mode id of the grid.
    pub fn number(&self, id: usize) -> Option<usize> {
        self.0.binary_search_by_key(&id, |mode| mode.id).ok()
    }

    /// A mode id as a point of the page.
    pub fn point(&self, id: usize) -> Option<Point> {
        let number = self.number(id)?;
        Some(Point::from_mode(number, &self.0[number]))
    }

    fn points(&self) -> impl Iterator<Item = Point> {
        let numbered = self.0.iter().enumerate();
        numbered.map(|(number, mode)| Point::from_mode(number, mode))
    }

    /// Measured time and power of all modes.
    pub fn truth(&self) -> Truth {
        let knobs = |mode: &Known| {
            let [cores, clocks @ ..] = mode.knobs.map(f64::from);
            let [cpu, gpu, emc] = clocks.map(|khz| khz / 1e3);
            [cores, cpu, gpu, emc]
        };
        Truth {
            knobs: self.0.iter().map(knobs).collect(),
            time_s: self.points().map(|point| point.time_s).collect(),
            power_w: self.points().map(|point| point.power_w).collect(),
        }
    }

    /// The numbers of the modes on the Pareto front, in ascending order of power.
    pub fn front(&self) -> Vec<usize> {
        let mut points: Vec<Point> = self.points().collect();
        points.sort_by(|a, b| {
            a.power_w
                .total_cmp(&b.power_w)
                .then(a.time_s.total_cmp(&b.time_s))
        });
        let mut best = f64::INFINITY;
        points.retain(|point| {
            let faster = point.time_s < best;
            best = best.min(point.time_s);
            faster
        });
        points.into_iter().map(|point| point.mode).collect()
    }

    /// The fastest mode whose power is within a limit in W.
    pub fn fastest(&self, limit_w: f64) -> Option<Point> {
        let within = |mode: &&Known| mode.power_mw.is_some_and(|mw| mw <= 1e3 * limit_w);
        let modes = self.0.iter().filter(within);
        let fastest = modes.min_by(|a, b| a.time_us.total_cmp(&b.time_us))?;
        self.point(fastest.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::record;

    /// The grid has modes that nobody measured, so ids are not the page's numbers.
    #[test]
    fn numbers_of_the_page_lead_to_the_measured_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let recorded = record(folder.path(), 1).expect("the shipped corpus");
        let modes = Modes::new(&recorded.measured);
        let truth = modes.truth();
        assert_eq!(truth.knobs.len(), 736);
        let best = modes.fastest(5.25).expect("a mode");
        assert_eq!((best.time_s, best.power_w), (11.949, 5.216));
        assert_eq!(truth.knobs[best.mode], [4.0, 1326.0, 691.2, 1065.6]);
        assert_eq!(
            (truth.time_s[best.mode], truth.power_w[best.mode]),
            (11.949, 5.216)
        );
        assert!(modes.front().contains(&best.mode));
        assert!(modes.fastest(0.5).is_none());
        // The profiler reads with noise, in the same modes.
        let noisy = Modes::new(&recorded.profiled);
        let ids = |modes: &Modes| modes.all().iter().map(|mode| mode.id).collect::<Vec<_>>();
        assert_eq!(ids(&noisy), ids(&modes));
        assert_ne!(noisy.truth().power_w, truth.power_w);
    }
}
