//! What dead latlabs have left, and outcomes of putting settings back as lines of text.

use latlab_sys::settings::{OrphanedSettings, Restoration};
use latlab_sys::tracefs;

/// Removes the tracing instances of dead latlabs, where tracefs is mounted; their names. Before settings are restored: an
/// instance holds the events that it uses.
pub fn remove_left_instances() -> Vec<String> {
    tracefs::remove_left().into_iter().map(|r| r.name).collect()
}

/// What became of each, one line each.
pub fn lines(found: &OrphanedSettings) -> Vec<String> {
    let mut lines: Vec<String> = found.undone.iter().map(line).collect();
    lines.extend(found.alive.iter().map(|h| {
        let paths: Vec<_> = h.paths.iter().map(|p| p.display().to_string()).collect();
        format!("process {} is running and uses {}", h.pid, paths.join(", "))
    }));
    if found.earlier_boot > 0 {
        lines.push(
            "a journal of an earlier boot was removed: the boot has reset the settings".into(),
        );
    }
    lines.extend(found.refused.iter().map(|(p, why)| format!("{}: rejected: {why}", p.display())));
    lines
}

/// What became of one.
pub fn line(r: &Restoration) -> String {
    match r {
        Restoration::Restored { path, value } => format!("{}: restored to {value}", path.display()),
        Restoration::Removed { path } => format!("{}: removed", path.display()),
        Restoration::AlreadyRight { path } => format!("{}: unchanged", path.display()),
        Restoration::ChangedSince { path, ours, now } => format!(
            "{}: set to {ours} by latlab, then to {now} by another process; not changed",
            path.display()
        ),
        Restoration::Failed { path, value, reason } => {
            format!("{}: not restored to '{value}': {reason}", path.display())
        }
    }
}
