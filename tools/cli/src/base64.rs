//! Bytes as text in JSON: Base64 with padding (RFC 4648, section 4). For fields with
//! `#[serde(with = "wattgate_cli::base64")]`.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

/// Writes bytes as a string.
pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

/// Reads bytes from a string.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    STANDARD.decode(text.as_ref()).map_err(D::Error::custom)
}
