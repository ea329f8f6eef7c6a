//! Probes of our own: dynamic events on instructions of programs and of the kernel.
//!
//! They are of the whole machine (`uprobe_events`, `kprobe_events`), not of an instance, so each is journalled
//! before it is made. Source: the kernel's `Documentation/trace/uprobetracer.rst` and `kprobetrace.rst`.

use super::{Result, Tracefs, TracefsError};
use crate::settings::{SettingError, Settings};
use std::path::{Path, PathBuf};

/// What a probe is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOn {
    /// An instruction of a program or library.
    User,
    /// An instruction of the kernel.
    Kernel,
}

impl ProbeOn {
    fn list(self) -> &'static str {
        match self {
            Self::User => "uprobe_events",
            Self::Kernel => "kprobe_events",
        }
    }
}

/// What the names of the groups of all probes of latlab begin with; the process follows.
pub const PROBE_GROUPS: &str = "latlab_";

/// Probes, which are removed when this is dropped; no instance may have them enabled then.
#[derive(Debug)]
pub struct Probes {
    root: PathBuf,
    group: String,
    /// What was added.
    definitions: Vec<String>,
    settings: Settings,
}

impl Probes {
    /// None yet.
    pub fn new(tracefs: &Tracefs) -> Self {
        let group = format!("{PROBE_GROUPS}{}", std::process::id());
        let (root, definitions) = (tracefs.root().to_owned(), Vec::new());
        Self { root, group, definitions, settings: Settings::new() }
    }

    /// Adds one: `name` is that of its event, `place` as the kernel takes it (`PATH:0xOFFSET`, `FUNCTION+OFFSET`),
    /// `arguments` what it records (`id=%di:u64`). The event's name with its group; the same one is added once.
    ///
    /// # Errors
    /// When this kernel has no such probes, or refuses this one.
    pub fn add(
        &mut self,
        on: ProbeOn,
        name: &str,
        is_return: bool,
        place: &str,
        arguments: &str,
    ) -> Result<String> {
        let list = self.root.join(on.list());
        if !list.exists() {
            let (kind, name) = ("list of dynamic events", on.list().to_owned());
            return Err(TracefsError::Unknown { kind, name, nearest: Vec::new() });
        }
        let event = format!("{}/{name}", self.group);
        let letter = if is_return { 'r' } else { 'p' };
        let definition = format!("{letter}:{event} {place} {arguments}");
        let own = format!("{}:{name}", self.group);
        if self.definitions.contains(&definition) {
            return Ok(own);
        }
        let group = self.root.join("events").join(&self.group);
        add(&mut self.settings, &list, &group, &event, definition.trim())?;
        self.definitions.push(definition);
        Ok(own)
    }
}

/// Adds a dynamic event, as [`Settings::add_probe`].
pub(super) fn add(
    settings: &mut Settings,
    list: &Path,
    group: &Path,
    event: &str,
    definition: &str,
) -> Result<()> {
    settings.add_probe(list, group, event, definition).map_err(|e| match e {
        SettingError::Refused { path, value, source } => {
            TracefsError::io(format!("writing {value:?} to"), path, source)
        }
        other => other.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_probes_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut probes = Probes::new(&Tracefs::at(dir.path()));
        let error = probes.add(ProbeOn::Kernel, "from", false, "do_nanosleep", "").unwrap_err();
        assert!(error.to_string().contains("kprobe_events"), "{error}");
    }
}
