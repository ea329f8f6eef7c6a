//! Runs, foreign files and published machines, as subjects of a comparison.

use crate::outcome::HintExt;
use crate::rundir;
use anyhow::{Context, anyhow};
use latlab_analysis::compare::import;
use latlab_analysis::compare::subject::Source;
use latlab_analysis::compare::subject::Subject;
use latlab_model::reference::REFERENCES;
use std::fs;
use std::path::{Path, PathBuf};

/// One run under its own name.
///
/// # Errors
/// When it cannot be read or is no result of any tool that is known.
pub fn one(path: &Path) -> anyhow::Result<Subject> {
    let name = path.display().to_string();
    if let Some(id) = name.strip_prefix('@') {
        let known: Vec<String> = REFERENCES.iter().map(|r| format!("@{}", r.id)).collect();
        let found = latlab_model::reference::find(id)
            .ok_or_else(|| anyhow!("{name}: no published machine of this name"))
            .hint(format!("there are {}", known.join(", ")))?;
        return Ok(Subject::of_reference(found));
    }
    let label = path.file_name().map_or(name, |n| n.to_string_lossy().into_owned());
    Ok(Subject { label, runs: vec![source(path)?], published: &[] })
}

/// Many runs as one.
///
/// # Errors
/// As [`one`].
pub fn group(label: &str, paths: &[PathBuf]) -> anyhow::Result<Subject> {
    let mut runs = Vec::new();
    let mut published: &[_] = &[];
    for path in paths {
        let name = path.display().to_string();
        if name.starts_with('@') {
            let machine = one(path)?;
            published = machine.published;
            runs.extend(machine.runs);
        } else {
            runs.push(source(path)?);
        }
    }
    Ok(Subject { label: label.to_owned(), runs, published })
}

/// A run directory, a run.json, or a file of another tool.
///
/// # Errors
/// As [`one`].
pub fn source(path: &Path) -> anyhow::Result<Source> {
    let name = path.display().to_string();
    if path.is_dir() && !path.join(rundir::RUN_FILE).exists() {
        // jitterdebugger -o DIR keeps its result in there.
        let inside = path.join("results.json");
        if inside.is_file() {
            return foreign_file(&inside);
        }
        return Err(anyhow!("{name}: a directory without run.json"))
            .hint("name a run directory (runs/…), its run.json, or a file of another tool");
    }
    if path.is_dir() {
        let run = rundir::load(path)?;
        return Ok(Source { file: name, run, ..Source::default() });
    }
    foreign_file(path)
}

/// Whether a file says of itself that it is a run.
fn is_run(bytes: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(256)]);
    head.trim_start().starts_with('{') && head.contains("\"schema_version\"")
}

/// A `run.json`, or a result of another tool.
fn foreign_file(path: &Path) -> anyhow::Result<Source> {
    let name = path.display().to_string();
    let larger = "--max-memory SIZE allows more: a file may have half of it";
    let other = "name a run directory (runs/…), its run.json, or a file of another tool";
    let bytes = rundir::read_within(path, rundir::longest_foreign(), larger, other)?;
    if is_run(&bytes) {
        let run = rundir::parse(&bytes).with_context(|| name.clone())?;
        return Ok(Source { file: name, run, ..Source::default() });
    }
    let mut source = import::read(&name, &bytes).map_err(|e| anyhow!("{name}: {e}")).hint(
        "compare reads runs, histograms and JSON of cyclictest, rtla, Xenomai and jitterdebugger, lmbench's results, and files of --samples",
    )?;
    if let Some(modified) =
        fs::metadata(path).and_then(|m| m.modified()).ok().filter(|_| source.run.started.is_empty())
    {
        source.run.started = humantime::format_rfc3339_seconds(modified).to_string();
    }
    Ok(source)
}
