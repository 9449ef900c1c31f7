//! What control knows and has told of knobs that do not obey.

use wattgate_board::Disobedience;
use wattgate_runtime::Milliseconds;

use super::event::Event;

/// A knob is reported at most once in this time, however often it obeys in between.
const KNOB_REPORT_INTERVAL: Milliseconds = Milliseconds(600_000);

/// What is known of knobs that do not obey.
#[derive(Debug, Default)]
pub(super) struct Obedience {
    /// The board's count of changes when the front was last chosen, and that time.
    pub changes: u32,
    pub adapted: Option<Milliseconds>,
    /// When the knobs were last tested.
    pub tested: Milliseconds,
    pub reported: Reported,
    /// How often a mode could not be set.
    pub failed_changes: u32,
}

/// A knob that was reported.
#[derive(Debug)]
struct Entry {
    knob: Disobedience,
    at: Milliseconds,
    /// Whether it was last reported as not obeying.
    is_open: bool,
}

/// The knobs that were reported, so that each is reported once.
#[derive(Debug, Default)]
pub(super) struct Reported(Vec<Entry>);

impl Reported {
    /// Reports what is new among the knobs that do not obey, and which obey again.
    pub(super) fn update<'a>(
        &mut self,
        disobedient: impl Iterator<Item = &'a Disobedience> + Clone,
        now: Milliseconds,
        emit: &mut impl FnMut(Event<'_>),
    ) {
        for knob in disobedient.clone() {
            match self.0.iter_mut().find(|it| it.knob.path == knob.path) {
                Some(known) if known.is_open || now.since(known.at) < KNOB_REPORT_INTERVAL => {}
                Some(known) => {
                    emit(Event::Disobeys(knob));
                    (known.knob, known.at, known.is_open) = (knob.clone(), now, true);
                }
                None => {
                    emit(Event::Disobeys(knob));
                    self.0.push(Entry {
                        knob: knob.clone(),
                        at: now,
                        is_open: true,
                    });
                }
            }
        }
        for known in self.0.iter_mut().filter(|it| it.is_open) {
            if !disobedient.clone().any(|knob| knob.path == known.knob.path) {
                emit(Event::Obeys(&known.knob.path));
                (known.at, known.is_open) = (now, false);
            }
        }
    }
}
