//! Where functions are defined: DWARF of a kernel (`vmlinux`) or of a module (`x.ko`).
//!
//! The file is mapped, and each unit's functions are skipped by their siblings, so that a
//! kernel's gigabyte is read in place, on as many threads as there are CPUs. Functions are found
//! by name, static ones included: where a kernel lies in memory is not known from a trace.
//! Format: DWARF Debugging Information Format, version 5, chapters 3.3 and 6.2.

use anyhow::{Context, anyhow};
use flate2::read::ZlibDecoder;
use gimli::{
    AttributeValue, DW_AT_decl_file, DW_AT_decl_line, DW_AT_declaration, DW_AT_name,
    DW_TAG_subprogram, Dwarf, EndianSlice, Reader as _, ReaderOffset, RelocateReader,
    RunTimeEndian, SectionId, Unit, UnitHeader,
};
use latlab_sys::mmap::Mapped;
use object::{CompressionFormat, Object, ObjectKind, ObjectSection, RelocationMap};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::thread;

use crate::outcome::HintExt;

/// A file with debug information.
pub struct DebugInfo {
    path: PathBuf,
    data: Mapped,
    /// The module's name, with underscores; `None` for a kernel.
    pub module: Option<String>,
    /// `uname -r` of its kernel, where the file tells it.
    pub release: Option<String>,
    /// Its build id, where it has one.
    pub build_id: Option<Vec<u8>>,
}

/// Functions, each with the lines that define one of that name.
pub type Lines = BTreeMap<String, BTreeSet<String>>;

/// Name, file, line.
type Hit = (String, String, u64);

impl DebugInfo {
    /// Opens a kernel or a module.
    ///
    /// # Errors
    /// One sentence: it cannot be read, is no ELF file, has no debug information.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let data = Mapped::open(path).with_context(|| path.display().to_string())?;
        let file = object::File::parse(&*data)
            .map_err(|_| anyhow!("{}: not an ELF file", path.display()))
            .hint("name vmlinux of the kernel's build; not bzImage, zImage or vmlinuz")?;
        if file.section_by_name(".debug_info").is_none() {
            return Err(anyhow!("{}: no debug information (DWARF)", path.display())).hint(
                "distributions have it in a package of its own (…-dbg, …-debuginfo, …-dbgsym); \
                 a kernel of your own needs CONFIG_DEBUG_INFO",
            );
        }
        // Modules say their name since 4.13; a file may be called anything.
        let own_name = || after(&file, ".modinfo", b"\0name=");
        let module = (file.kind() == ObjectKind::Relocatable)
            .then(|| own_name().unwrap_or_else(|| module_name(path)));
        let release = match module {
            Some(_) => after(&file, ".modinfo", b"vermagic="),
            None => after(&file, ".rodata", b"Linux version "),
        };
        let build_id = file.build_id().ok().flatten().map(<[u8]>::to_vec);
        drop(file);
        Ok(Self { path: path.to_owned(), data, module, release, build_id })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where functions of these names are defined; compressed sections may inflate to `memory` bytes.
    ///
    /// # Errors
    /// One sentence, when the debug information is damaged as a whole or inflates to more; damaged
    /// units are left out.
    pub fn lines(&self, names: &BTreeSet<&str>, memory: u64) -> anyhow::Result<Lines> {
        let what = || format!("{}: debug information", self.path.display());
        let file = object::File::parse(&*self.data).with_context(what)?;
        let mut left = memory;
        let sections =
            gimli::DwarfSections::load(|id| Section::load(&file, id, Wanted::Names, &mut left))
                .with_context(what)?;
        let endian =
            if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let dwarf = sections.borrow(|section| section.reader(endian));
        let mut units = Vec::new();
        let mut headers = dwarf.units();
        // What follows a damaged header cannot be found.
        while let Ok(Some(header)) = headers.next() {
            units.push(header);
        }
        if units.is_empty() {
            return Err(anyhow!("{}: its debug information cannot be read", self.path.display()));
        }
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let share = units.len().div_ceil(threads);
        let dwarf = &dwarf;
        let found: Vec<Found> = thread::scope(|scope| {
            let one = |some| scope.spawn(move || search(dwarf, some, names));
            let running: Vec<_> = units.chunks(share).map(one).collect();
            running.into_iter().filter_map(|t| t.join().ok()).collect()
        });
        let root = found.iter().find_map(|f| f.root.clone()).unwrap_or_default();
        let mut lines = Lines::new();
        for (name, file, line) in found.into_iter().flat_map(|f| f.hits) {
            let place = format!("{}:{line}", in_tree(&file, &root));
            lines.entry(name).or_default().insert(place);
        }
        Ok(lines)
    }
}

/// `ehci_hcd` of `…/ehci-hcd.ko.debug`.
fn module_name(path: &Path) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    name.split(".ko").next().unwrap_or_default().replace('-', "_")
}

/// The word after a mark in a section.
fn after(file: &object::File<'_>, section: &str, mark: &[u8]) -> Option<String> {
    let section = file.section_by_name(section)?;
    let data = section.data().ok()?;
    let at = memchr::memmem::find(data, mark)? + mark.len();
    let word = data[at..].split(|b| b" \0\n".contains(b)).next()?;
    (!word.is_empty() && word.len() < 100).then(|| String::from_utf8_lossy(word).into_owned())
}

/// What functions are looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Their names.
    Names,
    /// Addresses in them.
    Addresses,
}

/// A section's bytes and what has to be added to its offsets: modules are not linked yet.
#[derive(Default)]
pub(super) struct Section<'a> {
    data: Cow<'a, [u8]>,
    relocations: Relocations,
}

#[derive(Debug, Default)]
pub(super) struct Relocations(Option<RelocationMap>);

pub(super) type Reader<'a> = RelocateReader<EndianSlice<'a, RunTimeEndian>, &'a Relocations>;

impl gimli::Relocate for &Relocations {
    fn relocate_address(&self, offset: usize, value: u64) -> gimli::Result<u64> {
        Ok(self.0.as_ref().map_or(value, |map| map.relocate(offset as u64, value)))
    }
    fn relocate_offset(&self, offset: usize, value: usize) -> gimli::Result<usize> {
        usize::from_u64(self.relocate_address(offset, value as u64)?)
    }
}

impl<'a> Section<'a> {
    /// A section, with what it inflates to taken from the memory that is `left`.
    ///
    /// # Errors
    /// When it is damaged, or inflates to more.
    pub(super) fn load(
        file: &object::File<'a>,
        id: SectionId,
        wanted: Wanted,
        left: &mut u64,
    ) -> anyhow::Result<Self> {
        let by_address = matches!(
            id,
            SectionId::DebugAranges | SectionId::DebugRanges | SectionId::DebugRngLists
        );
        // What functions are called and where they are is in these.
        let needed = wanted == Wanted::Addresses && by_address
            || matches!(
                id,
                SectionId::DebugInfo
                | SectionId::DebugAbbrev
                | SectionId::DebugStr
                | SectionId::DebugStrOffsets
                | SectionId::DebugLine
                | SectionId::DebugLineStr
                // The lowest address of a unit may be an index into it.
                | SectionId::DebugAddr
            );
        let Some(section) = needed.then(|| file.section_by_name(id.name())).flatten() else {
            return Ok(Self::default());
        };
        let map = match file.kind() {
            ObjectKind::Relocatable => section.relocation_map().ok(),
            _ => None,
        };
        Ok(Self { data: plain(&section, left)?, relocations: Relocations(map) })
    }

    pub(super) fn reader(&self, endian: RunTimeEndian) -> Reader<'_> {
        RelocateReader::new(EndianSlice::new(&self.data, endian), &self.relocations)
    }
}

/// A section's content. A compressed one says how large it is: more is not read, and more than `left`
/// is refused.
fn plain<'a>(section: &object::Section<'a, '_>, left: &mut u64) -> anyhow::Result<Cow<'a, [u8]>> {
    let packed = section.compressed_data()?;
    let size = packed.uncompressed_size;
    if packed.format == CompressionFormat::None {
        return Ok(Cow::Borrowed(packed.data));
    }
    *left = left
        .checked_sub(size)
        .ok_or_else(|| anyhow!("a section inflates to {size} bytes, above the limit"))
        .hint(
            "raise --max-memory, or decompress the file with `objcopy --decompress-debug-sections`",
        )?;
    let mut data = Vec::new();
    match packed.format {
        CompressionFormat::Zlib => {
            ZlibDecoder::new(packed.data).take(size).read_to_end(&mut data)?;
        }
        CompressionFormat::Zstandard => {
            zstd::Decoder::new(packed.data)?.take(size).read_to_end(&mut data)?;
        }
        _ => return Err(anyhow!("a section has an unknown compression")),
    }
    Ok(Cow::Owned(data))
}

/// Lines behind the one that is asked for, at most.
const NEAR: u64 = 20;

/// The lowest address of the code of a line; of the next line that has code, where this one has none.
///
/// # Errors
/// One sentence: the file has no debug information, or no code of such a line.
pub(super) fn address_of(path: &Path, file: &str, line: u64) -> anyhow::Result<u64> {
    let data = Mapped::open(path).with_context(|| path.display().to_string())?;
    let elf =
        object::File::parse(&*data).map_err(|_| anyhow!("{}: not an ELF file", path.display()))?;
    if elf.section_by_name(".debug_line").is_none() {
        return Err(anyhow!("{}: no debug information (DWARF)", path.display()))
            .hint("compile with -g, or name a function");
    }
    let mut left = u64::MAX;
    let sections =
        gimli::DwarfSections::load(|id| Section::load(&elf, id, Wanted::Names, &mut left))?;
    let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let dwarf = sections.borrow(|section| section.reader(endian));
    // The nearest line, then the lowest address.
    let mut best: Option<(u64, u64)> = None;
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        if let Ok(unit) = dwarf.unit(header) {
            // A damaged unit ends here, with what was found in it.
            let _ = nearest(&dwarf, &unit, (file, line), &mut best);
        }
    }
    let (_, address) =
        best.ok_or_else(|| anyhow!("{}: no code of {file}:{line}", path.display()))?;
    Ok(address)
}

fn nearest<'a>(
    dwarf: &Dwarf<Reader<'a>>,
    unit: &Unit<Reader<'a>>,
    (file, line): (&str, u64),
    best: &mut Option<(u64, u64)>,
) -> gimli::Result<()> {
    let Some(program) = unit.line_program.clone() else { return Ok(()) };
    let mut wanted: BTreeMap<u64, bool> = BTreeMap::new();
    let mut rows = program.rows();
    while let Some((_, row)) = rows.next_row()? {
        let own = row.line().map_or(0, |l| l.get());
        if row.end_sequence()
            || !row.is_stmt()
            || !(line..=line.saturating_add(NEAR)).contains(&own)
        {
            continue;
        }
        let is_file = *wanted.entry(row.file_index()).or_insert_with(|| {
            path_of(dwarf, unit, row.file_index())
                .is_some_and(|path| path == file || path.ends_with(&format!("/{file}")))
        });
        let found = (own, row.address());
        if is_file && best.is_none_or(|best| found < best) {
            *best = Some(found);
        }
    }
    Ok(())
}

/// What one thread found.
#[derive(Default)]
struct Found {
    hits: Vec<Hit>,
    /// The source tree's folder, with its slash, where this thread met `init/main.c`.
    root: Option<String>,
}

fn search<'a>(
    dwarf: &Dwarf<Reader<'a>>,
    units: &[UnitHeader<Reader<'a>>],
    names: &BTreeSet<&str>,
) -> Found {
    let mut found = Found::default();
    for header in units {
        if let Ok(unit) = dwarf.unit(header.clone()) {
            if let Some(root) = root_of(&unit) {
                found.root = Some(root);
            }
            // A damaged unit ends here, with what was found in it.
            let _ = search_unit(dwarf, &unit, names, &mut found.hits);
        }
    }
    found
}

fn search_unit<'a>(
    dwarf: &Dwarf<Reader<'a>>,
    unit: &Unit<Reader<'a>>,
    names: &BTreeSet<&str>,
    hits: &mut Vec<Hit>,
) -> gimli::Result<()> {
    let mut entries = unit.entries();
    entries.next_dfs()?;
    if entries.next_dfs()?.is_none_or(|(depth, _)| depth != 1) {
        return Ok(());
    }
    while let Some(entry) = entries.current() {
        if entry.tag() == DW_TAG_subprogram
            && let Some(name) = entry.attr_value(DW_AT_name)?
            && let Some(name) = names.get(&*dwarf.attr_string(unit, name)?.to_string_lossy()?)
            && entry.attr(DW_AT_declaration)?.is_none()
            && let Some(AttributeValue::FileIndex(file)) = entry.attr_value(DW_AT_decl_file)?
            && let Some(line) = entry.attr(DW_AT_decl_line)?.and_then(|a| a.udata_value())
            && let Some(path) = path_of(dwarf, unit, file)
        {
            hits.push(((*name).to_owned(), path, line));
        }
        if entries.next_sibling()?.is_none() {
            return Ok(());
        }
    }
    Ok(())
}

/// A file of a unit: folder of the compilation, folder, file, as far as each is no whole path.
fn path_of<'a>(dwarf: &Dwarf<Reader<'a>>, unit: &Unit<Reader<'a>>, file: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(file)?;
    let text =
        |value| Some(dwarf.attr_string(unit, value).ok()?.to_string_lossy().ok()?.into_owned());
    let mut path = folder_of(unit).unwrap_or_default();
    if let Some(folder) = file.directory(header).and_then(text) {
        path = path.join(folder);
    }
    Some(cleaned(&path.join(text(file.path_name())?)))
}

fn folder_of(unit: &Unit<Reader<'_>>) -> Option<PathBuf> {
    Some(PathBuf::from(unit.comp_dir.as_ref()?.to_string_lossy().ok()?.as_ref()))
}

/// The folder of the source tree, from the unit of `init/main.c`.
fn root_of(unit: &Unit<Reader<'_>>) -> Option<String> {
    let name = unit.name.as_ref()?.to_string_lossy().ok()?;
    if !name.ends_with("init/main.c") {
        return None;
    }
    let whole = cleaned(&folder_of(unit).unwrap_or_default().join(name.as_ref()));
    whole.strip_suffix("init/main.c").map(str::to_owned)
}

/// A path without `.` and `..`.
fn cleaned(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let text = path.to_string_lossy();
    for part in text.split('/') {
        match part {
            "." | "" => {}
            ".." if parts.last().is_some_and(|p| *p != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    let absolute = if text.starts_with('/') { "/" } else { "" };
    format!("{absolute}{}", parts.join("/"))
}

/// Folders at the top of the kernel's source.
const TOP: &[&str] = &[
    "arch", "block", "certs", "crypto", "drivers", "fs", "include", "init", "io_uring", "ipc",
    "kernel", "lib", "mm", "net", "rust", "security", "sound", "virt",
];

/// A path as it is in the kernel's source tree: below `root` where that is known, else below a folder
/// that is called `linux…`. Sources from elsewhere keep their whole path.
fn in_tree(path: &str, root: &str) -> String {
    if let Some(inside) = path.strip_prefix(root).filter(|_| !root.is_empty()) {
        return inside.to_owned();
    }
    let parts: Vec<&str> = path.split('/').collect();
    let top = (1..parts.len())
        .rev()
        .find(|&i| TOP.contains(&parts[i]) && parts[i - 1].starts_with("linux"));
    top.map_or_else(|| path.to_owned(), |i| parts[i..].join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    /// Compiles with the system's compiler; `None` where there is none.
    fn compiled(dir: &Path, source: &str, name: &str, options: &[&str]) -> Option<PathBuf> {
        let c = dir.join(format!("{name}.c"));
        fs::create_dir_all(c.parent().unwrap()).unwrap();
        fs::write(&c, source).unwrap();
        let out = dir.join(format!("{name}.ko"));
        let done = Command::new("cc")
            .current_dir(dir)
            .args(["-g", "-O1", "-c", "-o"])
            .arg(&out)
            .args(options)
            .arg(&c)
            .status();
        match done {
            Ok(status) => assert!(status.success()),
            Err(_) if std::env::var_os("CI").is_none() => {
                // Past the capture of the test's output: `scripts/test` counts it.
                let _ =
                    std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no C compiler\n");
                return None;
            }
            Err(e) => panic!("cc: {e}"),
        }
        Some(out)
    }

    const SOURCE: &str = "/* 1 */\n__attribute__((noinline)) static int hidden(int x)\n{\n  return x * 3;\n}\n\
        static inline int folded(int x) { return x + 1; }\n\
        int declared(int);\n\
        int shown(int x)\n{\n  return hidden(folded(x)) + declared(x);\n}\n";

    /// More than what any of these files inflates to, bytes.
    const MEMORY: u64 = 1 << 20;

    fn names<'a>(names: &[&'a str]) -> BTreeSet<&'a str> {
        names.iter().copied().collect()
    }

    #[test]
    fn functions_are_found_by_name_static_and_inlined_ones_too() {
        let dir = tempfile::tempdir().unwrap();
        let all = ["hidden", "folded", "declared", "shown", "absent"];
        for options in
            [&["-gdwarf-5"][..], &["-gdwarf-4"], &["-gz=zlib"], &["-gdwarf-5", "-gz=none"]]
        {
            let Some(file) = compiled(dir.path(), SOURCE, "drivers/some-mod", options) else {
                return;
            };
            let info = DebugInfo::open(&file).unwrap();
            assert_eq!(info.module.as_deref(), Some("some_mod"));
            let lines = info.lines(&names(&all), MEMORY).unwrap();
            let of = |name: &str| lines.get(name).map(|l| l.iter().cloned().collect::<Vec<_>>());
            let at = |line: u32| {
                Some(vec![format!("{}/drivers/some-mod.c:{line}", dir.path().display())])
            };
            assert_eq!(of("hidden"), at(2), "{options:?}");
            assert_eq!(of("folded"), at(6), "{options:?}");
            assert_eq!(of("shown"), at(8), "{options:?}");
            assert_eq!((of("declared"), of("absent")), (None, None), "{options:?}");
            if options == ["-gz=zlib"] {
                let error = format!("{:#}", info.lines(&names(&all), 100).unwrap_err());
                assert!(error.contains("above the limit"), "{error}");
            }
        }
    }

    #[test]
    fn functions_of_one_name_are_told_apart_and_paths_are_those_of_the_tree() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("linux-6.1.2");
        let main = "static int twice(void) { return 1; }\nint (*a)(void) = twice;\n";
        let other = "\nstatic int twice(void) { return 2; }\nint (*b)(void) = twice;\n";
        let Some(one) = compiled(&tree, main, "init/main", &[]) else { return };
        let Some(two) = compiled(&tree, other, "drivers/other", &[]) else { return };
        let whole = dir.path().join("both.ko");
        let joined = Command::new("cc")
            .args(["-nostdlib", "-r", "-o"])
            .arg(&whole)
            .args([&one, &two])
            .status();
        assert!(joined.unwrap().success());
        let lines = DebugInfo::open(&whole).unwrap().lines(&names(&["twice"]), MEMORY).unwrap();
        let found: Vec<&String> = lines["twice"].iter().collect();
        assert_eq!(found, ["drivers/other.c:2", "init/main.c:1"]);
    }

    #[test]
    fn what_is_no_kernel_is_refused_in_a_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("vmlinux");
        fs::write(&text, "no kernel").unwrap();
        let said = |path: &Path| DebugInfo::open(path).err().map(|e| format!("{e:#}")).unwrap();
        assert!(said(&text).ends_with("vmlinux: not an ELF file"));
        let Some(file) = compiled(dir.path(), SOURCE, "plain", &["-g0"]) else { return };
        assert!(said(&file).ends_with("plain.ko: no debug information (DWARF)"));
        assert!(said(&dir.path().join("nothing")).contains("No such file"));
        // Cut anywhere: an error or fewer functions, never a panic.
        let Some(file) = compiled(dir.path(), SOURCE, "whole", &[]) else { return };
        let bytes = fs::read(&file).unwrap();
        for cut in (0..bytes.len()).step_by(97) {
            let mut bad = bytes.clone();
            bad[cut] ^= 0xff;
            fs::write(&text, &bad).unwrap();
            if let Ok(info) = DebugInfo::open(&text) {
                let _ = info.lines(&names(&["hidden"]), MEMORY);
            }
            fs::write(&text, &bytes[..cut]).unwrap();
            if let Ok(info) = DebugInfo::open(&text) {
                let _ = info.lines(&names(&["hidden"]), MEMORY);
            }
        }
    }

    #[test]
    fn paths_are_shortened_to_the_tree() {
        assert_eq!(in_tree("/b/linux-6.1/kernel/fork.c", "/b/linux-6.1/"), "kernel/fork.c");
        assert_eq!(in_tree("/build/linux-x9/linux-6.1.2/drivers/a/b.c", ""), "drivers/a/b.c");
        assert_eq!(in_tree("/home/me/kernel/mod.c", ""), "/home/me/kernel/mod.c");
        assert_eq!(cleaned(Path::new("/a/b/../c/./d.c")), "/a/c/d.c");
        assert_eq!(module_name(Path::new("/x/snd-hda-intel.ko.debug")), "snd_hda_intel");
    }
}
