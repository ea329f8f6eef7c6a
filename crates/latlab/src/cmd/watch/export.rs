//! The counts of a watch as Parquet tables.

use super::store;
use crate::outcome::HintExt;
use crate::rundir::Replacements;
use crate::term;
use anyhow::{Context, anyhow};
use latlab_analysis::watch::tables::{CAUSE, HOUR, TIME, rows};
use latlab_export::lake;
use latlab_report::values::counted;
use std::io::Write;
use std::path::Path;

/// Writes the tables of a watch's folder into a directory. A watch may run meanwhile: the current hour has what it has
/// written.
///
/// # Errors
/// When the folder has no counts, or a table cannot be written.
pub(super) fn run(dir: &Path, out: &Path) -> anyhow::Result<()> {
    let hours = store::hours(dir)
        .map_err(anyhow::Error::from)
        .and_then(|hours| if hours.is_empty() { Err(anyhow!("no hour")) } else { Ok(hours) })
        .map_err(|error| anyhow!("{}: no counts of a watch: {error}", dir.display()))
        .hint("name the folder of a watch with --dir")?;
    let mut written = Vec::new();
    let mut files = Replacements::default();
    for (table, mut rows) in [&HOUR, &TIME, &CAUSE].into_iter().zip(rows(&hours)) {
        let path = out.join(format!("{}.parquet", table.name));
        let name = || path.display().to_string();
        let file = files.create(&path).with_context(name)?;
        lake::write(table, &mut rows, file).with_context(name)?;
        written.push(format!("{} ({})", name(), counted(rows.len(), "row")));
    }
    files.commit().with_context(|| out.display().to_string())?;
    writeln!(term::stderr(), "latlab: {}: {}", counted(hours.len(), "hour"), written.join(", "))?;
    Ok(())
}
