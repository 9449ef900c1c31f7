//! The nearest of some names, to suggest it.

/// Similarity by Jaro from which a name is suggested, from 0 to 1; clap suggests options from the same value on.
const LEAST_SIMILARITY: f64 = 0.7;

/// The name that is most like a text, whatever the case; `None` if none is like it. Of several the first.
pub fn nearest<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let text = text.to_lowercase();
    let alike = names.into_iter().map(|name| {
        let similarity = strsim::jaro(&text, &name.to_lowercase());
        (similarity, name)
    });
    let most = alike.reduce(|most, other| if other.0 > most.0 { other } else { most });
    let most = most.filter(|(similarity, _)| *similarity > LEAST_SIMILARITY);
    most.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_board_tables::names;

    #[test]
    fn a_board_is_suggested_for_a_name_that_is_nearly_its_own() {
        for (text, expected) in [
            ("orin-agx", Some("orin-agx-64")),
            ("orin-agx64", Some("orin-agx-64")),
            ("Orin_NX_16", Some("orin-nx-16")),
            ("xavier", Some("xavier-nx")),
            ("tx-2", Some("tx2")),
            ("raspberry", None),
            ("", None),
        ] {
            assert_eq!(nearest(text, names()), expected, "{text}");
        }
    }
}
