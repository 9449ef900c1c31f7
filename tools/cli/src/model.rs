//! What to do about a file that is no usable model.

use wattgate_runtime::FormatError;

/// The end of a message.
pub fn advice(why: &FormatError) -> &'static str {
    match why {
        FormatError::TooShort | FormatError::WrongMagic => {
            "expected a model, as `wattgate-trainer fit` writes it"
        }
        FormatError::UnsupportedVersion { .. }
        | FormatError::BadHeader
        | FormatError::UnsupportedShape { .. } => {
            "use a later release of wattgate, or train the model again with this one"
        }
        _ => "copy the file again, or train the model again",
    }
}
