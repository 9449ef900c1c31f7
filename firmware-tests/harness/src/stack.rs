//! The maximum depth of the stack, computed from the instructions of a linked image. The frame of a
//! function is the sum of all instructions that lower its stack pointer; frames add up along each
//! path of calls. An indirect call or a recursion has no bound and is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use object::{Architecture, Object, ObjectSection, ObjectSymbol, SymbolKind};

/// A function's use of the stack.
#[derive(Debug, Default, PartialEq, Eq)]
struct Function {
    end: u64,
    name: String,
    /// Its own frame in bytes.
    frame: u64,
    /// Addresses of its calls and tail calls.
    calls: BTreeSet<u64>,
    /// Whether it calls through a register.
    indirect: bool,
}

/// One instruction.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    length: u64,
    /// The bytes by which the stack pointer is lowered.
    takes: u64,
    /// The target of a call or jump.
    target: Option<u64>,
    indirect: bool,
}

/// The deepest stack from `main` on, in bytes.
pub fn deepest(path: &Path) -> Result<u64, String> {
    let at = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let bytes = fs::read(path).map_err(|why| at(&why))?;
    let file = object::File::parse(&*bytes).map_err(|why| at(&why))?;
    let functions = functions(&file).map_err(|why| at(&why))?;
    let (&main, _) = functions
        .iter()
        .find(|(_, function)| function.name == "main")
        .ok_or_else(|| at(&"no function `main`"))?;
    depth(&functions, main, &mut Vec::new(), &mut BTreeMap::new()).map_err(|why| at(&why))
}

fn depth(
    functions: &BTreeMap<u64, Function>,
    at: u64,
    callers: &mut Vec<u64>,
    known: &mut BTreeMap<u64, u64>,
) -> Result<u64, String> {
    if let Some(&depth) = known.get(&at) {
        return Ok(depth);
    }
    let function = functions
        .get(&at)
        .ok_or_else(|| format!("a call to {at:#x}, where no function begins"))?;
    if function.indirect {
        return Err(format!("{} calls through a register", function.name));
    }
    if callers.contains(&at) {
        return Err(format!("{} calls itself", function.name));
    }
    callers.push(at);
    let mut deepest = 0;
    for &callee in &function.calls {
        deepest = deepest.max(depth(functions, callee, callers, known)?);
    }
    callers.pop();
    known.insert(at, function.frame + deepest);
    Ok(function.frame + deepest)
}

fn functions(file: &object::File<'_>) -> Result<BTreeMap<u64, Function>, String> {
    let text = file.section_by_name(".text").ok_or("no .text")?;
    let code = text.data().map_err(|why| why.to_string())?;
    let start = text.address();
    let thumb = match file.architecture() {
        Architecture::Arm => true,
        Architecture::Aarch64 => false,
        other => return Err(format!("no decoder for {other:?}")),
    };
    // Bit 0 of a Thumb symbol is a flag, not part of the address.
    let address = |symbol: &object::Symbol<'_, '_>| symbol.address() & !u64::from(thumb);
    // Mapping symbols: data (`$d`) or instructions begin at their address.
    let mut kinds = BTreeMap::new();
    let mut functions = BTreeMap::new();
    for symbol in file.symbols() {
        let name = symbol.name().unwrap_or_default();
        if let Some(kind) = name.strip_prefix('$') {
            kinds.insert(address(&symbol), kind.starts_with('d'));
        } else if symbol.kind() == SymbolKind::Text && symbol.size() > 0 {
            let function = Function {
                end: address(&symbol) + symbol.size(),
                name: name.to_owned(),
                ..Function::default()
            };
            functions.insert(address(&symbol), function);
        }
    }
    for (&first, function) in &mut functions {
        let mut literals = BTreeMap::new();
        let mut at = first;
        while at < function.end {
            let is_data = kinds
                .range(..=at)
                .next_back()
                .is_some_and(|(_, data)| *data);
            let rest = at.checked_sub(start).and_then(|at| code.get(at as usize..));
            let rest = rest.ok_or_else(|| format!("{} lies outside of .text", function.name))?;
            let step = match (is_data, thumb) {
                (true, true) => Step {
                    length: 2,
                    ..Step::default()
                },
                (true, false) => Step {
                    length: 4,
                    ..Step::default()
                },
                (false, true) => thumb_step(rest, at, &mut literals),
                (false, false) => a64_step(rest, at),
            };
            function.frame += step.takes;
            function.indirect |= step.indirect;
            // The linker moves an instruction that an erratum affects, and jumps back behind it.
            let is_moved = function.name.starts_with("__CortexA53843419_");
            let leaves = |target: &u64| {
                !is_moved && (!(first..function.end).contains(target) || *target == first)
            };
            function.calls.extend(step.target.filter(leaves));
            at += step.length;
        }
    }
    Ok(functions)
}

/// Sign-extends a number of `bits` bits.
fn signed(value: u32, bits: u32) -> i64 {
    i64::from((value << (32 - bits)).cast_signed() >> (32 - bits))
}

/// ARMv8-A, A64: DDI 0487, chapter C4.
fn a64_step(code: &[u8], at: u64) -> Step {
    let word = code
        .first_chunk()
        .map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let mut step = Step {
        length: 4,
        ..Step::default()
    };
    let on_stack = (word >> 5) & 31 == 31;
    let lowers = |offset: i64| u64::try_from(-offset).unwrap_or(0);
    let pair = |scale: i64| lowers(signed(word >> 15 & 0x7F, 7) * scale);
    let single = || lowers(signed(word >> 12 & 0x1FF, 9));
    match word {
        // SUB SP, SP, #imm
        _ if word & 0xFF80_03FF == 0xD100_03FF => {
            step.takes = u64::from(word >> 10 & 0xFFF) << (12 * (word >> 22 & 1));
        }
        // STP, with write-back before: 64-bit registers, D and Q.
        _ if on_stack && word & 0xFFC0_0000 == 0xA980_0000 => step.takes = pair(8),
        _ if on_stack && word & 0xFFC0_0000 == 0x6D80_0000 => step.takes = pair(8),
        _ if on_stack && word & 0xFFC0_0000 == 0xAD80_0000 => step.takes = pair(16),
        // STR, with write-back before: a 64-bit register, D and Q.
        _ if on_stack && word & 0xFFE0_0C00 == 0xF800_0C00 => step.takes = single(),
        _ if on_stack && word & 0xFFE0_0C00 == 0xFC00_0C00 => step.takes = single(),
        _ if on_stack && word & 0xFFE0_0C00 == 0x3C80_0C00 => step.takes = single(),
        // BL and B
        _ if word & 0x7C00_0000 == 0x1400_0000 => {
            step.target = at.checked_add_signed(signed(word & 0x03FF_FFFF, 26) * 4);
        }
        // BLR
        _ => step.indirect = word & 0xFFFF_FC1F == 0xD63F_0000,
    }
    step
}

/// Thumb of ARMv6-M and ARMv7-M: DDI 0403, chapter A5. `literals` holds the words that registers
/// have from the function's literal pool.
fn thumb_step(code: &[u8], at: u64, literals: &mut BTreeMap<u16, u32>) -> Step {
    let half = |place: usize| {
        let bytes = code.get(place..).and_then(|code| code.first_chunk());
        bytes.map_or(0, |bytes| u16::from_le_bytes(*bytes))
    };
    let first = half(0);
    if first >> 11 > 0b11100 {
        return wide_thumb_step(first, half(2), at);
    }
    let mut step = Step {
        length: 2,
        ..Step::default()
    };
    let jump = |offset: i64| at.checked_add_signed(4 + offset);
    match first {
        // PUSH
        0xB400..=0xB5FF => step.takes = 4 * u64::from((first & 0x1FF).count_ones()),
        // SUB SP, #imm
        0xB080..=0xB0FF => step.takes = 4 * u64::from(first & 0x7F),
        // LDR Rt, [PC, #imm]
        0x4800..=0x4FFF => {
            let place = ((at + 4) & !3) - at + 4 * u64::from(first & 0xFF);
            let word = code
                .get(place as usize..)
                .and_then(|code| code.first_chunk());
            literals.insert(
                first >> 8 & 7,
                word.map_or(0, |word| u32::from_le_bytes(*word)),
            );
        }
        // ADD SP, Rm
        _ if first & 0xFF87 == 0x4485 => {
            let by = literals
                .get(&(first >> 3 & 15))
                .copied()
                .unwrap_or(0)
                .cast_signed();
            step.takes = u64::from(by.min(0).unsigned_abs());
            step.indirect = by == 0;
        }
        // B
        0xE000..=0xE7FF => step.target = jump(signed(u32::from(first), 11) * 2),
        // B<c>
        0xD000..=0xDDFF => step.target = jump(signed(u32::from(first), 8) * 2),
        // BLX Rm
        _ => step.indirect = first & 0xFF87 == 0x4780,
    }
    step
}

fn wide_thumb_step(first: u16, second: u16, at: u64) -> Step {
    let mut step = Step {
        length: 4,
        ..Step::default()
    };
    let [first, second] = [first, second].map(u32::from);
    let immediate = (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF;
    let lowers_sp = second & 0x8F00 == 0x0D00;
    match first {
        // PUSH
        0xE92D => step.takes = 4 * u64::from(second.count_ones()),
        // STR Rt, [SP, #-4]!
        0xF84D if second & 0x0FFF == 0x0D04 => step.takes = 4,
        // STRD Rt, Rt2, [SP, #-imm]!
        0xE96D => step.takes = 4 * u64::from(second & 0xFF),
        // VPUSH
        _ if first & 0xFFBF == 0xED2D && second & 0x0E00 == 0x0A00 => {
            step.takes = 4 * u64::from(second & 0xFF);
        }
        // SUB SP, SP, #const
        _ if first & 0xFBFF == 0xF1AD && lowers_sp => {
            step.takes = u64::from(expanded(immediate));
        }
        // SUBW SP, SP, #imm
        _ if first & 0xFBFF == 0xF2AD && lowers_sp => step.takes = u64::from(immediate),
        // BL, and B without condition
        _ if first & 0xF800 == 0xF000 && second & 0x9000 == 0x9000 => {
            let sign = first >> 10 & 1;
            let high = |bit: u32| 1 ^ bit & 1 ^ sign;
            let offset = sign << 24
                | high(second >> 13) << 23
                | high(second >> 11) << 22
                | (first & 0x3FF) << 12
                | (second & 0x7FF) << 1;
            step.target = at.checked_add_signed(4 + signed(offset, 25));
        }
        // B<c>
        _ if first & 0xF800 == 0xF000 && second & 0xD000 == 0x8000 && first >> 7 & 7 != 7 => {
            let offset = (first >> 10 & 1) << 20
                | (second >> 11 & 1) << 19
                | (second >> 13 & 1) << 18
                | (first & 0x3F) << 12
                | (second & 0x7FF) << 1;
            step.target = at.checked_add_signed(4 + signed(offset, 21));
        }
        _ => {}
    }
    step
}

/// Expands a modified immediate constant of twelve bits (ThumbExpandImm, A5.3.2).
fn expanded(immediate: u32) -> u32 {
    let byte = immediate & 0xFF;
    match immediate >> 8 {
        0 => byte,
        1 => byte << 16 | byte,
        2 => byte << 24 | byte << 8,
        3 => byte * 0x0101_0101,
        _ => (byte | 0x80).rotate_right(immediate >> 7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(code: &[u8]) -> u64 {
        thumb_step(code, 0, &mut BTreeMap::new()).takes
    }

    // Encodings as llvm-mc prints them.
    #[test]
    fn thumb_frames() {
        assert_eq!(takes(&[0xF0, 0xB5]), 20, "push {{r4-r7, lr}}");
        assert_eq!(takes(&[0x82, 0xB0]), 8, "sub sp, #8");
        assert_eq!(
            takes(&[0x2D, 0xE9, 0xF0, 0x4F]),
            36,
            "push.w {{r4-r11, lr}}"
        );
        assert_eq!(takes(&[0xAD, 0xF5, 0x00, 0x7D]), 512, "sub.w sp, sp, #512");
        assert_eq!(takes(&[0x2D, 0xED, 0x08, 0x8B]), 32, "vpush {{d8-d11}}");
        assert_eq!(takes(&[0x4D, 0xF8, 0x04, 0xBD]), 4, "str r11, [sp, #-4]!");
        assert_eq!(takes(&[0x02, 0xB0]), 0, "add sp, #8");
    }

    #[test]
    fn thumb_calls() {
        let target = |code: &[u8]| thumb_step(code, 0x1000, &mut BTreeMap::new()).target;
        assert_eq!(target(&[0x00, 0xF0, 0x02, 0xF8]), Some(0x1008), "bl #4");
        assert_eq!(target(&[0xFF, 0xF7, 0xFE, 0xFF]), Some(0x1000), "bl #-4");
        assert_eq!(target(&[0xFE, 0xE7]), Some(0x1000), "b #-4");
        assert!(
            thumb_step(&[0x98, 0x47], 0, &mut BTreeMap::new()).indirect,
            "blx r3"
        );
    }

    #[test]
    fn a64() {
        let step = |word: u32| a64_step(&word.to_le_bytes(), 0x1000);
        assert_eq!(step(0xD104_83FF).takes, 0x120, "sub sp, sp, #0x120");
        assert_eq!(step(0xD140_07FF).takes, 0x1000, "sub sp, sp, #1, lsl #12");
        assert_eq!(step(0xA9BF_7BFD).takes, 16, "stp x29, x30, [sp, #-16]!");
        assert_eq!(step(0xF81F_0FFE).takes, 16, "str x30, [sp, #-16]!");
        assert_eq!(step(0x6DBA_3BEF).takes, 96, "stp d15, d14, [sp, #-96]!");
        assert_eq!(step(0x97FF_FFFF).target, Some(0x0FFC), "bl #-4");
        assert!(step(0xD63F_0100).indirect, "blr x8");
    }

    #[test]
    fn frames_add_up_along_paths_and_recursion_is_an_error() {
        let function = |frame, calls: &[u64]| Function {
            frame,
            calls: calls.iter().copied().collect(),
            ..Function::default()
        };
        let mut functions = BTreeMap::from([
            (1, function(10, &[2, 3])),
            (2, function(5, &[])),
            (3, function(7, &[2])),
        ]);
        let depth_of = |functions: &_| depth(functions, 1, &mut Vec::new(), &mut BTreeMap::new());
        assert_eq!(depth_of(&functions), Ok(22));
        functions.insert(2, function(5, &[3]));
        assert!(depth_of(&functions).is_err(), "2 and 3 call each other");
        functions.insert(2, function(5, &[9]));
        assert!(depth_of(&functions).is_err(), "nothing at 9");
    }
}
