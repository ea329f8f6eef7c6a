//! Names that events carry, interned.

use std::collections::HashMap;
use std::fmt;

/// An interned name: of a function, an interrupt, a task. 0 is the empty name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(pub u32);

/// An interned stack of return addresses; see [`Names::stack`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StackId(pub u32);

/// The names and stacks that the events of one trace refer to.
#[derive(Clone, Debug)]
pub struct Names {
    names: Vec<Box<str>>,
    index: HashMap<Box<str>, Symbol>,
    stacks: Vec<Box<[Symbol]>>,
}

impl Default for Names {
    fn default() -> Self {
        let index = HashMap::from([("".into(), Symbol(0))]);
        Self { names: vec!["".into()], index, stacks: Vec::new() }
    }
}

impl Names {
    /// The symbol of a name, new or known.
    pub fn intern(&mut self, name: &str) -> Symbol {
        if let Some(&known) = self.index.get(name) {
            return known;
        }
        let symbol = self.add(name);
        self.index.insert(name.into(), symbol);
        symbol
    }

    /// A symbol of its own for a text that is not likely to come again: it is not indexed.
    pub fn add(&mut self, text: &str) -> Symbol {
        let symbol = Symbol(self.names.len() as u32);
        self.names.push(text.into());
        symbol
    }

    /// The symbol of a name, where it is known.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        self.index.get(name).copied()
    }

    /// The name of a symbol; empty for a symbol of another table.
    pub fn get(&self, symbol: Symbol) -> &str {
        self.names.get(symbol.0 as usize).map_or("", |n| n)
    }

    /// All symbols.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol> + use<> {
        (0..self.names.len() as u32).map(Symbol)
    }

    /// Adds a stack, innermost function first.
    pub fn add_stack(&mut self, frames: &[Symbol]) -> StackId {
        self.stacks.push(frames.into());
        StackId(self.stacks.len() as u32 - 1)
    }

    /// The functions of a stack, innermost first; none for a stack of another table.
    pub fn stack(&self, id: StackId) -> &[Symbol] {
        self.stacks.get(id.0 as usize).map_or(&[], |s| s)
    }
}

/// A task's name as records carry it: at most sixteen bytes, in one word that compares fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Comm(u128);

impl Comm {
    /// The first sixteen bytes of a name, up to a NUL.
    #[inline]
    pub fn new(bytes: &[u8]) -> Self {
        let mut all = [0u8; 16];
        for (to, from) in all.iter_mut().zip(bytes) {
            if *from == 0 {
                break;
            }
            *to = *from;
        }
        Self(u128::from_le_bytes(all))
    }

    /// Whether there is no name.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.to_le_bytes();
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        f.write_str(&String::from_utf8_lossy(&bytes[..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comm_has_sixteen_bytes_and_ends_at_nul() {
        assert_eq!(Comm::new(b"bash\0rest").to_string(), "bash");
        assert_eq!(Comm::new(b"a-name-that-is-too-long").to_string(), "a-name-that-is-t");
        assert_eq!(Comm::new(b"bash"), Comm::new(b"bash\0\0"));
        assert!(Comm::new(b"").is_empty());
    }

    #[test]
    fn a_name_has_one_symbol() {
        let mut names = Names::default();
        let (a, b) = (names.intern("schedule"), names.intern("try_to_wake_up"));
        assert_ne!(a, b);
        assert_eq!((names.intern("schedule"), names.find("schedule")), (a, Some(a)));
        assert_eq!(
            (names.get(a), names.get(Symbol(9)), names.get(Symbol(0))),
            ("schedule", "", "")
        );
        let stack = names.add_stack(&[b, a]);
        assert_eq!(names.stack(stack), [b, a]);
        assert!(names.stack(StackId(7)).is_empty());
    }
}
