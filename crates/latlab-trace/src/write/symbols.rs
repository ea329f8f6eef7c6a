//! The part of `/proc/kallsyms` that a trace needs.
//!
//! All of kallsyms is 5 MB with a distribution's kernel, in every file, for the few hundred addresses that
//! occur in it. This keeps each symbol that some word of the recorded data could point into, and
//! its successor, which bounds it: a reader that looks for the nearest symbol at or below an
//! address finds what it would have found in the whole table.

use std::collections::HashSet;

/// kallsyms, sorted by address.
#[derive(Debug)]
pub struct Symbols<'a> {
    /// Address, line; sorted by address, the file's order among equals.
    lines: Vec<(u64, &'a [u8])>,
    /// Bytes of a kernel pointer.
    word: usize,
    big_endian: bool,
    used: HashSet<u64>,
    /// Last words seen, by a few of their bits: most are repeated.
    recent: Vec<u64>,
}

const RECENT: usize = 1024;

impl<'a> Symbols<'a> {
    /// Reads the text of kallsyms. Lines that are not `ADDRESS TYPE NAME` are left out, as are
    /// all lines of a kernel that hides its addresses (they are zero).
    pub fn parse(kallsyms: &'a [u8], word: usize, big_endian: bool) -> Self {
        let mut lines: Vec<(u64, &[u8])> = kallsyms
            .split(|&b| b == b'\n')
            .filter_map(|line| {
                let end = line.iter().position(|&b| b == b' ')?;
                let address = std::str::from_utf8(line.get(..end)?).ok()?;
                let address = u64::from_str_radix(address, 16).ok()?;
                (address != 0).then_some((address, line))
            })
            .collect();
        lines.sort_by_key(|&(address, _)| address);
        Self { lines, word, big_endian, used: HashSet::new(), recent: vec![0; RECENT] }
    }

    /// Takes note of every word in these pages that could be the address of a symbol.
    pub fn scan(&mut self, pages: &[u8]) {
        let (Some(low), Some(high)) = (self.lowest(), self.highest()) else { return };
        let (word, big) = (self.word, self.big_endian);
        let decode = |b: &[u8]| -> u64 {
            match (<[u8; 8]>::try_from(b), <[u8; 4]>::try_from(b), big) {
                (Ok(b), _, false) => u64::from_le_bytes(b),
                (Ok(b), _, true) => u64::from_be_bytes(b),
                (_, Ok(b), false) => u32::from_le_bytes(b).into(),
                (_, Ok(b), true) => u32::from_be_bytes(b).into(),
                _ => 0,
            }
        };
        // Records are multiples of 4 bytes, so an 8-byte word may lie at any multiple of 4.
        let mut at = 0;
        while let Some(bytes) = pages.get(at..at + word) {
            let value = decode(bytes);
            if value >= low && value <= high {
                self.note(value);
            }
            at += 4;
        }
    }

    fn note(&mut self, value: u64) {
        let slot = usize::try_from(value.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54).unwrap_or(0);
        match self.recent.get_mut(slot) {
            Some(seen) if *seen == value => {}
            Some(seen) => {
                *seen = value;
                self.used.insert(value);
            }
            None => {
                self.used.insert(value);
            }
        }
    }

    fn lowest(&self) -> Option<u64> {
        self.lines.first().map(|l| l.0)
    }

    /// Addresses a little past the last symbol still belong to it.
    fn highest(&self) -> Option<u64> {
        self.lines.last().map(|l| l.0.saturating_add(1 << 16))
    }

    /// The lines that are needed, in kallsyms' format, by address.
    pub fn needed(&self) -> Vec<u8> {
        let mut keep = vec![false; self.lines.len()];
        for &address in &self.used {
            let after = self.lines.partition_point(|l| l.0 <= address);
            // All names of the symbol's own address, and of the one that follows.
            for edge in [after.checked_sub(1), Some(after)].into_iter().flatten() {
                let Some(&(own, _)) = self.lines.get(edge) else { continue };
                let first = self.lines.partition_point(|l| l.0 < own);
                let past = self.lines.partition_point(|l| l.0 <= own);
                keep[first..past].fill(true);
            }
        }
        let mut text = Vec::new();
        for ((_, line), _) in self.lines.iter().zip(&keep).filter(|(_, k)| **k) {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &[u8] = b"ffff0100 T first\nffff0200 T second\nffff0200 t alias\n\
ffff0300 T third\nffff0400 T fourth\n00000000 a hidden\nnonsense\nffff9000 t mod_f\t[module]\n";

    fn needed(words: &[u32]) -> String {
        let mut symbols = Symbols::parse(KALLSYMS, 4, false);
        let pages: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        symbols.scan(&pages);
        String::from_utf8(symbols.needed()).unwrap()
    }

    #[test]
    fn a_symbol_comes_with_its_aliases_and_its_successor() {
        let want = "ffff0200 T second\nffff0200 t alias\nffff0300 T third\n";
        assert_eq!(needed(&[1, 0xffff_0234, 2]), want);
        assert_eq!(needed(&[0xffff_0200]), want);
    }

    #[test]
    fn the_last_symbol_has_no_successor_and_words_outside_are_ignored() {
        assert_eq!(needed(&[0xffff_9010]), "ffff9000 t mod_f\t[module]\n");
        assert_eq!(needed(&[0xffff_00ff, 0, 7]), "");
    }

    #[test]
    fn eight_byte_words_are_found_at_multiples_of_four() {
        let text = b"ffffffff81000000 T a\nffffffff81000100 T b\nffffffff81000200 T c\n";
        for big in [false, true] {
            let mut symbols = Symbols::parse(text, 8, big);
            let value = 0xffff_ffff_8100_0104_u64;
            let mut pages = vec![0; 4];
            pages.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() });
            symbols.scan(&pages);
            assert_eq!(
                String::from_utf8(symbols.needed()).unwrap(),
                "ffffffff81000100 T b\nffffffff81000200 T c\n"
            );
        }
    }
}
