//! What a row of the table is about.

use super::cases::Case;
use super::list::Scenario;
use crate::holder::Holder;
use crate::sensor::Sensor;

/// A holder on a board in a scenario.
#[derive(Clone, Copy, Debug)]
pub struct ScenarioTask<'a> {
    /// What happens.
    pub scenario: &'a Scenario,
    /// The board and its limits.
    pub case: &'a Case,
    /// The setting of the power sensor.
    pub sensor: &'a Sensor,
    /// Who holds the limit.
    pub holder: Holder,
}
