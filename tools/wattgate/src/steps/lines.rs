//! Lines of output as a person sees them: without escapes, and a bar that is drawn again and again as one line each
//! time.

use std::borrow::Cow;

use anstream::adapter::strip_bytes;

/// Maximum length of a line; what follows until the end of the line is ignored.
const MAX_LINE: usize = 64 << 10;

/// A line.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Its text without escapes.
    pub text: &'a [u8],
    /// Whether it has ended; else more of it may come.
    pub is_complete: bool,
    /// Its number, from one; a line that is drawn again keeps its number.
    pub number: u64,
    /// Whether the output has drawn a line again so far. If not, each line is new.
    pub is_redrawn: bool,
}

/// Splits output into lines, each of which `\n` or `\r` ends.
///
/// Progress bars write `\r` first and the bar after it, so the end of a bar arrives with the next
/// one. A bar that arrives in one piece therefore counts at once.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
    /// Lines that `\n` has ended.
    ended: u64,
    /// The line follows a `\r`.
    is_redraw: bool,
    /// A line was drawn again.
    has_redrawn: bool,
    /// The line was taken before its end.
    is_taken: bool,
}

impl Lines {
    /// Splits the next bytes. `take` gets each line and returns whether it has found what it looks for.
    pub fn split(&mut self, bytes: &[u8], mut take: impl FnMut(Line<'_>) -> bool) {
        for piece in bytes.split_inclusive(|byte| b"\r\n".contains(byte)) {
            let is_new = self.line.is_empty();
            let (text, end) = match piece.split_last() {
                Some((end @ (b'\r' | b'\n'), text)) => (text, Some(*end)),
                _ => (piece, None),
            };
            // Some programs end lines with `\r\n`.
            self.has_redrawn |= is_new && self.is_redraw && !text.is_empty();
            let room = MAX_LINE - self.line.len();
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if let Some(end) = end {
                self.finish(&mut take);
                self.is_redraw = end == b'\r';
                self.ended += u64::from(end == b'\n');
            } else if is_new && self.is_redraw {
                self.is_taken = self.take(&mut take, false);
            }
        }
    }

    /// Ends the line.
    pub fn finish(&mut self, mut take: impl FnMut(Line<'_>) -> bool) {
        if !self.line.is_empty() && !self.is_taken {
            self.take(&mut take, true);
        }
        self.line.clear();
        self.is_taken = false;
    }

    fn take(&mut self, take: &mut impl FnMut(Line<'_>) -> bool, is_complete: bool) -> bool {
        self.has_redrawn |= moves_cursor(&self.line);
        let text = plain(&self.line);
        take(Line {
            text: &text,
            is_complete,
            number: self.ended + 1,
            is_redrawn: self.has_redrawn,
        })
    }
}

/// A line without escapes and control characters.
fn plain(line: &[u8]) -> Cow<'_, [u8]> {
    let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    if !line.iter().any(is_control) {
        return Cow::Borrowed(line);
    }
    let mut plain = Vec::with_capacity(line.len());
    strip_bytes(line).for_each(|part| plain.extend_from_slice(part));
    plain.retain(|byte| !is_control(byte));
    Cow::Owned(plain)
}

/// Whether a line moves the cursor or erases what stands there: backspaces, or a control sequence (ECMA-48, section 8.3) with
/// one of the final bytes A to H, J, K, S, T and f.
fn moves_cursor(line: &[u8]) -> bool {
    let mut rest = line;
    while let Some(at) = rest.iter().position(|byte| b"\x08\x1b".contains(byte)) {
        if rest[at] == b'\x08' {
            return true;
        }
        rest = &rest[at + 1..];
        let Some(sequence) = rest.strip_prefix(b"[") else {
            continue;
        };
        let last = sequence.iter().find(|byte| (0x40..=0x7e).contains(*byte));
        if last.is_some_and(|last| b"ABCDEFGHJKSTf".contains(last)) {
            return true;
        }
    }
    false
}
