//! A load: activity as a step function of time.

use std::time::Duration;

/// The highest activity that a load can have.
pub const MOST_ACTIVITY: f64 = 4.0;

/// The workload makes progress above this activity.
pub const WORKING: f64 = 0.05;

/// A step of a load: the activity from a time onwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Start of the step, since the start of the load.
    pub from: Duration,
    /// Activity, 0 … [`MOST_ACTIVITY`].
    pub activity: f64,
    /// GPU load that the driver's file shows, 0 … 1.
    pub gpu_load: f64,
}

impl Step {
    /// Creates a step whose GPU load is its activity, at most 1.
    pub fn new(from: Duration, activity: f64) -> Self {
        Self {
            from,
            activity,
            gpu_load: activity.min(1.0),
        }
    }
}

/// Activity over time, constant from each step to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    steps: Vec<Step>,
    length: Duration,
}

impl Load {
    /// Creates a load from steps in the order of time, the first at zero.
    ///
    /// # Panics
    ///
    /// If the first step is not at zero, if the times do not ascend, or if the load does not end
    /// after its last step.
    pub fn new(steps: Vec<Step>, length: Duration) -> Self {
        let times = || steps.iter().map(|step| step.from);
        assert_eq!(times().next(), Some(Duration::ZERO), "the first step");
        let ends = times().skip(1).chain([length]);
        assert!(times().zip(ends).all(|(from, to)| from < to), "times rise");
        Self { steps, length }
    }

    /// Duration of the load.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// All steps in the order of time.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The intervals of constant activity between two times: duration in s and activity of each.
    pub fn between(&self, from: Duration, to: Duration) -> impl Iterator<Item = (f64, f64)> + '_ {
        let to = to.min(self.length);
        let first = self.steps.partition_point(|step| step.from <= from);
        let first = first.saturating_sub(1);
        let ends = self.steps[first..].iter().skip(1).map(|step| step.from);
        let steps = self.steps[first..].iter().zip(ends.chain([self.length]));
        let steps = steps.take_while(move |(step, _)| step.from < to);
        steps.filter_map(move |(step, end)| {
            let (begin, end) = (step.from.max(from), end.min(to));
            (begin < end).then(|| ((end - begin).as_secs_f64(), step.activity))
        })
    }

    /// The mean activity.
    pub fn mean(&self) -> f64 {
        let all = self.between(Duration::ZERO, self.length);
        let sum: f64 = all.map(|(seconds, activity)| seconds * activity).sum();
        sum / self.length.as_secs_f64()
    }

    /// The share of the time in which the workload makes progress.
    pub fn duty(&self) -> f64 {
        let all = self.between(Duration::ZERO, self.length);
        let working = all.filter(|(_, activity)| *activity > WORKING);
        let sum: f64 = working.map(|(seconds, _)| seconds).sum();
        sum / self.length.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn load() -> Load {
        let step = |from, activity| Step::new(ms(from), activity);
        let steps = vec![step(0, 1.0), step(500, 0.0), step(1500, 2.0)];
        Load::new(steps, ms(2000))
    }

    #[test]
    fn stretches_are_cut_at_both_ends() {
        let stretches = |from, to| load().between(ms(from), ms(to)).collect::<Vec<_>>();
        assert_eq!(stretches(0, 2000), [(0.5, 1.0), (1.0, 0.0), (0.5, 2.0)]);
        assert_eq!(stretches(250, 750), [(0.25, 1.0), (0.25, 0.0)]);
        assert_eq!(stretches(500, 1500), [(1.0, 0.0)]);
        assert_eq!(stretches(1750, 9000), [(0.25, 2.0)]);
        assert_eq!(stretches(2000, 3000), []);
    }

    #[test]
    fn mean_and_duty_weigh_by_time() {
        assert_eq!((load().mean(), load().duty()), (0.75, 0.5));
    }

    #[test]
    #[should_panic(expected = "times rise")]
    fn a_load_that_ends_at_its_last_step_is_none() {
        Load::new(vec![Step::new(ms(0), 1.0)], ms(0));
    }
}
