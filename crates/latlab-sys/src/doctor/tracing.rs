//! What tracing offers, by looking into tracefs (Documentation/trace/ftrace.rst).

use crate::files::Root;
use latlab_model::doctor::{Access, Tracing};
use latlab_model::finding::Note;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};

/// Where tracefs may be; the second on kernels that have it in debugfs only, or automatically.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

pub fn look(root: &Root, unreadable: &mut Vec<Note>) -> Tracing {
    let filesystems = root.text("proc/filesystems");
    let supported =
        filesystems.map(|f| f.lines().any(|l| l.split_whitespace().last() == Some("tracefs")));
    let Some(base) = mount(root) else {
        return Tracing { supported, ..Tracing::default() };
    };
    let at = |file: &str| format!("{base}/{file}");
    let read = readable(root, &at("available_tracers"));
    let mut t = Tracing {
        mount: Some(format!("/{base}")),
        supported: Some(true),
        read,
        write: may_make_instance(root, &at("instances")),
        ..Tracing::default()
    };
    if read != Access::Allowed {
        unreadable.push(Note::new("doctor.tracefs-closed").value("mount", format!("/{base}")));
        return t;
    }
    let words = |file: &str| -> Option<Vec<String>> {
        Some(root.text(&at(file))?.split_whitespace().map(str::to_owned).collect())
    };
    t.tracers = words("available_tracers");
    t.events = root
        .text(&at("available_events"))
        .and_then(|e| u32::try_from(e.lines().filter(|l| l.contains(':')).count()).ok());
    t.clocks = words("trace_clock")
        .unwrap_or_default()
        .iter()
        .map(|c| c.trim_matches(['[', ']']).to_owned())
        .collect();
    t.functions = readable(root, &at("available_filter_functions"));
    t.features = features(root, &base);
    t.current_tracer = root.word(&at("current_tracer"));
    t.events_on = root.text(&at("events/enable")).map(|e| e != "0");
    t.instances = root.names(&at("instances"));
    t
}

fn mount(root: &Root) -> Option<String> {
    let mounts = root.text("proc/mounts").unwrap_or_default();
    let mounted = mounts.lines().find_map(|l| {
        let mut words = l.split(' ').skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        (kind == "tracefs").then(|| at.trim_start_matches('/').to_owned())
    });
    // A directory that this user may not look into has no file that can be seen, but is mounted.
    mounted.or_else(|| {
        PLACES.iter().find(|p| root.exists(&format!("{p}/trace"))).map(|p| (*p).to_owned())
    })
}

/// Opening succeeds where lockdown refuses to read, so a byte is read.
fn readable(root: &Root, path: &str) -> Access {
    match File::open(root.path(path)).and_then(|mut f| f.read(&mut [0])) {
        Ok(_) => Access::Allowed,
        Err(e) if e.kind() == ErrorKind::NotFound => Access::Absent,
        Err(_) => Access::Denied,
    }
}

fn may_make_instance(root: &Root, path: &str) -> Access {
    use rustix::fs::{Access as Wanted, access};
    match access(root.path(path), Wanted::WRITE_OK | Wanted::EXEC_OK) {
        Ok(()) => Access::Allowed,
        Err(rustix::io::Errno::NOENT) => Access::Absent,
        Err(_) => Access::Denied,
    }
}

fn features(root: &Root, base: &str) -> BTreeMap<String, bool> {
    let signs = [
        ("hist triggers", "events/sched/sched_switch/hist"),
        ("synthetic events", "synthetic_events"),
        ("kprobe events", "kprobe_events"),
        ("uprobe events", "uprobe_events"),
        ("snapshot", "snapshot"),
        ("system call events", "events/syscalls"),
    ];
    signs
        .iter()
        .map(|(name, file)| ((*name).to_owned(), root.exists(&format!("{base}/{file}"))))
        .collect()
}
