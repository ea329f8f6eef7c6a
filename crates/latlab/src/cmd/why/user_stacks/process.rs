//! A process whose stacks are unwound: its executable mappings and the files behind them.

use super::objects::ObjectFile;
use super::unwind::Unwinder;
use latlab_model::latency::UserFrame;
use latlab_model::units::Tid;
use latlab_sys::files::{field, foreign_text};
use latlab_sys::user_stacks::Sample;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Executable mappings of a process that are used at most.
const MAPPINGS: usize = 1_024;
/// Between two looks at the mappings.
const AGAIN: Duration = Duration::from_millis(100);
/// Bytes of a perf map that are read at most.
const PERF_MAP: u64 = 64 << 20;

/// The process of a thread.
pub(super) fn of_thread(tid: Tid) -> Option<i32> {
    status(tid.0, "Tgid")?.parse().ok()
}

/// The last word of a field of `/proc/PID/status`.
fn status(pid: i32, key: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    field(&text, key)?.split_whitespace().last().map(str::to_owned)
}

/// An executable mapping.
struct Mapping {
    start: u64,
    end: u64,
    /// Address in memory less that in the file.
    bias: u64,
    /// `None`: memory without a file, or whose file cannot be read.
    file: Option<Arc<ObjectFile>>,
    /// What `/proc/PID/maps` calls it, without directories.
    name: String,
    /// Its line there.
    line: String,
}

/// A process.
pub(super) struct Process {
    pid: i32,
    /// Its user, and its id in its own namespace.
    owner: u32,
    inside: String,
    /// In order of addresses.
    mappings: Vec<Mapping>,
    /// By device, inode and path.
    files: HashMap<String, Option<Arc<ObjectFile>>>,
    unwinder: Unwinder,
    read: Option<Instant>,
}

impl Process {
    pub(super) fn new(pid: i32) -> Self {
        let owner = status(pid, "Uid").and_then(|uid| uid.parse().ok()).unwrap_or(u32::MAX);
        let inside = status(pid, "NSpid").unwrap_or_else(|| pid.to_string());
        let (mappings, files) = (Vec::new(), HashMap::new());
        let unwinder = Unwinder::default();
        let mut new = Self { pid, owner, inside, mappings, files, unwinder, read: None };
        new.read_mappings();
        new
    }

    fn at(&self, address: u64) -> Option<&Mapping> {
        let next = self.mappings.partition_point(|m| m.end <= address);
        self.mappings.get(next).filter(|m| m.start <= address)
    }

    /// Addresses of a stack, innermost first: the instruction, then return addresses. What lies beyond the copied
    /// part of the stack is missing.
    pub(super) fn unwind(&mut self, sample: &Sample<'_>) -> Vec<u64> {
        let mut found = self.unwinder.unwind(sample);
        let mut code = self.code(&found);
        // A library may have been loaded since.
        if code < found.len() && self.read_mappings() {
            found = self.unwinder.unwind(sample);
            code = self.code(&found);
        }
        found.truncate(code.max(1));
        found
    }

    /// How many of a stack's addresses lie in executable mappings: what is no code was no return address.
    fn code(&self, stack: &[u64]) -> usize {
        let is_code = |(i, address): (usize, &u64)| {
            self.at(if i == 0 { *address } else { address.saturating_sub(1) }).is_some()
        };
        stack.iter().enumerate().take_while(|a| is_code(*a)).count()
    }

    /// Reads `/proc/PID/maps`, not more often than a look is worth; whether it has changed.
    fn read_mappings(&mut self) -> bool {
        if self.read.is_some_and(|read| read.elapsed() < AGAIN) {
            return false;
        }
        self.read = Some(Instant::now());
        let Ok(text) = fs::read_to_string(format!("/proc/{}/maps", self.pid)) else { return false };
        let lines: Vec<Line<'_>> = text.lines().filter_map(Line::parse).take(MAPPINGS).collect();
        // Data come and go all the time.
        let same = |m: &Mapping, line: &Line<'_>| m.line == line.text;
        if self.mappings.len() == lines.len()
            && self.mappings.iter().zip(&lines).all(|(m, l)| same(m, l))
        {
            return false;
        }
        self.mappings = lines.iter().map(|line| self.mapping(line)).collect();
        let mut unwinder = Unwinder::default();
        for m in &self.mappings {
            if let Some(file) = &m.file {
                unwinder.add(&m.name, (m.start, m.end, m.bias), file.unwind_sections());
            }
        }
        self.unwinder = unwinder;
        true
    }

    fn mapping(&mut self, line: &Line<'_>) -> Mapping {
        let name = line.path.rsplit('/').next().unwrap_or_default().to_owned();
        let key = format!("{} {} {}", line.device, line.inode, line.path);
        let pid = self.pid;
        let file = self.files.entry(key).or_insert_with(|| {
            if !line.path.starts_with('/') || line.path.starts_with("/dev/") {
                return None;
            }
            // The mapped file itself, also of another mount namespace or deleted; by its path without the right to it.
            let own = format!("/proc/{pid}/map_files/{:x}-{:x}", line.start, line.end);
            let by_path = format!("/proc/{pid}/root{}", line.path);
            let open = |path: String| {
                let path = PathBuf::from(path);
                fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
                ObjectFile::open(&path, &name)
            };
            open(own).or_else(|| open(by_path)).map(Arc::new)
        });
        let bias = file.as_ref().and_then(|f| f.address_of(line.offset));
        let bias = bias.map(|address| line.start.wrapping_sub(address));
        let file = file.clone().filter(|_| bias.is_some());
        let (start, end, bias) = (line.start, line.end, bias.unwrap_or(0));
        Mapping { start, end, bias, file, name, line: line.text.to_owned() }
    }

    /// The functions of stacks.
    pub(super) fn name(&self, stacks: &[(u32, &[u64])]) -> Vec<(u32, Vec<UserFrame>)> {
        // Of a return address, the instruction before it: the call.
        let looked = |(i, address): (usize, &u64)| if i == 0 { *address } else { address - 1 };
        let of = |stack: &[u64]| stack.iter().enumerate().map(looked).collect::<Vec<_>>();
        let all: BTreeSet<u64> = stacks.iter().flat_map(|s| of(s.1)).collect();
        let mut named: HashMap<u64, Vec<UserFrame>> = HashMap::new();
        let mut files: Vec<&Arc<ObjectFile>> =
            self.mappings.iter().filter_map(|m| m.file.as_ref()).collect();
        files.sort_by_key(|file| Arc::as_ptr(file));
        files.dedup_by_key(|file| Arc::as_ptr(file));
        for file in files {
            let inside = |address: u64| {
                let m = self.at(address)?;
                let is_own = m.file.as_ref().is_some_and(|f| Arc::ptr_eq(f, file));
                is_own.then(|| (address, address.wrapping_sub(m.bias)))
            };
            let (addresses, in_file): (Vec<u64>, Vec<u64>) =
                all.iter().filter_map(|a| inside(*a)).unzip();
            if !addresses.is_empty() {
                named.extend(addresses.into_iter().zip(file.functions(&in_file)));
            }
        }
        let mut map = None;
        for address in all {
            named.entry(address).or_insert_with(|| {
                vec![self.outside(
                    address,
                    map.get_or_insert_with(|| PerfMap::read(self.pid, &self.inside, self.owner)),
                )]
            });
        }
        let frames = |stack: &[u64]| of(stack).iter().flat_map(|a| named[a].clone()).collect();
        stacks.iter().map(|(number, stack)| (*number, frames(stack))).collect()
    }

    /// A function in memory without a file that can be read.
    fn outside(&self, address: u64, map: &PerfMap) -> UserFrame {
        let (function, object) = match (map.function(address), self.at(address)) {
            (Some(function), _) => (function.to_owned(), "perf map".to_owned()),
            (None, Some(m)) if !m.name.is_empty() => {
                (format!("+{:#x}", address - m.start), m.name.clone())
            }
            _ => (format!("{address:#x}"), String::new()),
        };
        UserFrame { function, object, ..UserFrame::default() }
    }
}

/// A line of `/proc/PID/maps` of an executable mapping; proc_pid_maps(5).
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    text: &'a str,
    start: u64,
    end: u64,
    offset: u64,
    device: &'a str,
    inode: &'a str,
    path: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (range, permissions) = (words.next()?, words.next()?);
        let (start, end) = range.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (hex(start)?, hex(end)?, hex(words.next()?)?);
        let (device, inode) = (words.next()?, words.next()?);
        let path = words.next().unwrap_or_default().trim_start();
        let is_code = permissions.as_bytes().get(2) == Some(&b'x') && start < end;
        is_code.then_some(Self { text: line, start, end, offset, device, inode, path })
    }
}

/// The functions that a program compiled while it ran: `perf-PID.map`, as of `perf report`.
#[derive(Default)]
struct PerfMap(BTreeMap<u64, (u64, String)>);

impl PerfMap {
    fn read(pid: i32, inside: &str, owner: u32) -> Self {
        let paths = [
            format!("/proc/{pid}/root/tmp/perf-{inside}.map"),
            // The process may have ended.
            format!("/tmp/perf-{pid}.map"),
        ];
        let mut found = paths.iter().map(|path| foreign_text(path.as_ref(), owner, PERF_MAP));
        found.find_map(|text| text).map_or_else(Self::default, |text| Self::parse(&text))
    }

    /// Start, size and name of each line; the last of several for one address counts.
    fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let mut hex = || {
                let word = words.next()?;
                u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
            };
            let (start, size) = (hex()?, hex()?);
            Some((start, (size, words.next()?.trim_end().to_owned())))
        };
        Self(text.lines().filter_map(line).collect())
    }

    fn function(&self, address: u64) -> Option<&str> {
        let (start, (size, name)) = self.0.range(..=address).next_back()?;
        (address - start < *size).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_mappings_are_read() {
        let line = "7f00a000-7f00b000 r-xp 00026000 fe:01 131 /usr/lib/a b.so (deleted)";
        let found = Line::parse(line).unwrap();
        assert_eq!((found.start, found.end, found.offset), (0x7f00_a000, 0x7f00_b000, 0x26000));
        assert_eq!(found.path, "/usr/lib/a b.so (deleted)");
        assert_eq!(Line::parse("1000-2000 rwxp 00000000 00:00 0 ").unwrap().path, "");
        for no in ["1000-2000 r--p 0 fe:01 1 /a", "2000-1000 r-xp 0 0 0 /a", "x r-xp", "", "1-2"] {
            assert_eq!(Line::parse(no), None, "{no}");
        }
    }

    #[test]
    fn a_perf_map_names_compiled_functions() {
        let map =
            PerfMap::parse("7f00 20 LazyCompile:~step loop.js:3\nbad\n0x7f20 10 two\n7f20 8 new\n");
        assert_eq!(map.function(0x7f1f), Some("LazyCompile:~step loop.js:3"));
        assert_eq!(map.function(0x7f20), Some("new"));
        assert_eq!((map.function(0x7f28), map.function(0x1)), (None, None));
    }
}
