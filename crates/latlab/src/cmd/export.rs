//! `latlab export`: a trace in the formats of other tools.

use crate::cli::Global;
use crate::cli::export::{Args, To};
use crate::outcome::{HintExt, Outcome};
use crate::rundir::{Replacements, replace, write_atomically};
use crate::term;
use crate::trace_input;
use anyhow::Context;
use latlab_export::{Counts, ExportError, parquet, perfetto, text};
use latlab_sys::mmap::Mapped;
use latlab_sys::signal;
use latlab_trace::TraceFile;
use latlab_trace::write::extract;
use std::io::{self, Seek, Write};
use std::path::Path;

/// Runs it.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let to = args.to(global.json)?;
    let name = args.file.display();
    // Mapped and read once, in order: memory does not grow with the file.
    let data = Mapped::open(&args.file)
        .with_context(|| format!("{name} cannot be opened"))
        .hint("name a trace.dat or ftrace's text")?;
    let file = trace_input::open(&data, &args.file)?;
    let counts = match write(&file, &to, args) {
        Err(error) => return stopped_or(error),
        Ok(counts) => counts,
    };
    say(&to, &counts)?;
    trace_input::tell_damage(&args.file, &file.diagnostics, &counts.damage);
    Ok(Outcome::Done)
}

fn write(file: &TraceFile<'_>, to: &To, args: &Args) -> anyhow::Result<Counts> {
    if matches!(to, To::Json | To::Csv) {
        // There is no file that would stay half-written: a signal ends the process, also while nobody reads.
        signal::forget();
    }
    Ok(match to {
        To::Json => text::json(file, term::raw_stdout())?,
        To::Csv => text::csv(file, term::raw_stdout())?,
        To::Perfetto(path) => {
            let mut counts = Counts::default();
            write_atomically(path, |out| {
                let written = perfetto::write(file, UntilStopped(out));
                counts = written.map_err(|error| match error {
                    ExportError::Output(error) => error,
                    other => io::Error::other(other),
                })?;
                Ok(())
            })
            .with_context(|| format!("--perfetto {}: cannot be written", path.display()))
            .hint("name a file in a directory with space that this user may write to")?;
            counts
        }
        To::TraceDat(path) => trace_dat(file, args, path)?,
        To::Parquet(dir) => {
            let mut tables = Replacements::default();
            parquet::write(file, |table| tables.create(&dir.join(table)).map(UntilStopped))
                .map_err(anyhow::Error::from)
                .and_then(|counts| Ok(tables.commit().map(|()| counts)?))
                .with_context(|| format!("--parquet {}: cannot be written", dir.display()))
                .hint("name a directory with space that this user may write to")?
        }
    })
}

/// After a signal it is no error that the file is not there.
fn stopped_or(error: anyhow::Error) -> anyhow::Result<Outcome> {
    let Some(signal) = signal::stop_requested() else { return Err(error) };
    writeln!(
        term::stderr(),
        "latlab: stopped by {} before the export was complete",
        signal.name()
    )?;
    Ok(Outcome::Stopped(signal))
}

/// Takes nothing more after a signal.
struct UntilStopped<W>(W);

impl<W: Write> Write for UntilStopped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match signal::stop_requested() {
            Some(signal) => Err(io::Error::other(format!("stopped by {}", signal.name()))),
            None => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Seek> Seek for UntilStopped<W> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// The chosen events as a trace.dat.
fn trace_dat(file: &TraceFile<'_>, args: &Args, path: &Path) -> anyhow::Result<Counts> {
    let (select, filter) = trace_input::choose(file, &args.choice)?;
    let version = match args.v6 {
        true => extract::Version::Six,
        false => extract::Version::Seven(args.compression),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let keep = |event: &latlab_trace::Event<'_>| filter.passes(event, &file.comms);
    let mut written = extract::Extracted::default();
    replace(path, |out| {
        let mut out = UntilStopped(out);
        written = extract::write(&mut out, file, &select, &keep, version, threads)
            .map_err(io::Error::other)?;
        Ok(())
    })
    .with_context(|| format!("--trace-dat {}: cannot be written", path.display()))
    .hint("name a file in a directory with space that this user may write to; the source has to be a trace.dat of events")?;
    let extract::Extracted { events, lost, diagnostics: damage } = written;
    Ok(Counts { events, lost, damage, ..Counts::default() })
}

/// Says on stderr what was written, and what the recorder lost.
fn say(to: &To, counts: &Counts) -> io::Result<()> {
    let mut stderr = term::stderr();
    match to {
        To::Perfetto(path) | To::TraceDat(path) => {
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
    Ok(())
}
