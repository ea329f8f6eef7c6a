//! A run from its first to its last moment: what every measuring command does round its measurement.
//!
//! ```ignore
//! let mut session = Session::begin(&global, "wakeup", &config)?;   // directory is writable, machine is read
//! session.run.parts.push(part);
//! session.checkpoint()?;                                           // whenever there is something to keep
//! session.finish(stopped_by)                                       // stdout, run.json, report.html
//! ```
//!
//! A run that is dropped without [`Session::finish`] (an error half way) keeps
//! what its last checkpoint had, marked incomplete.

use crate::cli::Global;
use crate::outcome::{Outcome, reader_may_leave};
use crate::rundir::RunDir;
use crate::term;
use latlab_model::run::{Run, SCHEMA_VERSION};
use latlab_sys::settings::Place;
use latlab_wire::run_lines;
use serde::Serialize;
use std::io::Write;
use std::time::SystemTime;

/// A run that is being made.
#[derive(Debug)]
pub struct Session {
    /// The run; fill it.
    pub run: Run,
    dir: Option<RunDir>,
    json: bool,
    lava: Option<String>,
}

/// An error before anything was measured leaves no run.
impl Drop for Session {
    fn drop(&mut self) {
        let is_empty = self.run.ended.is_none() && self.run.parts.is_empty();
        if let Some(dir) = self.dir.as_ref().filter(|dir| is_empty && dir.has_run_alone()) {
            dir.discard();
        }
    }
}

impl Session {
    /// Begins a run that is kept: in `--out`, or in `runs/`.
    ///
    /// # Errors
    /// When the directory cannot be made or written to; nothing has been measured then.
    pub fn begin(global: &Global, command: &str, config: &impl Serialize) -> anyhow::Result<Self> {
        Self::begin_with(global, command, value(config))
    }

    // Not generic, as all that follows: each type of configuration would have a copy.
    fn begin_with(
        global: &Global,
        command: &str,
        config: serde_json::Value,
    ) -> anyhow::Result<Self> {
        restore_orphaned_settings();
        let run = new_run(config);
        let dir = RunDir::create(global.out.as_deref(), &run.started, command)?;
        dir.save(&run).inspect_err(|_| dir.discard_if_empty())?;
        Ok(Self { run, dir: Some(dir), json: global.json, lava: global.lava.clone() })
    }

    /// Begins a run that is kept only where `--out` asks for it: for commands that look more than they measure.
    ///
    /// # Errors
    /// As [`Session::begin`].
    pub fn begin_ephemeral(
        global: &Global,
        command: &str,
        config: &impl Serialize,
    ) -> anyhow::Result<Self> {
        let config = value(config);
        if global.out.is_some() {
            return Self::begin_with(global, command, config);
        }
        Ok(Self { run: new_run(config), dir: None, json: global.json, lava: global.lava.clone() })
    }

    /// Goes on with a run that was interrupted, in its own directory.
    ///
    /// # Errors
    /// When its directory cannot be written.
    pub fn resume(
        global: &Global,
        path: &std::path::Path,
        config: &impl Serialize,
    ) -> anyhow::Result<Self> {
        restore_orphaned_settings();
        let dir = RunDir::reopen(path);
        let run = new_run(value(config));
        dir.save(&run)?;
        Ok(Self { run, dir: Some(dir), json: global.json, lava: global.lava.clone() })
    }

    /// The run's directory, where it has one.
    pub fn dir(&self) -> Option<&RunDir> {
        self.dir.as_ref()
    }

    /// Gives the run up because of an error before anything was measured: nothing of it is kept but captures. After
    /// a signal the error is printed, and the command ends as by that signal.
    ///
    /// # Errors
    /// The error, if no signal asked to stop.
    pub fn abandon(self, error: anyhow::Error) -> anyhow::Result<Outcome> {
        if let Some(dir) = &self.dir {
            dir.discard();
        }
        let Some(signal) = latlab_sys::signal::stop_requested() else { return Err(error) };
        let error = crate::outcome::format_error_chain(&error);
        // A diagnostic: a failed write to stderr loses no result.
        let _ = writeln!(term::stderr(), "latlab: stopped by {}: {error}", signal.name());
        Ok(Outcome::Stopped(signal))
    }

    /// Saves what there is so far, marked incomplete.
    ///
    /// # Errors
    /// When it cannot be written; the earlier save is as it was.
    pub fn checkpoint(&self) -> anyhow::Result<()> {
        self.dir.as_ref().map_or(Ok(()), |dir| dir.save(&self.run))
    }

    /// Ends the run: saves it, prints it as text or JSON, names its directory on stderr.
    /// `stopped_by` says what cut it short, if something did.
    ///
    /// What was measured is printed even when it can no longer be saved.
    ///
    /// # Errors
    /// When saving or printing fails.
    pub fn finish(self, stopped_by: Option<String>) -> anyhow::Result<Outcome> {
        let json = self.json;
        self.finish_with(stopped_by, |run, out| {
            if json {
                crate::output::json(run, out)?
            } else {
                crate::output::text(run, out)?
            }
            Ok(())
        })
    }

    /// As [`Session::finish`], for a command that prints in a way of its own.
    ///
    /// # Errors
    /// As [`Session::finish`].
    pub fn finish_with(
        mut self,
        stopped_by: Option<String>,
        print: impl FnOnce(&Run, &mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<Outcome> {
        self.run.ended = Some(now());
        self.run.complete = stopped_by.is_none();
        self.run.stopped_by = stopped_by;
        self.run.machine.end = Some(latlab_sys::machine::condition());
        let saved = self.save_all();
        let mut out = term::raw_stdout();
        let printed = print(&self.run, &mut out)
            .and_then(|()| {
                self.lava.as_deref().map_or(Ok(()), |name| lava(name, &self.run, &mut out))
            })
            .and_then(|()| Ok(out.flush()?));
        saved?;
        reader_may_leave(printed)?;
        if let Some(dir) = &self.dir {
            // A diagnostic: a failed write to stderr loses no result.
            let _ =
                writeln!(term::stderr(), "report: {}", dir.path().join("report.html").display());
        }
        Ok(latlab_sys::signal::stop_requested().map_or(Outcome::Done, Outcome::Stopped))
    }

    fn save_all(&self) -> anyhow::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        dir.save(&self.run)?;
        dir.write_file("report.html", |out| crate::output::html(&self.run, out))
    }
}

/// The results as signals of LAVA, and the run, compressed, as lines between those of the job's log.
fn lava(name: &str, run: &Run, mut out: &mut dyn Write) -> anyhow::Result<()> {
    latlab_report::dialect::lava::results(run, &mut out)?;
    let mut json = Vec::new();
    crate::output::json(run, &mut json)?;
    // Without the indentation; a line feed in a text is escaped.
    let json: Vec<u8> =
        json.split(|b| *b == b'\n').flat_map(<[u8]>::trim_ascii_start).copied().collect();
    let bytes = zstd::bulk::compress(&json, 1)?;
    if bytes.len() > run_lines::BYTES_MAX {
        let (size, most) = (bytes.len() >> 10, run_lines::BYTES_MAX >> 10);
        anyhow::bail!("--lava {name}: the compressed run has {size} KiB, more than {most}");
    }
    for line in run_lines::lines(name, &bytes) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// What a latlab that was killed has left changed is restored before anything is measured.
pub fn restore_orphaned_settings() {
    latlab_sys::sysv::remove_abandoned();
    crate::restoration::remove_left_instances();
    let mut stderr = term::stderr();
    // A diagnostic: a failed write to stderr loses no result.
    let _ = match latlab_sys::settings::restore_orphaned(&Place::default()) {
        Ok(found) if found.undone.is_empty() && found.refused.is_empty() => Ok(()),
        Ok(found) => {
            let lines = crate::restoration::lines(&found).join("\n  ");
            writeln!(stderr, "restored after a latlab process was killed:\n  {lines}")
        }
        Err(e) => writeln!(stderr, "settings of killed latlab processes could not be checked: {e}"),
    };
}

fn value(config: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(config).unwrap_or_default()
}

fn new_run(config: serde_json::Value) -> Run {
    Run {
        schema_version: SCHEMA_VERSION,
        id: latlab_sys::machine::new_uuid(),
        latlab_version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
        config,
        started: now(),
        machine: latlab_sys::machine::read(),
        ..Run::default()
    }
}

/// Now, UTC, RFC 3339 to the second.
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
