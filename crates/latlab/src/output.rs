//! From a run to what the user sees: text on stdout.

use latlab_core::run::Run;
use latlab_core::run::Unit;
use latlab_core::units::format_ns;
use std::io::{self, Write};

/// Writes the run as text, laid out for the terminal.
///
/// # Errors
/// Whatever the writer says; a broken pipe among it.
pub fn text(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    for part in &run.parts {
        writeln!(out, "{}", part.title)?;
        for r in &part.results {
            let show = |v: Option<f64>| match (v, r.unit) {
                (Some(v), Unit::Ns) => format_ns(v),
                (Some(v), _) => format!("{v}"),
                (None, _) => "-".into(),
            };
            let (median, max) = (show(r.summary.median), show(r.summary.max));
            writeln!(out, "  {:<30} median {median:>10}  max {max:>10}", r.name)?;
        }
        for f in &part.findings {
            writeln!(out, "  {}: {}", f.id, f.claim)?;
        }
    }
    Ok(())
}
