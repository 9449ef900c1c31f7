//! Where time and energy of a training go, after Characterizing (SIGMETRICS 2023).
//!
//! | question | module |
//! |---|---|
//! | Which four modes predict the time of an epoch, and the energy? | [`four_modes`] |
//! | Where do time and energy go, over which factors? | [`breakdown`](mod@breakdown), [`answer`], [`page`](mod@page) |
//! | How do time and power depend on modes and feedings together? | [`joint`] |
//! | What would make a training faster under a limit? | [`advice`] |
//! | What energy do irregular samples of the power make? | [`energy`] |

pub mod advice;
pub mod answer;
pub mod breakdown;
pub mod energy;
mod factor;
pub mod four_modes;
pub mod joint;
pub mod page;
