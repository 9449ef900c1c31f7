//! The help texts.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-lab --test it help` writes them anew.

use std::env;
use std::fs;
use std::path::Path;

use crate::common::{folder, run};

#[test]
fn every_help_text_is_the_golden_one() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for command in [
        "",
        "evaluate",
        "optimize",
        "matrix",
        "advise",
        "characterize",
        "characterize report",
        "characterize modes",
        "characterize energy",
        "kernels",
        "kernels evaluate",
        "kernels boards",
        "kernels search",
        "kernels fit",
        "compose",
        "figures",
        "merge",
        "completions",
    ] {
        let help = run(folder().path(), &format!("{command} --help"));
        assert_eq!(help.code, 0);
        let name = match command {
            "" => "help.txt".to_owned(),
            command => format!("help-{}.txt", command.replace(' ', "-")),
        };
        let path = golden.join(name);
        if env::var_os("WATTGATE_UPDATE_GOLDEN").is_some() {
            fs::write(&path, &help.stdout).expect("the golden folder can be written to");
        }
        let expected = fs::read_to_string(&path).expect("a golden text");
        assert_eq!(help.stdout, expected, "{}", path.display());
        assert!(help.stdout.contains("Example"));
    }
}
