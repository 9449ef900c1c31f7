//! The estimator on plants whose power is known.
//!
//! | file | claims |
//! |---|---|
//! | `steps` | the present power is unbiased, and follows a step soon; false steps are rare |
//! | `energy` | energy and the mean over a span are exact up to rounding |
//! | `inputs` | no input gives a result that is not finite; settings apply from the next sample on |

mod energy;
mod inputs;
mod plant;
mod steps;
