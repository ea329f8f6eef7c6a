//! Our own instance of ftrace, made and removed by a guard; what dead latlabs left is removed.
//!
//! The name carries the process's number and its start time, so that a number that was given to
//! another process since does not protect what its first owner left behind. The kernel itself
//! protects an instance in use: a file of it is held open, so that removing it fails with EBUSY.

use super::{Control, Result, Tracefs, TracefsError, mounted};
use crate::process::start_ticks;
use std::fs;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Beginning of the name of every instance of ours.
const PREFIX: &str = "latlab-";

/// How many this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// An instance of our own; removed on drop.
#[derive(Debug)]
pub struct Instance {
    control: Control,
    /// Held open so that nobody can remove the instance under us.
    hold: Option<fs::File>,
}

/// An instance that a dead latlab had left behind and that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedInstance {
    /// Its name.
    pub name: String,
}

impl Instance {
    /// Makes a new instance, not tracing yet, after removing those of dead processes.
    ///
    /// # Errors
    /// When the kernel refuses to make one.
    pub fn create(tracefs: &Tracefs) -> Result<(Self, Vec<RemovedInstance>)> {
        let instances = tracefs.root().join("instances");
        let removed = remove_stale(&instances);
        let pid = std::process::id();
        let start = start_ticks(pid).unwrap_or(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let name = match n {
            0 => format!("{PREFIX}{pid}-{start}"),
            n => format!("{PREFIX}{pid}-{start}-{n}"),
        };
        let dir = instances.join(name);
        match fs::create_dir(&dir) {
            Ok(()) => {}
            Err(e) => return Err(TracefsError::io("making", dir, e)),
        }
        let control = Control::new(tracefs.clone(), dir);
        let mut instance = Self { control, hold: None };
        // From here on, dropping `instance` removes the directory.
        instance.control.set_tracing(false)?;
        instance.hold = fs::File::open(instance.control.dir().join("tracing_on")).ok();
        Ok((instance, removed))
    }
}

impl Deref for Instance {
    type Target = Control;
    fn deref(&self) -> &Control {
        &self.control
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.hold = None;
        if let Err(e) = remove(self.control.dir()) {
            log::warn!(
                "{} could not be removed ({e}); the next latlab that traces will try again",
                self.control.dir().display()
            );
        }
    }
}

/// Stops and removes an instance. Whoever still has a file of it open gets a moment to close it.
fn remove(dir: &Path) -> io::Result<()> {
    let _ = fs::write(dir.join("tracing_on"), "0");
    let _ = fs::write(dir.join("events/enable"), "0");
    let _ = fs::write(dir.join("current_tracer"), "nop");
    let mut result = fs::remove_dir(dir);
    for _ in 0..20 {
        match &result {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_millis(5));
                result = fs::remove_dir(dir);
            }
            _ => break,
        }
    }
    result
}

/// Removes the instances that dead latlabs have left in a mounted tracefs.
pub fn remove_left_behind(tracefs: &Tracefs) -> Vec<RemovedInstance> {
    remove_stale(&tracefs.root().join("instances"))
}

/// As [`remove_left_behind`], where a tracefs is mounted.
pub fn remove_left() -> Vec<RemovedInstance> {
    mounted().map(|root| remove_left_behind(&Tracefs::at(root))).unwrap_or_default()
}

/// Removes the instances of processes that are gone.
fn remove_stale(instances: &Path) -> Vec<RemovedInstance> {
    let Ok(entries) = fs::read_dir(instances) else { return Vec::new() };
    let mut removed = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((pid, start)) = owner(&name) else { continue };
        if start_ticks(pid) == Some(start) {
            continue;
        }
        // rmdir first: an instance in use (by a process that we cannot see, in another
        // namespace) answers EBUSY and must not even be stopped.
        if fs::remove_dir(entry.path()).is_ok() {
            removed.push(RemovedInstance { name });
        }
    }
    removed
}

/// Process and start time in an instance's name; `None` when it is not one of ours.
fn owner(name: &str) -> Option<(u32, u64)> {
    let mut fields = name.strip_prefix(PREFIX)?.split('-');
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_are_ours() {
        assert_eq!(owner("latlab-12-345"), Some((12, 345)));
        assert_eq!(owner("latlab-12-345-2"), Some((12, 345)));
        assert_eq!(owner("latlab-mine"), None);
        assert_eq!(owner("trace-cmd-12-345"), None);
    }

    #[test]
    fn what_the_dead_left_is_removed_and_what_the_living_use_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let me = std::process::id();
        let start = start_ticks(me).unwrap();
        let living = format!("latlab-{me}-{start}");
        let reused = format!("latlab-{me}-{}", start + 1);
        // No process can have this number: it is above the kernel's largest.
        for name in [&living, &reused, "latlab-4194999-1", "other"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let mut removed: Vec<_> = remove_stale(dir.path()).into_iter().map(|r| r.name).collect();
        removed.sort();
        let mut want = vec![reused, "latlab-4194999-1".to_owned()];
        want.sort();
        assert_eq!(removed, want);
        assert!(dir.path().join(&living).exists() && dir.path().join("other").exists());
    }
}
