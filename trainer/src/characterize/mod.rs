//! Where time and energy of a training go, after Characterizing (SIGMETRICS 2023).
//!
//! | question | module |
//! |---|---|
//! | Which four modes predict the time of an epoch, and the energy? | [`four_modes`] |
//! | Where do time and energy go, over which factors? | [`breakdown`](mod@breakdown), [`page`](mod@page) |
//! | What energy do irregular samples of the power make? | [`energy`] |

pub mod breakdown;
pub mod energy;
pub mod four_modes;
pub mod page;
