//! `latlab record --check-events`: whether a trace of this kernel can be read.

use crate::cli::Global;
use crate::outcome::{Outcome, OwnHintExt};
use crate::term;
use latlab_sys::tracefs::{EventName, Tracefs};
use latlab_trace::print::has_text;
use latlab_trace::{Endian, EventFormat};
use serde::Serialize;
use std::io::Write;

/// What is read of all events of this kernel.
#[derive(Default, Serialize)]
struct Checked {
    /// Events of the kernel.
    events: usize,
    /// Those whose records cannot be read.
    unreadable: Vec<String>,
    /// Those whose fields are printed instead of the kernel's text.
    without_text: Vec<String>,
}

/// Runs it: exit code 1 if the records of an event cannot be read.
///
/// # Errors
/// When events cannot be listed, or stdout fails.
pub fn run(global: &Global, tracefs: &Tracefs) -> anyhow::Result<Outcome> {
    let events = tracefs.events().with_hint()?;
    let mut checked = Checked { events: events.len(), ..Checked::default() };
    for event in &events {
        // A module was unloaded meanwhile, or ftrace's own entries, which have no format file.
        let Ok(text) = tracefs.format(event) else {
            checked.events -= 1;
            continue;
        };
        match of(event, &text) {
            Some(true) => {}
            Some(false) => checked.without_text.push(event.to_string()),
            None => checked.unreadable.push(event.to_string()),
        }
    }
    print(global, &checked)?;
    Ok(if checked.unreadable.is_empty() { Outcome::Done } else { Outcome::Code(1) })
}

/// Whether the text of an event is understood; `None`: its records cannot be read.
fn of(event: &EventName, text: &str) -> Option<bool> {
    let format = EventFormat::parse(&event.system, text, Endian::NATIVE)?;
    let declared = text.lines().filter(|line| line.trim_start().starts_with("field:")).count();
    (format.fields().len() == declared).then(|| has_text(&format, size_of::<usize>() as u8))
}

fn print(global: &Global, checked: &Checked) -> anyhow::Result<()> {
    let mut out = term::stdout();
    if global.json {
        crate::output::json(checked, &mut out)?;
    } else {
        for event in &checked.unreadable {
            writeln!(out, "{event}: its records cannot be read")?;
        }
        for event in &checked.without_text {
            writeln!(out, "{event}: its fields are printed in place of the kernel's text")?;
        }
        let (all, bad, fields) =
            (checked.events, checked.unreadable.len(), checked.without_text.len());
        writeln!(out, "{all} events: {} are read, {fields} of these as fields", all - bad)?;
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_or_a_text_that_is_not_understood_is_found() {
        let event = EventName { system: "s".into(), name: "e".into() };
        let text = |field: &str, fmt: &str| {
            format!(
                "name: e\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                 \n\t{field}\n\nprint fmt: {fmt}\n"
            )
        };
        let good = "field:int x;\toffset:8;\tsize:4;\tsigned:1;";
        assert_eq!(of(&event, &text(good, "\"x=%d\", REC->x")), Some(true));
        assert_eq!(of(&event, &text(good, "\"x=%d\", nobody_knows(REC->x)")), Some(false));
        assert_eq!(of(&event, &text("field:int x;\toffset:8;", "\"x=%d\", REC->x")), None);
        assert_eq!(of(&event, "name: e\n"), None);
    }
}
