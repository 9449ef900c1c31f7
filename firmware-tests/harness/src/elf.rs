//! What a linked image holds: sizes of its sections, and symbols that must not be there.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol};

/// The symbol that an image's panic handler refers to, and that does not exist.
pub const PANIC_AT_LINK: &str = "this_image_contains_a_reachable_panic";

/// Parts of names that the release image must not contain: panics, formatting, an allocator.
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

/// The figure of code and constants without the model.
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

/// The compiler, as it names itself in an image: a figure is held against that of the same one.
pub fn compiler(path: &Path) -> Result<String, String> {
    let comment = with_file(path, |file| {
        let section = file.section_by_name(".comment");
        let data = section.map(|section| section.data()).transpose()?;
        Ok(String::from_utf8_lossy(data.unwrap_or_default()).into_owned())
    })?;
    let name = comment
        .split('\0')
        .find(|part| part.starts_with("rustc version"));
    let name = name.ok_or_else(|| format!("{}: names no compiler", path.display()))?;
    Ok(name.to_owned())
}

/// Names of symbols that must not be there.
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
