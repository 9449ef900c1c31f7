//! Errors that the demo reports before it starts its work.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn demo(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wattgate-demo"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn refused(folder: &Path, arguments: &[&str], code: i32, says: &str) {
    let output = demo(folder, arguments);
    assert_eq!(output.status.code(), Some(code));
    assert_eq!(String::from_utf8_lossy(&output.stderr), says);
}

#[test]
fn a_page_that_cannot_be_written_is_reported_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    fs::write(path.join("file"), "").expect("written");
    let exists = "error: file: cannot write: File exists (os error 17); name a folder with -o\n";
    refused(path, &["-o", "file"], 5, exists);
    fs::create_dir_all(path.join("report/index.html")).expect("a folder");
    let is_folder = "error: report/index.html: cannot write: is a directory; name a file in it\n";
    refused(path, &["-o", "report"], 5, is_folder);
    let no_number = "error: --seed is `one`, expected a whole number, 0 to 18446744073709551615\n";
    refused(path, &["--seed", "one"], 2, no_number);
}
