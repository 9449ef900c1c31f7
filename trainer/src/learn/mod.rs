//! Time and power of all modes from those of a few.
//!
//! | question | module |
//! |---|---|
//! | which modes are profiled next, and which are held out | [`plan`], [`split`] |
//! | what physics says of the shape | [`mean`] |
//! | a Gaussian process around that mean | [`gp`] |
//! | both, for time and power, with what is known of another workload | [`teacher`], [`reference`] |
//! | predictions, and their errors | [`predictions`] |
//! | how far the truth may lie above | [`guard`] |

pub mod gp;
pub mod guard;
pub mod mean;
pub mod plan;
pub mod predictions;
pub mod reference;
pub mod split;
pub mod standard;
pub mod teacher;
