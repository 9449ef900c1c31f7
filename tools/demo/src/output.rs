//! The files that the demo writes: the models and the page.

use std::path::{Path, PathBuf};

use wattgate_cli::output::{AtomicFile, OutputError};

use super::story::Story;

const PAGE: &str = include_str!("page.html");

/// The page has this text where its data belong.
const MARKER: &str = "/*DATA*/null";

/// Path of a model file.
pub fn model_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.wgt"))
}

/// Writes a model file.
pub fn write_model(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), OutputError> {
    AtomicFile::create(&model_path(folder, name))?.commit(bytes)
}

/// The text of the page with its data.
pub fn page(story: &Story) -> String {
    let json = serde_json::to_string(story).expect("numbers and texts");
    // Escaped, because `</script>` inside a string would end the script.
    PAGE.replace(MARKER, &json.replace('<', "\\u003c"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_takes_its_data_in_one_place() {
        assert_eq!(PAGE.matches(MARKER).count(), 1);
        assert!(
            !PAGE.contains("http://") && !PAGE.contains("https://"),
            "a page by itself"
        );
    }
}
