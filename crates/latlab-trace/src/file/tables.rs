//! Tables that versions 6 and 7 have in common: page layout and event formats.

use super::buffer::PageLayout;
use crate::bytes::Reader;
use crate::{Diagnostics, EventFormat, Formats, TraceError};

/// Adds the formats of one list: count, then size and text of each.
pub(super) fn add_formats(
    r: &mut Reader<'_>,
    system: &str,
    count: u32,
    formats: &mut Formats,
    diagnostics: &mut Diagnostics,
) -> Result<(), TraceError> {
    for _ in 0..count {
        let at = r.offset();
        let size = r.u64("an event's format")?;
        let text = String::from_utf8_lossy(r.take_u64(size, "an event's format")?);
        match EventFormat::parse(system, &text, r.endian) {
            Some(format) => {
                let name = format.full_name();
                if !formats.add(format) {
                    diagnostics.push(None, at, format!("the number of event {name} is taken"));
                }
            }
            None => diagnostics.push(None, at, "an event's format has no name or number"),
        }
    }
    Ok(())
}

/// The formats of all systems: count, then name, count and formats of each.
pub(super) fn add_systems(
    r: &mut Reader<'_>,
    formats: &mut Formats,
    diagnostics: &mut Diagnostics,
) -> Result<(), TraceError> {
    for _ in 0..r.u32("the number of event systems")? {
        let system = String::from_utf8_lossy(r.cstr("the name of an event system")?);
        let count = r.u32("the number of events of a system")?;
        add_formats(r, &system, count, formats, diagnostics)?;
    }
    Ok(())
}

/// `header_page` and `header_event`: the first tells the layout of a page.
pub(super) fn header_info(r: &mut Reader<'_>, page_size: u32) -> Result<PageLayout, TraceError> {
    let at = r.offset();
    if r.cstr("header_page")? != b"header_page" {
        return Err(TraceError::Malformed {
            offset: at,
            what: "header_page",
            reason: "it is not there".into(),
        });
    }
    let size = r.u64("header_page")?;
    let text = String::from_utf8_lossy(r.take_u64(size, "header_page")?);
    let layout = PageLayout::parse(&text, page_size, r.endian);
    r.cstr("header_event")?;
    let size = r.u64("header_event")?;
    r.take_u64(size, "header_event")?;
    Ok(layout)
}
