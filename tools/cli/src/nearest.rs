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

    #[test]
    fn a_name_is_suggested_for_a_text_that_is_nearly_it() {
        let boards = [
            "orin-agx-64",
            "orin-nx-16",
            "xavier-agx",
            "xavier-nx",
            "tx2",
        ];
        let commands = ["check", "once", "run", "status", "watch"];
        for (text, names, expected) in [
            ("orin-agx", boards, Some("orin-agx-64")),
            ("orin-agx64", boards, Some("orin-agx-64")),
            ("Orin_NX_16", boards, Some("orin-nx-16")),
            ("xavier", boards, Some("xavier-nx")),
            ("tx-2", boards, Some("tx2")),
            ("raspberry", boards, None),
            ("", boards, None),
            ("chek", commands, Some("check")),
            ("runn", commands, Some("run")),
            ("stats", commands, Some("status")),
            ("walk", commands, None),
        ] {
            assert_eq!(nearest(text, names), expected, "{text}");
        }
    }
}
