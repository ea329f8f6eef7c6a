//! `latlab export`: a trace in the formats of other tools.

use crate::cli::Global;
use crate::cli::export::{Args, To};
use crate::outcome::{HintExt, Outcome};
use crate::term;
use crate::trace_input;
use anyhow::Context;
use latlab_export::{Counts, parquet, perfetto, text};
use latlab_sys::mmap::Mapped;
use latlab_trace::TraceFile;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};

/// Runs it.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let to = args.to(global.json)?;
    let name = args.file.display();
    // Mapped and read once, in order: memory does not grow with the file.
    let data = Mapped::open(&args.file)
        .with_context(|| format!("{name} cannot be opened"))
        .hint("give a trace.dat, or ftrace's text")?;
    let file = trace_input::open(&data, &args.file)?;
    let counts = match &to {
        To::Json => text::json(&file, term::stdout())?,
        To::Csv => text::csv(&file, term::stdout())?,
        To::Perfetto(path) => {
            let out = File::create(path).with_context(|| format!("creating {}", path.display()))?;
            perfetto::write(&file, BufWriter::with_capacity(1 << 20, out))
                .with_context(|| path.display().to_string())?
        }
        To::Parquet(dir) => {
            let open = |table: &str| {
                let path = dir.join(table);
                fs::create_dir_all(path.parent().unwrap_or(dir))?;
                File::create(&path)
            };
            parquet::write(&file, open).with_context(|| dir.display().to_string())?
        }
    };
    say(&to, counts, &file)?;
    Ok(Outcome::Done)
}

/// Says on stderr what was written, and what the trace lacks.
fn say(to: &To, counts: Counts, file: &TraceFile<'_>) -> io::Result<()> {
    let mut stderr = term::stderr();
    match to {
        To::Perfetto(path) => {
            writeln!(stderr, "latlab: {}: {} events", path.display(), counts.events)?;
        }
        To::Parquet(dir) => {
            let (events, parts) = (counts.events, counts.parts);
            writeln!(stderr, "latlab: {}: {events} events in {parts} tables", dir.display())?;
        }
        To::Json | To::Csv => {}
    }
    if counts.lost > 0 {
        writeln!(stderr, "latlab: the recorder lost {} events", counts.lost)?;
    }
    if !file.diagnostics.is_empty() {
        writeln!(stderr, "latlab: parts of the file are damaged; what is left was exported")?;
    }
    Ok(())
}
