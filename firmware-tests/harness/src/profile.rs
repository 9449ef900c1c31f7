//! Where flash, instructions and memory of `hold` go: a table for each, printed by
//! `run.sh where TARGET`.
//!
//! QEMU logs each block of instructions that it executes. The debug information gives the source
//! file of each instruction. Code of `core` and of small libraries counts for the file that inlines
//! it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use addr2line::Loader;
use object::{Object, ObjectSection, ObjectSymbol};

/// Number of steps that are examined: a second and a half of the start and a steady load. More take
/// QEMU minutes where floating point is software.
const STEPS: u64 = 150;

/// The functions of an image that enclose each counted call.
const BEGIN: &str = "counted_call_begins";
const END: &str = "counted_call_ends";

/// Amounts by place, which is a source file or a part of a library.
type Amounts = BTreeMap<String, u64>;

/// Finds the place of an instruction.
struct Places {
    loader: Loader,
    known: HashMap<u64, String>,
}

impl Places {
    fn new(path: &Path) -> Result<Self, String> {
        let loader = Loader::new(path).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(Self {
            loader,
            known: HashMap::new(),
        })
    }

    fn place(&mut self, address: u64) -> String {
        if let Some(place) = self.known.get(&address) {
            return place.clone();
        }
        let place = self.find(address);
        self.known.insert(address, place.clone());
        place
    }

    fn find(&self, address: u64) -> String {
        let mut last = String::new();
        if let Ok(mut frames) = self.loader.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                let file = frame.location.and_then(|location| location.file);
                let file = file.unwrap_or_default();
                let after = |part: &str| file.split_once(part).map(|(_, rest)| rest);
                if let Some(file) = after("runtime/src/") {
                    return file.to_owned();
                }
                if let Some(file) = after("compiler-builtins/src/") {
                    return format!("compiler-builtins {file}");
                }
                if let Some(file) = after("/libm-").and_then(|_| file.rsplit('/').next()) {
                    return format!("libm {file}");
                }
                if file.contains("firmware-tests")
                    || file.starts_with("report/")
                    || file.starts_with("image/")
                {
                    return "image: the simulated board, start and console".to_owned();
                }
                file.rsplit('/')
                    .next()
                    .unwrap_or_default()
                    .clone_into(&mut last);
            }
        }
        match self.loader.find_symbol(address) {
            _ if !last.is_empty() => last,
            Some(symbol) => format!("{:#}", rustc_demangle::demangle(symbol)),
            None => "other".to_owned(),
        }
    }
}

/// Bytes of code by place, and all constants as one place.
pub fn flash(path: &Path) -> Result<Amounts, String> {
    let at = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let bytes = fs::read(path).map_err(|why| at(&why))?;
    let file = object::File::parse(&*bytes).map_err(|why| at(&why))?;
    let mut places = Places::new(path)?;
    let mut amounts = Amounts::new();
    let text = file.section_by_name(".text").ok_or("no .text")?;
    for address in (text.address()..text.address() + text.size()).step_by(2) {
        *amounts.entry(places.place(address)).or_default() += 2;
    }
    for (section, place) in [(".rodata", "constants of all"), (".models", "model file")] {
        let size = file.section_by_name(section).map_or(0, |it| it.size());
        amounts.insert(place.to_owned(), size);
    }
    Ok(amounts)
}

/// Mean instructions by place of a counted call. `machine` is QEMU's program and machine.
pub fn instructions(machine: &[&str], path: &Path) -> Result<Amounts, String> {
    let [begin, end] = [BEGIN, END].map(|name| address_of(path, name));
    let (begin, end) = (begin?, end?);
    let (program, machine) = machine.split_first().ok_or("no machine")?;
    let mut child = Command::new(program)
        .args(machine)
        .args([
            "-display", "none", "-serial", "none", "-monitor", "none", "-nic", "none",
        ])
        .args(["-icount", "shift=0,sleep=off", "-semihosting", "-kernel"])
        .arg(path)
        .args(["-d", "in_asm,exec,nochain", "-D", "/dev/stdout"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|why| format!("{program}: {why}"))?;
    let log = child.stdout.take().ok_or("no log")?;
    let executed = executed(BufReader::new(log), begin, end);
    let _ = child.kill();
    let _ = child.wait();
    let (calls, executed) = executed.map_err(|why| format!("{program}: {why}"))?;
    let mut places = Places::new(path)?;
    let mut amounts = Amounts::new();
    for (address, times) in executed {
        *amounts.entry(places.place(address)).or_default() += times;
    }
    for amount in amounts.values_mut() {
        *amount /= calls.max(1);
    }
    Ok(amounts)
}

/// Reads QEMU's log until [`STEPS`] counted calls have ended. Returns the number of these calls, and for the address of
/// each instruction how often the calls executed it.
fn executed(
    mut log: impl BufRead,
    begin: u64,
    end: u64,
) -> std::io::Result<(u64, BTreeMap<u64, u64>)> {
    // The instructions of each translated block.
    let mut blocks: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut runs: HashMap<u64, u64> = HashMap::new();
    let mut block = None;
    let (mut calls, mut is_counted) = (0, false);
    let mut line = String::new();
    while calls < STEPS && log.read_line(&mut line)? > 0 {
        if let Some(traced) = line.strip_prefix("Trace ") {
            if let Some(at) = traced.split('/').nth(1).and_then(hexadecimal) {
                calls += u64::from(is_counted && at == end);
                is_counted = (is_counted || at == begin) && at != end;
                if is_counted {
                    *runs.entry(at).or_default() += 1;
                }
            }
        } else if line.starts_with("IN:") {
            block = None;
        } else if let Some(rest) = line.strip_prefix("0x")
            && let Some(at) = rest.split(':').next().and_then(hexadecimal)
        {
            let first = *block.get_or_insert(at);
            let instructions = blocks.entry(first).or_default();
            if first == at {
                instructions.clear();
            }
            instructions.push(at);
        }
        line.clear();
    }
    let mut executed = BTreeMap::new();
    for (block, times) in runs {
        for &at in blocks.get(&block).into_iter().flatten() {
            *executed.entry(at).or_default() += times;
        }
    }
    Ok((calls, executed))
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim(), 16).ok()
}

fn address_of(path: &Path, name: &str) -> Result<u64, String> {
    let at = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let bytes = fs::read(path).map_err(|why| at(&why))?;
    let file = object::File::parse(&*bytes).map_err(|why| at(&why))?;
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
    let symbol = symbol.ok_or_else(|| at(&format!("no function `{name}`")))?;
    // Bit 0 of a Thumb symbol is a flag.
    Ok(symbol.address() & !1)
}

/// Prints a table, the largest amounts first, and those below a hundredth of the sum as one.
pub fn print(title: &str, amounts: &Amounts) {
    let sum: u64 = amounts.values().sum();
    println!("{title}: {sum}");
    let mut rows: Vec<_> = amounts.iter().collect();
    rows.sort_by_key(|(_, amount)| std::cmp::Reverse(**amount));
    let (large, small): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.1 * 100 >= sum);
    for (place, amount) in large {
        println!("{amount:10}  {place}");
    }
    let rest: u64 = small.iter().map(|(_, amount)| **amount).sum();
    println!("{rest:10}  {} others", small.len());
    let mut folders = Amounts::new();
    for (place, amount) in amounts {
        let (folder, _) = place.split_once(['/', ' ']).unwrap_or(("others", ""));
        *folders.entry(folder.to_owned()).or_default() += amount;
    }
    let folders: Vec<_> = folders
        .iter()
        .map(|(name, amount)| format!("{name} {amount}"))
        .collect();
    println!("by folder: {}", folders.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_between_the_marks_are_counted() {
        let log = "\
IN: counted_call_begins
0x00000010:  4770       bx lr
IN: step
0x00000020:  b510       push {r4, lr}
0x00000022:  bd10       pop {r4, pc}
Trace 0: 0x7f00 [00000000/00000020/00000110/ff020000] step
Trace 0: 0x7f00 [00000000/00000010/00000110/ff020000] counted_call_begins
Trace 0: 0x7f00 [00000000/00000020/00000110/ff020000] step
Trace 0: 0x7f00 [00000000/00000020/00000110/ff020000] step
Trace 0: 0x7f00 [00000000/00000030/00000110/ff020000] counted_call_ends
Trace 0: 0x7f00 [00000000/00000020/00000110/ff020000] step
";
        let (calls, executed) = executed(log.as_bytes(), 0x10, 0x30).expect("a log");
        assert_eq!(calls, 1);
        assert_eq!(executed, BTreeMap::from([(0x10, 1), (0x20, 2), (0x22, 2)]));
    }
}
