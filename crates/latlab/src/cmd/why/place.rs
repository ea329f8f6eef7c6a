//! Places of a program as file offsets: functions (symbols of ELF), `FILE:LINE` (DWARF), static probes
//! (`.note.stapsdt`, as SystemTap's `sys/sdt.h` writes them).

use super::debug_info;
use crate::outcome::HintExt;
use anyhow::{Context, anyhow, bail};
use latlab_sys::mmap::Mapped;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use std::path::{Path, PathBuf};

/// Functions with similar names that are listed.
const SIMILAR: usize = 6;

/// A place as `uprobe_events` takes it: `/PATH:0xOFFSET`, of a static probe with its semaphore.
///
/// # Errors
/// One sentence: the program cannot be read, or has no such place.
pub(super) fn of_program(option: &str, place: &str) -> anyhow::Result<String> {
    let what = || format!("{option} {place}");
    if let Some(rest) = place.strip_prefix("usdt:") {
        let mut parts = rest.rsplitn(3, ':');
        let (Some(name), Some(provider), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(anyhow!("{}: expected PATH:PROVIDER:NAME", what()))
                .hint("usdt:./loop:app:frame_done");
        };
        let program = Program::open(path).with_context(what)?;
        return program.static_probe(provider, name).with_context(what);
    }
    let Some((before, last)) = place.rsplit_once(':') else {
        return Err(anyhow!("{}: expected PATH:PLACE", what()))
            .hint("uprobe:./loop:receive, uprobe:./loop:loop.c:120, uprobe:./loop:0x1189");
    };
    if last.starts_with("0x") {
        let program = Program::open(before).with_context(what)?;
        return Ok(format!("{}:{last}", program.path));
    }
    if let (Ok(line), Some((path, file))) = (last.parse::<u64>(), before.rsplit_once(':')) {
        let program = Program::open(path).with_context(what)?;
        let address =
            debug_info::address_of(Path::new(&program.path), file, line).with_context(what)?;
        return program.place(address).with_context(what);
    }
    let program = Program::open(before).with_context(what)?;
    let address = program.function(last).with_context(what)?;
    program.place(address).with_context(what)
}

/// The file of a program or library: the name of a library without a folder is searched in the folders of ROS and of the
/// dynamic linker (ld.so(8)).
pub(super) fn file(path: &str) -> PathBuf {
    let list = |dir: &str| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let below = |dir: &str| list(dir).map(|e| e.path()).collect::<Vec<_>>();
    let given = PathBuf::from(path);
    if !is_library(path) || given.exists() {
        return given;
    }
    let ros = below("/opt/ros").into_iter().map(|dir| dir.join("lib"));
    let usual = ["/usr/local/lib", "/lib", "/usr/lib", "/lib64", "/usr/lib64"];
    let of_triplets = below("/usr/lib").into_iter().filter(|dir| dir.is_dir());
    let mut all = ros.chain(usual.map(PathBuf::from)).chain(of_triplets);
    all.find_map(|dir| Some(dir.join(path)).filter(|p| p.is_file())).unwrap_or(given)
}

fn is_library(path: &str) -> bool {
    !path.contains('/') && path.contains(".so")
}

/// The library of this name that a program has mapped.
fn in_use(name: &str) -> Option<PathBuf> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let is_process = |e: &std::fs::DirEntry| {
        e.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
    };
    let maps = |e: std::fs::DirEntry| std::fs::read_to_string(e.path().join("maps")).ok();
    processes.filter(is_process).filter_map(maps).find_map(|maps| mapped(&maps, name))
}

/// The file of this name in `/proc/PID/maps`. Behind the name of a symbolic link the version may follow.
fn mapped(maps: &str, name: &str) -> Option<PathBuf> {
    maps.lines().find_map(|line| {
        let path = &line[line.find('/')?..];
        let file = path.rsplit('/').next()?;
        let rest = file.strip_prefix(name)?;
        let is_it = rest.is_empty() || rest.starts_with('.') && !rest.ends_with(" (deleted)");
        is_it.then(|| PathBuf::from(path))
    })
}

struct Program {
    path: String,
    data: Mapped,
}

impl Program {
    fn open(path: &str) -> anyhow::Result<Self> {
        let file = file(path);
        let used = (is_library(path) && !file.exists()).then(|| in_use(path)).flatten();
        let real = std::fs::canonicalize(used.unwrap_or(file)).with_context(|| path.to_owned())?;
        let path = real.to_str().map(str::to_owned).unwrap_or_default();
        if path.is_empty() || path.contains([' ', ':', '\n']) {
            bail!("{}: the kernel takes no path with a space or colon", real.display());
        }
        let data = Mapped::open(&real).with_context(|| path.clone())?;
        Ok(Self { path, data })
    }

    fn elf(&self) -> anyhow::Result<object::File<'_>> {
        object::File::parse(&*self.data).map_err(|_| anyhow!("{}: not an ELF file", self.path))
    }

    /// The address of a function.
    fn function(&self, name: &str) -> anyhow::Result<u64> {
        let (name, plus) = match name.split_once('+') {
            Some((name, plus)) => (name, number(plus)?),
            None => (name, 0),
        };
        let elf = self.elf()?;
        let functions = || {
            let all = elf.symbols().chain(elf.dynamic_symbols());
            all.filter(|s| s.kind() == object::SymbolKind::Text && !s.is_undefined())
        };
        let mut own: Vec<u64> =
            functions().filter(|s| s.name() == Ok(name)).map(|s| s.address()).collect();
        own.sort_unstable();
        own.dedup();
        match own.as_slice() {
            [one] => Ok(one + plus),
            [] => {
                let like = |n: &&str| n.contains(name) || (n.len() > 3 && name.contains(*n));
                let mut known: Vec<&str> =
                    functions().filter_map(|s| s.name().ok()).filter(like).collect();
                known.sort_unstable();
                known.dedup();
                known.truncate(SIMILAR);
                let hint = match known.is_empty() {
                    true => "a stripped program has no names of functions: FILE:LINE with debug information, or 0xOFFSET".to_owned(),
                    false => format!("functions with similar names: {}", known.join(", ")),
                };
                Err(anyhow!("{}: no function {name}", self.path)).hint(hint)
            }
            several => {
                let all: Vec<String> = several.iter().map(|a| format!("{a:#x}")).collect();
                Err(anyhow!("{}: {} functions are called {name}", self.path, several.len()))
                    .hint(format!("their addresses: {}; name one by FILE:LINE", all.join(", ")))
            }
        }
    }

    /// The file offset of an address.
    fn offset(&self, address: u64) -> anyhow::Result<u64> {
        let elf = self.elf()?;
        let within = |start: u64, size: u64| (start..start.saturating_add(size)).contains(&address);
        let segment = elf.segments().find(|s| within(s.address(), s.size()));
        let segment = segment.ok_or_else(|| anyhow!("{}: {address:#x} is not in it", self.path))?;
        Ok(segment.file_range().0 + (address - segment.address()))
    }

    fn place(&self, address: u64) -> anyhow::Result<String> {
        // The lowest bit of an address of 32-bit ARM tells that its code is Thumb.
        let is_thumb = self.elf()?.architecture() == object::Architecture::Arm && address & 1 == 1;
        if is_thumb {
            bail!("{}: the kernel sets no probes on Thumb code", self.path);
        }
        Ok(format!("{}:{:#x}", self.path, self.offset(address)?))
    }

    /// A static probe, with the semaphore that tells the program that somebody listens.
    fn static_probe(&self, provider: &str, name: &str) -> anyhow::Result<String> {
        let elf = self.elf()?;
        let section = elf.section_by_name(".note.stapsdt");
        let data = section.as_ref().and_then(|s| s.data().ok()).unwrap_or_default();
        let word = if elf.is_64() { 8 } else { 4 };
        let all = probes(data, word, elf.is_little_endian());
        let own = all.iter().find(|p| p.provider == provider && p.name == name);
        let Some(own) = own else {
            let known: Vec<String> =
                all.iter().take(SIMILAR).map(|p| format!("{}:{}", p.provider, p.name)).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(anyhow!("{}: no static probe {provider}:{name}", self.path))
                .hint(format!("static probes in it: {known}"));
        };
        // Where a prelinked program lies since: `.stapsdt.base` is where it was.
        let base = elf.section_by_name(".stapsdt.base").map_or(own.base, |s| s.address());
        let moved = |address: u64| address.wrapping_add(base.wrapping_sub(own.base));
        let place = self.place(moved(own.address))?;
        Ok(match own.semaphore {
            0 => place,
            at => format!("{place}({:#x})", self.offset(moved(at))?),
        })
    }
}

/// A static probe as its note tells it.
struct StaticProbe {
    address: u64,
    base: u64,
    semaphore: u64,
    provider: String,
    name: String,
}

/// The notes of `.note.stapsdt`; what is damaged ends them.
fn probes(mut data: &[u8], word: usize, is_little: bool) -> Vec<StaticProbe> {
    let number = |bytes: &[u8]| {
        let fold = |n: u64, b: &u8| n << 8 | u64::from(*b);
        if is_little { bytes.iter().rev().fold(0, fold) } else { bytes.iter().fold(0, fold) }
    };
    let mut found = Vec::new();
    while data.len() >= 12 {
        let (names, size) = (number(&data[..4]) as usize, number(&data[4..8]) as usize);
        let at = names.saturating_add(3) / 4 * 4;
        let Some(body) = data.get(12..).and_then(|d| d.get(at..)) else { break };
        let Some(note) = body.get(..size) else { break };
        let mut texts = note.get(3 * word..).unwrap_or_default().split(|b| *b == 0);
        let mut text = || texts.next().map(|t| String::from_utf8_lossy(t).into_owned());
        if let (Some(provider), Some(name)) = (text(), text()) {
            let at = |i: usize| number(&note[i * word..(i + 1) * word]);
            let (address, base, semaphore) = (at(0), at(1), at(2));
            found.push(StaticProbe { address, base, semaphore, provider, name });
        }
        data = body.get(size.saturating_add(3) / 4 * 4..).unwrap_or_default();
    }
    found
}

fn number(text: &str) -> anyhow::Result<u64> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| anyhow!("+{text}: not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mapped library has its version behind its name; one that was replaced is not there.
    #[test]
    fn libraries_are_found_by_their_names() {
        let maps = "7f00-7f01 r-xp 00000000 fe:00 12 /opt/app/liba.so.0.35.0\n\
                    7f02-7f03 r-xp 00000000 fe:00 13 /usr/lib/libb.so.1 (deleted)\n\
                    7f04-7f05 rw-p 00000000 00:00 0\n7ffe-7fff r-xp 00000000 00:00 0 [vdso]\n";
        assert_eq!(mapped(maps, "liba.so.0"), Some("/opt/app/liba.so.0.35.0".into()));
        assert_eq!(mapped(maps, "liba.so"), Some("/opt/app/liba.so.0.35.0".into()));
        assert_eq!((mapped(maps, "libb.so.1"), mapped(maps, "a.so.0")), (None, None));
        assert!(file("libc.so.6").is_absolute(), "{:?}", file("libc.so.6"));
        assert_eq!(file("./libc.so.6"), Path::new("./libc.so.6"));
    }

    #[test]
    fn notes_of_static_probes_are_read_and_damaged_ones_end_them() {
        let mut note = Vec::new();
        let body = [
            &0x1185u64.to_le_bytes()[..],
            &0x2004u64.to_le_bytes(),
            &0x3028u64.to_le_bytes(),
            b"app\0frame_done\0-4@%eax\0",
        ]
        .concat();
        note.extend_from_slice(&8u32.to_le_bytes());
        note.extend_from_slice(&(body.len() as u32).to_le_bytes());
        note.extend_from_slice(&3u32.to_le_bytes());
        note.extend_from_slice(b"stapsdt\0");
        note.extend_from_slice(&body);
        note.resize(note.len().div_ceil(4) * 4, 0);
        let both = [note.clone(), note.clone()].concat();
        let found = probes(&both, 8, true);
        assert_eq!(found.len(), 2);
        let p = &found[1];
        assert_eq!((p.address, p.base, p.semaphore), (0x1185, 0x2004, 0x3028));
        assert_eq!((p.provider.as_str(), p.name.as_str()), ("app", "frame_done"));
        for length in 0..note.len() {
            probes(&note[..length], 8, true);
        }
        let huge = [&u32::MAX.to_le_bytes()[..], &u32::MAX.to_le_bytes(), &[0; 16]].concat();
        assert!(probes(&huge, 8, true).is_empty());
    }

    #[test]
    fn functions_of_this_program_have_places() {
        let own = std::env::current_exe().unwrap();
        let own = own.to_str().unwrap();
        let place = of_program("--from", &format!("{own}:main")).unwrap();
        assert!(place.starts_with('/') && place.contains(":0x"), "{place}");
        for (place, expected) in [
            ("/nonexistent:f", "/nonexistent"),
            (&format!("{own}:no_such_function_at_all"), "no function"),
            (&format!("usdt:{own}:a:b"), "no static probe a:b"),
            ("main", "PATH:PLACE"),
        ] {
            let error = format!("{:#}", of_program("--from", place).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
