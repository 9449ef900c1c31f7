//! Integration tests of the profiler.

#[path = "../../../board/tests/it/bed.rs"]
mod bed;
#[path = "../../../board/tests/it/common.rs"]
mod board;
#[path = "../../../cli/tests/shared/every_program.rs"]
mod every_program;
#[path = "../../../cli/tests/it/transcript.rs"]
mod transcript;

mod command_line;
mod corpus;
mod faults;
mod faults_of_daemon;
mod living;
mod man;
mod messages;
mod names;
mod obedience;
mod observe;
mod operation;
mod pattern;
mod planner;
mod probe;
mod process;
mod references;
mod session;
mod socket;
mod window;
