//! The sizes of a governor and its parts, as the compiler prints them for `hold`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The table shows the fields of these types. Some are private, so only the compiler can tell their sizes.
const TYPES: [&str; 6] = [
    "wattgate_runtime::Governor<64, &wattgate_runtime::Front<64>>",
    "wattgate_runtime::governor::knowledge::Knowledge<64, &wattgate_runtime::Front<64>>",
    "wattgate_runtime::governor::memory::Memory",
    "wattgate_runtime::estimator::Estimator",
    "wattgate_runtime::estimator::bank::Bank",
    "wattgate_runtime::estimator::hypothesis::Hypothesis",
];

/// Fields below this size in bytes are shown as a sum.
const SMALL: u64 = 64;

/// Prints the fields of each type.
pub fn print(folder: &Path, triple: &str) -> Result<(), String> {
    let listing = listing(folder, triple)?;
    for name in TYPES {
        match fields(&listing, name) {
            Some((size, fields)) => print_type(name, size, &fields),
            None => println!("{name}: not in this image"),
        }
    }
    Ok(())
}

fn print_type(name: &str, size: u64, fields: &[(String, u64)]) {
    let name = name.rsplit("::").next().unwrap_or(name);
    println!("bytes of memory of {name}: {size}");
    let (large, small): (Vec<_>, Vec<_>) = fields.iter().partition(|field| field.1 >= SMALL);
    for (field, size) in large {
        println!("{size:10}  {field}");
    }
    let rest: u64 = small.iter().map(|field| field.1).sum();
    println!("{rest:10}  {} others, with padding", small.len());
}

/// The size of a type, and the sizes of its fields and padding.
fn fields(listing: &str, name: &str) -> Option<(u64, Vec<(String, u64)>)> {
    let head = format!("print-type-size type: `{name}`: ");
    let mut lines = listing.lines().skip_while(|line| !line.starts_with(&head));
    let size = number(lines.next()?.strip_prefix(&head)?)?;
    let fields = lines.map_while(|line| {
        let field = line.strip_prefix("print-type-size     ")?;
        let (name, rest) = field.split_once(": ")?;
        let name = name.trim_start_matches("field ").trim_matches(['`', '.']);
        Some((name.to_owned(), number(rest)?))
    });
    Some((size, fields.collect()))
}

/// The number at the begin of a text.
fn number(text: &str) -> Option<u64> {
    text.split(' ').next()?.parse().ok()
}

fn listing(folder: &Path, triple: &str) -> Result<String, String> {
    let target_folder = "target/layout";
    // The compiler prints the sizes only when it compiles, so an earlier build of the image is dropped.
    let known = folder
        .join(target_folder)
        .join(triple)
        .join("release/.fingerprint");
    for entry in fs::read_dir(known).into_iter().flatten().flatten() {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with("wattgate-image-")
        {
            fs::remove_dir_all(entry.path()).map_err(|why| why.to_string())?;
        }
    }
    let output = Command::new(folder.join("../tools/cross.sh"))
        .args([
            triple,
            "rustc",
            "--release",
            "--locked",
            "-p",
            "wattgate-image",
        ])
        .args(["--bin", "hold", "--target-dir", target_folder])
        .args(["--", "-Zprint-type-sizes"])
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|why| format!("tools/cross.sh: {why}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_at_the_next_type() {
        let listing = "\
print-type-size type: `Bank`: 1176 bytes, alignment: 8 bytes
print-type-size     field `.since`: 8 bytes
print-type-size     field `.hypotheses`: 1152 bytes
print-type-size     end padding: 4 bytes
print-type-size type: `Energy`: 8 bytes, alignment: 8 bytes
print-type-size     field `.rest`: 4 bytes
";
        let (size, fields) = fields(listing, "Bank").expect("a type");
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["since", "hypotheses", "end padding"]);
        assert_eq!((size, fields[1].1), (1176, 1152));
    }
}
