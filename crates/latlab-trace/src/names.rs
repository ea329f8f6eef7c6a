//! Names that a trace carries beside its events: kernel symbols, command lines, printk strings.

use crate::bytes::until_nul;
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;

/// A hasher for small integers (pids, ids): one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntHasher(u64);

impl Hasher for IntHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
    fn write_i32(&mut self, v: i32) {
        self.write_u64(v as u32 as u64);
    }
    fn write_u32(&mut self, v: u32) {
        self.write_u64(u64::from(v));
    }
    fn write_u64(&mut self, v: u64) {
        let h = (self.0 ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = h ^ (h >> 32);
    }
}

/// A map keyed by small integers.
pub type IntMap<K, V> = HashMap<K, V, BuildHasherDefault<IntHasher>>;

/// Kernel symbols, from the copy of `/proc/kallsyms`; indexed when first asked.
#[derive(Debug, Default)]
pub struct Symbols<'a> {
    text: Cow<'a, [u8]>,
    /// Address and place of the name in `text`, by address.
    index: OnceLock<Vec<(u64, u32)>>,
}

/// A symbol and the distance of an address from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'s> {
    /// Name of the function or variable.
    pub name: &'s [u8],
    /// Its module, without brackets; empty for the kernel itself.
    pub module: &'s [u8],
    /// The address asked for less the symbol's.
    pub offset: u64,
    /// Distance to the next symbol; 0 when there is none.
    pub size: u64,
}

impl<'a> Symbols<'a> {
    /// From lines `address type name [module]`.
    pub fn new(text: Cow<'a, [u8]>) -> Self {
        Self { text, index: OnceLock::new() }
    }

    /// The lines themselves.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    fn index(&self) -> &[(u64, u32)] {
        self.index.get_or_init(|| {
            let mut index = Vec::with_capacity(self.text.len() / 40);
            let mut start = 0;
            for end in memchr::memchr_iter(b'\n', &self.text).chain([self.text.len()]) {
                if let Some((address, name)) = kallsyms_line(&self.text[start..end])
                    && let Ok(at) = u32::try_from(start + name)
                {
                    index.push((address, at));
                }
                start = end + 1;
            }
            // Stable: of several names at one address the first listed wins.
            index.sort_by_key(|(address, _)| *address);
            index.shrink_to_fit();
            index
        })
    }

    fn name_at(&self, at: u32) -> (&[u8], &[u8]) {
        let line = self.text.get(at as usize..).unwrap_or_default();
        let line = &line[..memchr::memchr(b'\n', line).unwrap_or(line.len())];
        let end = line.iter().position(|b| *b == b' ' || *b == b'\t').unwrap_or(line.len());
        let module = line[end..].trim_ascii();
        let module = module.strip_prefix(b"[").and_then(|m| m.strip_suffix(b"]")).unwrap_or(b"");
        (&line[..end], module)
    }

    /// The symbol that an address lies in.
    pub fn find(&self, address: u64) -> Option<Symbol<'_>> {
        let index = self.index();
        let after = index.partition_point(|(a, _)| *a <= address);
        let (start, _) = *index.get(after.checked_sub(1)?)?;
        // The first of equals: that is the one which the file lists first.
        let first = index.partition_point(|(a, _)| *a < start);
        let (name, module) = self.name_at(index[first].1);
        // Behind the start of the last symbol anything may lie.
        if start == 0 || after == index.len() && address != start {
            return None;
        }
        let size = index.get(after).map_or(0, |(next, _)| next - start);
        Some(Symbol { name, module, offset: address - start, size })
    }

    /// The address of a function or variable by its exact name.
    pub fn address(&self, name: &[u8]) -> Option<u64> {
        self.index().iter().find(|(_, at)| self.name_at(*at).0 == name).map(|(a, _)| *a)
    }
}

/// Address, and where in the line the name begins.
fn kallsyms_line(line: &[u8]) -> Option<(u64, usize)> {
    let mut address = 0u64;
    let mut digits = 0;
    for b in line {
        let Some(d) = (*b as char).to_digit(16) else { break };
        address = (address << 4) | u64::from(d);
        digits += 1;
    }
    (digits > 0 && digits <= 16 && line.len() > digits + 3).then_some((address, digits + 3))
}

/// Strings that `trace_printk` formats live at, from the copy of `printk_formats`; parsed when first asked.
#[derive(Debug, Default)]
pub struct PrintkFormats {
    text: Vec<u8>,
    strings: OnceLock<IntMap<u64, Box<[u8]>>>,
}

impl PrintkFormats {
    /// From lines `0xADDRESS : "text"`, with C escapes.
    pub fn new(text: &[u8]) -> Self {
        Self { text: text.to_vec(), strings: OnceLock::new() }
    }
    fn strings(&self) -> &IntMap<u64, Box<[u8]>> {
        self.strings.get_or_init(|| self.text.split(|b| *b == b'\n').filter_map(printk).collect())
    }
    /// The string at an address.
    pub fn get(&self, address: u64) -> Option<&[u8]> {
        self.strings().get(&address).map(|s| &**s)
    }
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.strings().len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.strings().is_empty()
    }
}

/// Address and string of one line.
fn printk(line: &[u8]) -> Option<(u64, Box<[u8]>)> {
    let colon = memchr::memchr(b':', line)?;
    let address = line[..colon].trim_ascii();
    let address = address.strip_prefix(b"0x").unwrap_or(address);
    let address = u64::from_str_radix(std::str::from_utf8(address).ok()?, 16).ok()?;
    let text = line[colon + 1..].trim_ascii();
    let text = text.strip_prefix(b"\"").unwrap_or(text);
    let text = text.strip_suffix(b"\"").unwrap_or(text);
    Some((address, unescape(text).into_boxed_slice()))
}

/// Replaces `\n`, `\t`, `\\`, `\"`, `\ooo` and `\xhh`.
pub(crate) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut i = 0;
    while i < text.len() {
        let b = text[i];
        i += 1;
        if b != b'\\' || i >= text.len() {
            out.push(b);
            continue;
        }
        let e = text[i];
        i += 1;
        match e {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'0'..=b'7' => {
                let mut v = u32::from(e - b'0');
                for _ in 0..2 {
                    match text.get(i) {
                        Some(d @ b'0'..=b'7') => v = v * 8 + u32::from(d - b'0'),
                        _ => break,
                    }
                    i += 1;
                }
                out.push(v as u8);
            }
            b'x' => {
                let mut v = 0;
                for _ in 0..2 {
                    match text.get(i).and_then(|d| (*d as char).to_digit(16)) {
                        Some(d) => v = v * 16 + d,
                        None => break,
                    }
                    i += 1;
                }
                out.push(v as u8);
            }
            other => out.push(other),
        }
    }
    out
}

/// Names of tasks by pid; indexed when first asked.
#[derive(Clone, Debug, Default)]
pub struct Comms {
    /// Lines `pid name`, and behind them names that were learned.
    text: Vec<u8>,
    /// Place and length of each name in `text`.
    places: OnceLock<IntMap<i32, (usize, usize)>>,
}

impl Comms {
    /// What is printed for the idle task of every CPU.
    pub const IDLE: &'static [u8] = b"<idle>";
    /// What is printed for a pid without a name.
    pub const UNKNOWN: &'static [u8] = b"<...>";

    /// From lines `pid name`.
    pub fn new(text: &[u8]) -> Self {
        Self { text: text.to_vec(), places: OnceLock::new() }
    }
    fn places(&self) -> &IntMap<i32, (usize, usize)> {
        self.places.get_or_init(|| {
            let mut places = IntMap::default();
            let mut start = 0;
            for line in self.text.split(|b| *b == b'\n') {
                if let Some(space) = memchr::memchr(b' ', line)
                    && let Some(pid) = std::str::from_utf8(&line[..space]).ok()
                    && let Ok(pid) = pid.parse()
                {
                    let name = until_nul(&line[space + 1..]);
                    places.insert(pid, (start + space + 1, name.len()));
                }
                start += line.len() + 1;
            }
            places
        })
    }
    /// The name, where it is known.
    pub fn get(&self, pid: i32) -> Option<&[u8]> {
        if pid == 0 {
            return Some(Self::IDLE);
        }
        self.places().get(&pid).map(|&(at, length)| &self.text[at..at + length])
    }
    /// The name, or what is printed when there is none.
    pub fn name(&self, pid: i32) -> &[u8] {
        self.get(pid).unwrap_or(Self::UNKNOWN)
    }
    /// Remembers a name unless there is one already. True if it was new.
    pub fn learn(&mut self, pid: i32, name: &[u8]) -> bool {
        if pid == 0 || name.is_empty() || self.places().contains_key(&pid) {
            return false;
        }
        let at = self.text.len();
        self.text.extend_from_slice(name);
        self.places.get_mut().is_some_and(|places| places.insert(pid, (at, name.len())).is_none())
    }
    /// Every pid and name, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &[u8])> {
        self.places().iter().map(|(pid, &(at, length))| (*pid, &self.text[at..at + length]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_by_any_address_inside() {
        let s = Symbols::new(Cow::Borrowed(
            b"ffffffff81000000 T _text\nffffffff81000000 T startup\nffffffff81000100 t helper\t[mod]\n",
        ));
        let hit = s.find(0xffff_ffff_8100_0010).unwrap();
        assert_eq!((hit.name, hit.offset, hit.size), (&b"_text"[..], 0x10, 0x100));
        let hit = s.find(0xffff_ffff_8100_0100).unwrap();
        assert_eq!((hit.name, hit.module, hit.offset), (&b"helper"[..], &b"mod"[..], 0));
        assert!(s.find(0xffff_ffff_8100_0104).is_none());
        assert!(s.find(0x10).is_none());
        assert_eq!(s.address(b"helper"), Some(0xffff_ffff_8100_0100));
    }

    #[test]
    fn printk_strings_are_unescaped() {
        let p = PrintkFormats::new(b"0xffff0010 : \"a %d\\n\\t\\101\\x42\"\njunk\n");
        assert_eq!(p.get(0xffff_0010), Some(&b"a %d\n\tAB"[..]));
        assert_eq!(p.len(), 1);
    }

    #[test]
    fn command_names_may_hold_spaces() {
        let mut c = Comms::new(b"12 my task\n7 x\n");
        assert_eq!(c.name(12), b"my task");
        assert_eq!(c.name(0), b"<idle>");
        assert_eq!(c.name(99), b"<...>");
        assert!(!c.learn(12, b"other"));
        assert!(c.learn(99, b"new"));
    }
}
