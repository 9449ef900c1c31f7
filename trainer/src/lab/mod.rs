//! How well methods do, on modes that they were not trained on.
//!
//! | question | module |
//! |---|---|
//! | errors of predictions | [`evaluate`] |
//! | what is chosen under power limits | [`optimize`] |
//! | transfers from each corpus to each other | [`matrix`] |
//! | the figures as pictures | [`plots`] |

pub mod evaluate;
pub mod matrix;
pub mod optimize;
pub mod plots;
