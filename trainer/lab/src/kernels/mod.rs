//! Kernels: time and power of the building blocks of networks, learned on several units of a board
//! (MIRAGE, Abdelhafez et al., SEC 2021), so that networks can be predicted that nobody profiled.
//!
//! | question | module |
//! |---|---|
//! | What was measured? | [`corpus`] |
//! | What does a call ask of the board? | [`demand`] |
//! | What is a row to a model? | [`features`] |
//! | What does physics say first? | [`roofline`] |
//! | How is the rest learned? | [`trees`], [`corrected`], [`learner`] |
//! | How do units differ? | [`effects`] |
//! | Which hyper-parameters are best? | [`search`](mod@search), [`tuned`] |
//! | What does a file of learned kernels hold? | [`models`] |
//! | Which rows are held out? | [`split`] |
//! | How good is it on units that nobody trained on? | [`evaluate`](mod@evaluate), [`score`] |
//! | What are several units worth? | [`boards`](mod@boards) |

pub mod boards;
pub mod corpus;
pub mod corrected;
pub mod demand;
pub mod effects;
pub mod evaluate;
pub mod features;
pub mod learner;
pub mod models;
pub mod roofline;
pub mod score;
pub mod search;
pub mod split;
pub mod trees;
pub mod tuned;
