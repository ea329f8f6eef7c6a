//! What a trace.dat needs besides events, read from the running kernel.

use super::{RecordConfig, Result, Session};
use crate::tracefs::{Control, EventName, Selection, TracefsError, read_bytes};
use latlab_trace::write::{EventSystem, Metadata, live};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads everything; names of tasks and statistics are brought up to date by [`complete`].
pub(super) fn collect(session: &Session) -> Result<Metadata> {
    let control = session.control();
    let tracefs = control.tracefs();
    let root = tracefs.root();
    let header_page = tracefs.read("events/header_page")?;
    let page_size = page_size(control, &header_page);
    let trace_clock = control.get("trace_clock")?;
    let clock = crate::tracefs::clocks(&trace_clock).1.unwrap_or_else(|| "local".into());
    let cpus = control.cpus()?;
    let mut meta = Metadata {
        big_endian: cfg!(target_endian = "big"),
        long_size: size_of::<libc::c_long>() as u8,
        page_size,
        header_page: header_page.into_bytes(),
        header_event: tracefs.read("events/header_event")?.into_bytes(),
        ftrace_formats: formats(&root.join("events/ftrace"))?.into_iter().map(|f| f.1).collect(),
        systems: systems(session)?,
        kallsyms: symbols(),
        printk_formats: read_bytes(&root.join("printk_formats")).unwrap_or_default(),
        cmdlines: Vec::new(),
        uname: uname(),
        trace_clock,
        clock,
        writer: format!("latlab {}", env!("CARGO_PKG_VERSION")),
        trace_id: trace_id(),
        cpu_count: cpus.last().map_or(1, |c| c + 1),
        cpu_stats: Vec::new(),
    };
    meta.cmdlines = names(control, &BTreeMap::new());
    Ok(meta)
}

/// The text of kallsyms; empty where it cannot be read.
pub(super) fn symbols() -> Vec<u8> {
    read_bytes(Path::new("/proc/kallsyms")).unwrap_or_default()
}

/// Adds the names of the tasks that came since.
pub(super) fn complete(meta: &mut Metadata, session: &Session) {
    let before = parse_names(&meta.cmdlines);
    meta.cmdlines = names(session.control(), &before);
}

/// Text of each CPU's `stats`.
pub(super) fn stats(control: &Control, live: &live::Live) -> Vec<(u32, String)> {
    live.data.iter().map(|p| (p.cpu, cpu_stats(control, p.cpu))).collect()
}

pub(super) fn cpu_stats(control: &Control, cpu: u32) -> String {
    control.get(Path::new("per_cpu").join(format!("cpu{cpu}")).join("stats")).unwrap_or_default()
}

/// Size of a sub-buffer: `buffer_subbuf_size_kb` since 6.8, else offset and size of `data` in
/// `header_page`.
pub(crate) fn page_size(control: &Control, header_page: &str) -> u32 {
    let kb = control.get("buffer_subbuf_size_kb").ok().and_then(|t| t.trim().parse::<u32>().ok());
    if let Some(bytes) = kb.and_then(|kb| kb.checked_mul(1024)).filter(|&b| b > 0) {
        return bytes;
    }
    let data = header_page.lines().find(|l| l.contains("char data;")).unwrap_or_default();
    let number = |name: &str| -> Option<u32> {
        let (_, rest) = data.split_once(name)?;
        rest.split(';').next()?.parse().ok()
    };
    match (number("offset:"), number("size:")) {
        (Some(offset), Some(size)) => offset + size,
        _ => u32::try_from(rustix::param::page_size()).unwrap_or(4096),
    }
}

/// Formats of all events that the session can record, by system.
fn systems(session: &Session) -> Result<Vec<EventSystem>> {
    let control = session.control();
    let wanted = session.selections();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let extra = triggered(control, wanted);
    let root = control.tracefs().root();
    let mut systems: Vec<EventSystem> = Vec::new();
    for event in control.tracefs().events()? {
        let holds = |s: &Selection| s.holds(&event);
        if event.system == "ftrace" || !(wanted.iter().any(holds) || extra.contains(&event)) {
            continue;
        }
        let path = root.join("events").join(&event.system).join(&event.name).join("format");
        // An event may go with its module at any time.
        let Ok(format) = read_bytes(&path) else { continue };
        match systems.last_mut().filter(|s| s.name == event.system) {
            Some(system) => system.formats.push(format),
            None => systems.push(EventSystem { name: event.system, formats: vec![format] }),
        }
    }
    Ok(systems)
}

/// Events that triggers of the chosen ones enable: `enable_event:SYSTEM:EVENT`.
fn triggered(control: &Control, wanted: &[Selection]) -> BTreeSet<EventName> {
    let mut found = BTreeSet::new();
    for selection in wanted {
        let Selection::Event(event) = selection else { continue };
        let path = Path::new("events").join(&event.system).join(&event.name).join("trigger");
        for line in control.get(path).unwrap_or_default().lines() {
            let mut parts = line.split(':').skip_while(|p| *p != "enable_event").skip(1);
            if let (Some(system), Some(name)) = (parts.next(), parts.next()) {
                let name = name.split([' ', '\n']).next().unwrap_or(name);
                found.insert(EventName { system: system.into(), name: name.into() });
            }
        }
    }
    found
}

/// Name and text of every `format` below a system's directory.
fn formats(system: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let entries =
        fs::read_dir(system).map_err(|e| TracefsError::io("listing", system.to_owned(), e))?;
    let mut formats: Vec<_> = entries
        .flatten()
        .filter_map(|e| {
            let text = read_bytes(&e.path().join("format")).ok()?;
            Some((e.file_name().to_string_lossy().into_owned(), text))
        })
        .collect();
    formats.sort();
    Ok(formats)
}

/// Names of tasks, one `PID NAME` a line. The kernel's `saved_cmdlines` remembers 128 tasks
/// unless told otherwise, which we do not do (it is everybody's); all living tasks are added.
fn names(control: &Control, before: &BTreeMap<u32, Vec<u8>>) -> Vec<u8> {
    let mut names = before.clone();
    for process in numbers(Path::new("/proc")) {
        for task in numbers(Path::new(&format!("/proc/{process}/task"))) {
            let comm = fs::read(format!("/proc/{process}/task/{task}/comm"));
            if let Ok(comm) = comm {
                names.insert(task, comm.trim_ascii_end().to_vec());
            }
        }
    }
    let saved = read_bytes(&control.tracefs().root().join("saved_cmdlines")).unwrap_or_default();
    names.extend(parse_names(&saved));
    let mut text = Vec::new();
    for (pid, name) in names {
        text.extend_from_slice(pid.to_string().as_bytes());
        text.push(b' ');
        text.extend_from_slice(&name);
        text.push(b'\n');
    }
    text
}

fn parse_names(text: &[u8]) -> BTreeMap<u32, Vec<u8>> {
    text.split(|&b| b == b'\n')
        .filter_map(|line| {
            let space = line.iter().position(|&b| b == b' ')?;
            let pid = std::str::from_utf8(line.get(..space)?).ok()?.parse().ok()?;
            let name = line.get(space + 1..)?;
            // The kernel writes this for a task whose name it has forgotten.
            (name != b"<...>").then(|| (pid, name.to_vec()))
        })
        .collect()
}

fn numbers(dir: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

fn uname() -> String {
    let name = rustix::system::uname();
    let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
    let (system, node) = (text(name.sysname()), text(name.nodename()));
    format!("{system} {node} {} {}", text(name.release()), text(name.machine()))
}

/// Differs between recordings: the time, and the process.
fn trace_id() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let pid = u64::from(std::process::id());
    (now.as_nanos() as u64).rotate_left(20) ^ pid.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// All threads of the process when `pid` is one, else the thread alone.
///
/// # Errors
/// [`TracefsError::NoProcess`] when there is neither.
pub fn threads(pid: u32) -> Result<Vec<u32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .map_err(|_| TracefsError::NoProcess { pid })?;
    let group = status.lines().find_map(|l| l.strip_prefix("Tgid:")?.trim().parse::<u32>().ok());
    if group != Some(pid) {
        return Ok(vec![pid]);
    }
    let mut tasks = numbers(Path::new(&format!("/proc/{pid}/task")));
    tasks.sort_unstable();
    Ok(if tasks.is_empty() { vec![pid] } else { tasks })
}

impl RecordConfig {
    /// Traces this process with all its threads, or this thread.
    ///
    /// # Errors
    /// [`TracefsError::NoProcess`] when there is neither.
    pub fn add_process(&mut self, pid: u32) -> Result<()> {
        self.pids.extend(threads(pid)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_spaces_and_forgotten_ones_are_left_out() {
        let names = parse_names(b"12 a b\n13 <...>\n14 \nx y\n");
        assert_eq!(names.get(&12).unwrap(), b"a b");
        assert!(!names.contains_key(&13));
        assert_eq!(names.len(), 2);
    }

    #[test]
    fn a_process_is_all_its_threads() {
        let me = std::process::id();
        let all = threads(me).unwrap();
        assert!(all.contains(&me) && all.len() >= 2, "the test harness has threads: {all:?}");
        let other = *all.iter().find(|&&t| t != me).unwrap();
        assert_eq!(threads(other).unwrap(), [other]);
        assert!(threads(4_194_999).is_err());
    }
}
