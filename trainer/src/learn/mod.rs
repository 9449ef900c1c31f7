//! Predicts the time and power of all modes from a few measured ones.
//!
//! | question | module |
//! |---|---|
//! | Which modes are profiled next, and which are held out? | [`plan`], [`split`] |
//! | Which modes stay within a limit while few are measured? | [`forecast`] |
//! | Which mean does physics suggest? | [`mean`] |
//! | What have other corpora taught of its coefficients? | [`priors`], [`families`] |
//! | How does a Gaussian process model the residuals? | [`gp`] |
//! | How are processes blended for one target? | [`mixture`], [`blend`] |
//! | How do these predict time and power? | [`teacher`] |
//! | What do references add? | [`around`], [`reference`](mod@reference) |
//! | How is a predictive distribution summarised? | [`expected`] |
//! | What is predicted for every mode, and how far is it off? | [`predictions`] |
//! | Which reading contradicts all others? | [`suspects`] |
//! | How far may a measurement exceed its prediction? | [`guard`] |
//! | How do units of a board differ? | [`fleet`] |

pub mod around;
pub mod blend;
pub mod expected;
pub mod families;
pub mod fleet;
pub mod forecast;
pub mod gp;
pub mod guard;
pub mod mean;
pub mod mixture;
pub mod plan;
pub mod predictions;
pub mod priors;
pub mod reference;
pub mod split;
pub mod standard;
pub mod suspects;
pub mod teacher;
