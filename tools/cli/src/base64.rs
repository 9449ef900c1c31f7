//! Bytes as text in JSON: Base64 with padding (RFC 4648, section 4). For fields with
//! `#[serde(with = "wattgate_cli::base64")]`.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes bytes as a string.
pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&encode(bytes))
}

/// Reads bytes from a string.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    decode(&text).ok_or_else(|| D::Error::custom("expected Base64"))
}

/// Encodes bytes.
pub fn encode(bytes: &[u8]) -> String {
    let group = |bytes: &[u8]| {
        let at = |i: usize| u32::from(bytes.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        let sextet = |i: usize| char::from(ALPHABET[(bits >> (18 - 6 * i)) as usize & 63]);
        std::array::from_fn::<char, 4, _>(|i| if i <= bytes.len() { sextet(i) } else { '=' })
    };
    bytes.chunks(3).flat_map(group).collect()
}

/// Decodes a text; `None` unless it is what [`encode`] writes.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.as_bytes().chunks(4) {
        let count = group.iter().position(|&c| c == b'=').unwrap_or(group.len());
        let mut bits = 0;
        for digit in &group[..count] {
            bits = bits << 6 | ALPHABET.iter().position(|known| known == digit)? as u32;
        }
        let whole = (bits << (6 * (4 - count))).to_be_bytes();
        bytes.extend(whole.get(1..count)?);
    }
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RFC 4648, section 10.
    #[test]
    fn texts_are_those_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "Z",
            "Zg",
            "Zg=",
            "Zh==",
            "=Zg=",
            "====",
            "Zg==Zg==",
            "Zm9v\n",
            "Zm9\u{e9}",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
