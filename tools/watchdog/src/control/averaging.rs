//! How many samples the power sensor averages: as few as noise allows.
//!
//! A time constant of 54 ms shows a step of the load sooner than L4T's 430 ms. The board's own warning
//! limits (`currN_max`) compare the same averages, and would act on shorter peaks. Where the lowest of
//! them is near the limit, the board keeps its averaging. The critical limits compare each conversion
//! (`jetson-platform.md`, section 6.3), whatever the averaging.

use wattgate_board::{AveragingError, Files};
use wattgate_runtime::Milliwatts;

use super::{Control, Event};

/// Samples to average: 54 ms. The bounds of `wattgate-judge` on both settings are met with 64 and
/// with 512 samples. Fewer than 64 show a step no sooner, because steps are 16 to 90 ms apart, and more
/// of the load's ripple.
const FEW: u32 = 64;

/// A warning limit at this part of the limit or above may compare means of 54 ms, in percent. At 5 %
/// below the limit, a jump to this power lifts the mean of 430 ms over the limit within
/// 430 ms · 5 / (5 + 35) = 54 ms, so whatever exceeds the warning must be answered as soon.
const FAR_PCT: u64 = 135;

impl<F: Files> Control<F> {
    /// Sets the averaging, also after another program (nvpower) changed it. Reports the first failure.
    pub(super) fn choose_averaging(&mut self, emit: &mut impl FnMut(Event<'_>)) {
        if self.sensor.has_failed {
            return;
        }
        let limit = u64::from(self.module_limit().0);
        let is_near = |warning: Milliwatts| u64::from(warning.0) * 100 < limit * FAR_PCT;
        if self.board.least_warning(&self.files).is_some_and(is_near) {
            self.restore_averaging();
            return;
        }
        if self.board.averaging(&self.files) == Ok(FEW) {
            return;
        }
        if let Err(error) = self.board.set_averaging(&mut self.files, FEW) {
            self.sensor.has_failed = true;
            match error {
                // Nothing is wrong.
                AveragingError::Unavailable { .. } | AveragingError::Fixed { .. } => {}
                error => emit(Event::NotAveraged(&error)),
            }
        }
    }

    /// Gives the sensor the averaging from before the first start, unless another program has changed it.
    pub(super) fn restore_averaging(&mut self) {
        let is_ours = self.board.averaging(&self.files) == Ok(FEW);
        if let Some(own) = self.own.as_ref().filter(|_| is_ours) {
            // A failure leaves less averaging, and `wattgated restore` tries again.
            let _ = self.board.restore_averaging(&mut self.files, own);
        }
    }
}
