//! The laboratory: how well time and power are predicted, by the trainer and by others.
//!
//! | question | module |
//! |---|---|
//! | Which methods are compared? | [`methods`] |
//! | How well does each method do? | [`compare`] |
//! | How are the kernels of networks predicted? | [`kernels`] |
//! | How is a network predicted that nobody profiled? | [`networks`] |
//! | Where do time and energy of a training go? | [`characterize`] |
//! | What do the project's texts say it reaches? | [`figures`] |
#![forbid(unsafe_code)]

pub mod characterize;
pub mod cli;
pub mod compare;
pub mod figures;
pub mod kernels;
pub mod methods;
pub mod networks;
mod palette;
