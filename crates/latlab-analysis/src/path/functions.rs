//! Functions of addresses, by the guest's `/proc/kallsyms`.

use latlab_trace::names::Symbols;
use std::borrow::Cow;
use std::collections::HashMap;

/// What stands for code outside of the kernel.
pub const USER_SPACE: &str = "(user space)";
/// What stands for the table of exception vectors and its stubs.
pub const VECTOR: &str = "(exception vector)";
/// What stands for code without a symbol.
const UNKNOWN: &str = "(no symbol)";
/// A function that is further from the address than this is not its function: nothing of the
/// kernel's code is as long.
const FUNCTION_MAX: u64 = 1 << 20;

/// A function and a place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the function's name.
    pub function: usize,
    /// Whether it is where the function begins.
    pub entry: bool,
}

/// The functions of a kernel.
#[derive(Debug)]
pub struct Functions {
    symbols: Symbols<'static>,
    user_end: u64,
    vectors: std::ops::Range<u64>,
    names: Vec<String>,
    ids: HashMap<String, usize>,
    places: HashMap<u64, Place>,
}

impl Functions {
    /// From the text of `/proc/kallsyms`; `arch` is QEMU's name of the architecture.
    pub fn new(arch: &str, kallsyms: &[u8]) -> Self {
        let arm = arch == "arm";
        Self {
            symbols: Symbols::new(Cow::Owned(functions_only(kallsyms))),
            user_end: if arm { 0xbf00_0000 } else { 1 << 47 },
            vectors: if arm { 0xffff_0000..0xffff_2000 } else { 0..0 },
            names: Vec::new(),
            ids: HashMap::new(),
            places: HashMap::new(),
        }
    }

    /// The function of an address.
    pub fn at(&mut self, address: u64) -> Place {
        if let Some(place) = self.places.get(&address) {
            return *place;
        }
        let (name, entry) = self.look_up(address);
        let function = self.id(name);
        let place = Place { function, entry };
        self.places.insert(address, place);
        place
    }

    fn look_up(&self, address: u64) -> (String, bool) {
        if self.vectors.contains(&address) {
            return (VECTOR.into(), true);
        }
        if address < self.user_end {
            return (USER_SPACE.into(), false);
        }
        let Some(found) = self.symbols.find(address).filter(|s| s.offset < FUNCTION_MAX) else {
            return (UNKNOWN.into(), false);
        };
        let name = String::from_utf8_lossy(found.name);
        // The compiler moves unlikely parts away from their function.
        let whole = name.strip_suffix(".cold");
        let entry = found.offset == 0 && whole.is_none();
        let name = whole.unwrap_or(&name);
        if found.module.is_empty() {
            return (name.into(), entry);
        }
        ([name, " [", &String::from_utf8_lossy(found.module), "]"].concat(), entry)
    }

    fn id(&mut self, name: String) -> usize {
        let next = self.names.len();
        *self.ids.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }

    /// Its name.
    pub fn name(&self, function: usize) -> &str {
        self.names.get(function).map_or(UNKNOWN, String::as_str)
    }
}

/// The lines of functions: no data, no marks of the assembler, no borders of sections, which have
/// the address of the function that follows.
fn functions_only(kallsyms: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(kallsyms.len() / 2);
    for line in kallsyms.split_inclusive(|b| *b == b'\n') {
        let mut words = line.split(|b| b.is_ascii_whitespace());
        let (_, kind, name) = (words.next(), words.next(), words.next().unwrap_or_default());
        let is_code = kind.is_some_and(|k| matches!(k, b"t" | b"T" | b"w" | b"W"));
        let is_border = name.starts_with(b"$")
            || name.ends_with(b"_text_start")
            || matches!(name, b"_text" | b"_stext" | b"__irqentry_text_end");
        if is_code && !is_border {
            kept.extend_from_slice(line);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &[u8] = b"c0100000 T _stext\nc0100000 T __lock_text_start\nc0100000 T _raw_spin_lock\n\
        c0100100 t $a\nc0100100 t schedule\nc0100180 t schedule.cold\nc0100200 d jiffies\nc0100300 T last\n\
        bf000000 t probe\t[virtio]\nbf000100 t rest\t[virtio]\n";

    #[test]
    fn addresses_have_functions() {
        let mut functions = Functions::new("arm", KALLSYMS);
        let mut of = |address| {
            let place = functions.at(address);
            (functions.name(place.function).to_owned(), place.entry)
        };
        assert_eq!(of(0xc010_0000), ("_raw_spin_lock".into(), true));
        assert_eq!(of(0xc010_0104), ("schedule".into(), false));
        assert_eq!(of(0xc010_0180), ("schedule".into(), false), "a part of it elsewhere");
        assert_eq!(of(0xc010_0210), ("schedule".into(), false), "data are no function");
        assert_eq!(of(0xbf00_0000), ("probe [virtio]".into(), true));
        assert_eq!(of(0x0001_0000), (USER_SPACE.into(), false));
        assert_eq!(of(0xffff_0018), (VECTOR.into(), true));
        assert_eq!(of(0xd000_0000), (UNKNOWN.into(), false));
        assert_eq!(Functions::new("arm", b"").name(7), UNKNOWN);
    }
}
