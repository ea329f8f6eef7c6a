//! `latlab set-priority`: in a machine that `latlab tune --boot` boots, whose programs have no `chrt`.

use crate::cli::set_priority::SetArgs;
use crate::outcome::Outcome;
use crate::term;
use anyhow::bail;
use latlab_sys::settings::{Settings, interrupt_threads};
use std::io::Write;

/// Sets priorities, leaves them, and prints the commands that undo it.
///
/// # Errors
/// When no interrupt of that name has a thread, or the kernel refuses.
pub fn run(args: &SetArgs) -> anyhow::Result<Outcome> {
    let mut settings = Settings::new();
    let mut out = term::stdout();
    let mut threads = interrupt_threads();
    threads.retain(|thread| match (&args.interrupt, args.thread) {
        (Some(name), _) => name.is_empty() || thread.is_of(name),
        (None, tid) => thread.tid() == tid,
    });
    if threads.is_empty() {
        bail!("no such interrupt has a thread here");
    }
    for thread in threads {
        let change = settings.set_interrupt_priority(&thread.path, args.priority)?;
        if let (Some(tid), Some(before)) = (thread.tid(), change.from.strip_prefix("fifo ")) {
            writeln!(out, "latlab set-priority --thread {tid} --priority {before}")?;
        }
    }
    out.flush()?;
    settings.abandon();
    Ok(Outcome::Done)
}
