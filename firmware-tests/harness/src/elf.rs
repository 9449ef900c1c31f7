//! Sizes of the sections of a linked image, and forbidden symbols in it.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol};

/// The undefined symbol that an image's panic handler refers to.
pub const PANIC_AT_LINK: &str = "this_image_contains_a_reachable_panic";

/// Parts of the names of forbidden symbols: panics, formatting, an allocator.
const FORBIDDEN: &[&str] = &[
    "core::panicking",
    "core::fmt",
    "alloc::",
    "__rust_alloc",
    "__rg_",
];

fn with_file<T>(
    path: &Path,
    read: impl FnOnce(&object::File<'_>) -> Result<T, object::Error>,
) -> Result<T, String> {
    let bytes = fs::read(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let file = object::File::parse(&*bytes).map_err(|why| format!("{}: {why}", path.display()))?;
    read(&file).map_err(|why| format!("{}: {why}", path.display()))
}

/// Name of the figure for code and constants without the model.
pub const CODE: &str = "code and constants, bytes";

/// Code and constants without the model, in bytes.
pub fn code(path: &Path) -> Result<u64, String> {
    let [(_, bytes), ..] = sizes(path)?;
    Ok(bytes)
}

/// Code and constants without the model, the model, and static memory, in bytes.
pub fn sizes(path: &Path) -> Result<[(&'static str, u64); 3], String> {
    with_file(path, |file| {
        let size = |name| {
            file.section_by_name(name)
                .map_or(0, |section| section.size())
        };
        Ok([
            (CODE, size(".text") + size(".rodata")),
            ("model, bytes", size(".models")),
            ("static memory, bytes", size(".data") + size(".bss")),
        ])
    })
}

/// The compiler's version string in an image.
pub fn compiler(path: &Path) -> Result<String, String> {
    let comment = with_file(path, |file| {
        let section = file.section_by_name(".comment");
        let data = section.map(|section| section.data()).transpose()?;
        Ok(String::from_utf8_lossy(data.unwrap_or_default()).into_owned())
    })?;
    let name = comment
        .split('\0')
        .find(|part| part.starts_with("rustc version"));
    let name =
        name.ok_or_else(|| format!("{}: has no compiler version in .comment", path.display()))?;
    Ok(name.to_owned())
}

/// Names of the forbidden symbols in an image.
pub fn forbidden_symbols(path: &Path) -> Result<Vec<String>, String> {
    with_file(path, |file| {
        let mut found = Vec::new();
        for symbol in file.symbols().filter(|symbol| symbol.is_definition()) {
            let name = format!("{:#}", rustc_demangle::demangle(symbol.name()?));
            if FORBIDDEN.iter().any(|part| name.contains(part)) {
                found.push(name);
            }
        }
        Ok(found)
    })
}
