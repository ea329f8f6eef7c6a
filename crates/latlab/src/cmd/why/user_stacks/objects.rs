//! An executable or library of a program: how its stacks are unwound, and its functions by address.

use crate::cmd::why::debug_info::{Section, Wanted};
use crate::trace_input;
use addr2line::{Context, demangle_auto};
use framehop::ExplicitModuleSectionInfo;
use gimli::{DwarfSections, RunTimeEndian};
use latlab_model::latency::UserFrame;
use latlab_sys::mmap::Mapped;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Bytes of unwind tables of a file that are read at most.
const TABLES: usize = 64 << 20;
/// Functions of one address that the compiler put into each other, at most.
const INLINED: usize = 16;

/// What the unwinder takes of a file.
pub(super) type Sections = ExplicitModuleSectionInfo<Vec<u8>>;

/// A file that is mapped into a program.
pub(super) struct ObjectFile {
    name: String,
    data: Mapped,
}

impl ObjectFile {
    /// `None`: it cannot be read, or is no ELF file.
    pub(super) fn open(path: &Path, name: &str) -> Option<Self> {
        let data = Mapped::open(path).ok()?;
        object::File::parse(&*data).ok()?;
        Some(Self { name: name.to_owned(), data })
    }

    fn parsed(&self) -> Option<object::File<'_>> {
        object::File::parse(&*self.data).ok()
    }

    /// The address of the byte at an offset, by the segments.
    pub(super) fn address_of(&self, offset: u64) -> Option<u64> {
        self.parsed()?.segments().find_map(|segment| {
            let (start, size) = segment.file_range();
            // A mapping begins with the page.
            let page = start & !0xfff;
            let inside = (page..start.checked_add(size)?).contains(&offset);
            inside.then(|| segment.address().wrapping_sub(start).wrapping_add(offset))
        })
    }

    /// The unwind tables, without the search table `.eh_frame_hdr`: nothing says that it is right, and the unwinder makes
    /// one of its own.
    pub(super) fn unwind_sections(&self) -> Sections {
        let mut found = Sections::default();
        let Some(file) = self.parsed() else { return found };
        let of = |name: &str| {
            let section = file.section_by_name(name)?;
            let data = section.data().ok().filter(|d| d.len() <= TABLES)?;
            let range = section.address()..section.address().checked_add(section.size())?;
            Some((range, data.to_vec()))
        };
        (found.eh_frame_svma, found.eh_frame) = of(".eh_frame").unzip();
        (found.text_svma, found.text) = of(".text").unzip();
        found.got_svma = of(".got").map(|s| s.0);
        found
    }

    /// The functions at addresses, innermost first: by debug information, or else by symbols.
    pub(super) fn functions(&self, addresses: &[u64]) -> Vec<Vec<UserFrame>> {
        let Some(file) = self.parsed() else { return vec![Vec::new(); addresses.len()] };
        let apart = separate(&file).and_then(|path| Mapped::open(&path).ok());
        let apart = apart.as_ref().and_then(|data| object::File::parse(&**data).ok());
        let mut symbols = Symbols::default();
        symbols.add(&file);
        apart.iter().for_each(|file| symbols.add(file));
        symbols.finish();
        let mut found: Vec<Vec<UserFrame>> = addresses.iter().map(|_| Vec::new()).collect();
        let has_lines = |f: &&object::File<'_>| f.section_by_name(".debug_info").is_some();
        if let Some(file) = [Some(&file), apart.as_ref()].into_iter().flatten().find(has_lines) {
            // What is damaged is named by its symbol.
            let _ = by_lines(file, addresses, &self.name, &symbols, &mut found);
        }
        for (frames, &address) in found.iter_mut().zip(addresses) {
            if frames.is_empty() {
                let function = symbols.at(address).unwrap_or_else(|| format!("+{address:#x}"));
                frames.push(UserFrame {
                    function,
                    object: self.name.clone(),
                    ..UserFrame::default()
                });
            }
        }
        found
    }
}

/// The file with debug information that a distribution has in a package of its own, by the build id.
fn separate(file: &object::File<'_>) -> Option<PathBuf> {
    let id = file.build_id().ok()??;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2)?;
    Some(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug").into())
}

/// The functions of addresses by debug information, those included that the compiler put into others.
fn by_lines(
    file: &object::File<'_>,
    addresses: &[u64],
    name: &str,
    symbols: &Symbols<'_>,
    found: &mut [Vec<UserFrame>],
) -> anyhow::Result<()> {
    let mut left = trace_input::memory();
    let sections = DwarfSections::load(|id| Section::load(file, id, Wanted::Addresses, &mut left))?;
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let context = Context::from_dwarf(sections.borrow(|section| section.reader(endian)))?;
    for (frames, &address) in found.iter_mut().zip(addresses) {
        let Ok(mut all) = context.find_frames(address).skip_all_loads() else { continue };
        while let Ok(Some(frame)) = all.next() {
            if let Some(last) = frames.last_mut() {
                last.inlined = true;
            }
            let named = frame.function.as_ref().and_then(|f| f.demangle().ok());
            let named = named.map(Cow::into_owned).or_else(|| symbols.at(address));
            let Some(function) = named else { break };
            let line = frame.location.and_then(|l| Some(place(l.file?, l.line?)));
            let place = line.unwrap_or_default();
            let (object, inlined) = (name.to_owned(), false);
            frames.push(UserFrame { function, object, place, inlined });
            if frames.len() == INLINED {
                break;
            }
        }
    }
    Ok(())
}

/// File and line; of a whole path the last directory and the file.
fn place(file: &str, line: u32) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in file.split('/').filter(|p| !p.is_empty() && *p != ".") {
        match part == ".." && parts.last().is_some_and(|last| *last != "..") {
            true => drop(parts.pop()),
            false => parts.push(part),
        }
    }
    let first = if file.starts_with('/') { parts.len().saturating_sub(2) } else { 0 };
    format!("{}:{line}", parts[first..].join("/"))
}

/// The functions of a file's symbol tables.
#[derive(Default)]
struct Symbols<'a>(Vec<(u64, u64, &'a str)>);

impl<'a> Symbols<'a> {
    fn add(&mut self, file: &object::File<'a>) {
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.kind() == SymbolKind::Text
                && symbol.is_definition()
                && let Ok(name) = symbol.name()
            {
                self.0.push((symbol.address(), symbol.size(), name));
            }
        }
    }

    fn finish(&mut self) {
        // Of several names of one function, the first in the alphabet behind those with underscores.
        self.0.sort_by_key(|(start, size, name)| (*start, *size, name.starts_with('_'), *name));
        self.0.dedup_by_key(|(start, size, _)| (*start, *size));
    }

    /// The function that an address lies in.
    fn at(&self, address: u64) -> Option<String> {
        let next = self.0.partition_point(|s| s.0 <= address);
        let (start, size, name) = self.0.get(next.checked_sub(1)?)?;
        let inside = address - start < (*size).max(1);
        inside.then(|| demangle_auto(Cow::Borrowed(*name), None).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_the_last_directory_of_a_whole_path() {
        assert_eq!(place("/usr/src/app/loop/main.c", 42), "loop/main.c:42");
        assert_eq!(place("/main.c", 1), "main.c:1");
        assert_eq!(place("nptl/../sysdeps/futex.h", 3), "sysdeps/futex.h:3");
        assert_eq!(place("./src/main.rs", 7), "src/main.rs:7");
    }

    #[test]
    fn a_symbol_ends_with_its_size() {
        let all = vec![
            (0x40, 8, "open"),
            (0x40, 8, "__open"),
            (0x48, 0, "mark"),
            (0x60, 16, "_ZN3foo3barEv"),
        ];
        let mut symbols = Symbols(all);
        symbols.finish();
        assert_eq!(symbols.at(0x47).as_deref(), Some("open"));
        assert_eq!(symbols.at(0x48).as_deref(), Some("mark"));
        assert_eq!(symbols.at(0x6f).as_deref(), Some("foo::bar()"));
        assert_eq!((symbols.at(0x70), symbols.at(0x3f)), (None, None));
    }
}
