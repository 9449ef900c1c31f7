//! Scenarios: holders on a simulated board while limits step, faults occur and holders restart.
//!
//! Modules from the bottom to the top:
//!
//! | question | module |
//! |---|---|
//! | on which boards, with which limits | `cases`: [`Case`], [`CASES`] |
//! | what happens, and when | `list`: [`Scenario`], [`SCENARIOS`] |
//! | what a row of the table is about | `task`: [`ScenarioTask`] |
//! | the board under a scenario | `plant` |
//! | what a holder leaves behind | `outcome` |
//! | the daemon's control with its unit, in simulated time | `daemon` |
//! | how long the power was over the limit | `account` |
//! | how fast the board could have been | `oracle` |
//! | the figures of one run | `report`: [`ScenarioReport`] |
//! | one run in simulated time | `run` |
//! | the table over seeds | `table`: [`ScenarioRow`], [`rows`] |
//! | the daemon as a process, in real time | [`live`] |

mod account;
mod cases;
mod daemon;
mod list;
pub mod live;
mod oracle;
mod outcome;
mod plant;
mod report;
mod run;
mod table;
mod task;

pub use account::LONGEST_OVER;
pub use cases::{CASES, Case};
pub use list::{LATER_CLOCKS, MAXN_EVERY_30_S, READS_FAIL, SCENARIOS, Scenario};
pub use report::ScenarioReport;
pub use table::{ScenarioRow, rows};
pub use task::ScenarioTask;
