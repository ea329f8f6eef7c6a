//! How a file is laid out, for those who look for what is wrong with it.

use super::options::{Options, id};
use super::section::{COMPRESSED, SECTION_HEAD, section};
use super::trace_file::TraceFile;
use crate::TraceError;
use crate::compress::Codec;
use crate::write::Metadata;
use latlab_model::trace_layout::{
    BufferLayout, CpuLayout, OptionLayout, SectionLayout, SystemLayout, TraceLayout,
};
use std::collections::BTreeMap;

/// Sections that are listed at most.
const SECTIONS_MAX: usize = 10_000;

impl TraceFile<'_> {
    /// Head, sections, options and where the data of each CPU lie. What cannot be read ends the list of sections.
    ///
    /// # Errors
    /// [`TraceError::NotATrace`] for a trace that was made from text.
    pub fn layout(&self) -> Result<TraceLayout, TraceError> {
        let mut sections = Vec::new();
        let _damaged = match self.version {
            6 => self.sections_of_v6(&mut sections),
            7 => self.sections_of_v7(&mut sections),
            _ => return Err(TraceError::NotATrace),
        };
        let mut systems: BTreeMap<&str, u64> = BTreeMap::new();
        self.formats.iter().for_each(|f| *systems.entry(&f.system).or_default() += 1);
        let page_bytes = self.buffers.first().map_or(0, |b| b.layout.page_size);
        Ok(TraceLayout {
            version: self.version,
            big_endian: self.endian == crate::Endian::Big,
            bytes: self.len(),
            user_long_bytes: self.user_long_size,
            kernel_long_bytes: self.long_size(),
            page_bytes,
            compression: self.codec.name().to_owned(),
            cpu_count: self.cpu_count,
            sections,
            systems: systems
                .into_iter()
                .map(|(system, events)| SystemLayout { system: system.to_owned(), events })
                .collect(),
            options: options(&self.options),
            buffers: self.buffer_layouts(),
        })
    }

    fn sections_of_v7(&self, sections: &mut Vec<SectionLayout>) -> Result<(), TraceError> {
        let mut r = self.behind_the_head()?;
        r.cstr("the name of the compression")?;
        r.cstr("the version of the compression")?;
        r.u64("the offset of the options")?;
        let mut offset = r.offset();
        while offset < self.len() && sections.len() < SECTIONS_MAX {
            let found = section(&self.data, self, offset)?;
            let left = self.len() - offset;
            // An unfinished section of data says 0 and goes on to the end.
            let bytes = match (found.id, found.size) {
                (id::BUFFER, 0) => left,
                (_, size) => SECTION_HEAD.saturating_add(size).min(left),
            };
            // The data of CPUs are compressed chunk by chunk.
            let whole = found.flags & COMPRESSED != 0 && self.codec != Codec::None;
            let sizes = usize::try_from(found.data_at).ok().and_then(|at| self.data.get(at..));
            let inflated = || self.endian.uint(sizes?.get(4..)?, 4);
            let inflated_bytes = if whole && found.id != id::BUFFER { inflated() } else { None };
            sections.push(SectionLayout { id: found.id, offset, bytes, inflated_bytes });
            offset += bytes;
        }
        Ok(())
    }

    fn sections_of_v6(&self, sections: &mut Vec<SectionLayout>) -> Result<(), TraceError> {
        let mut at = self.behind_the_head()?.offset();
        let mut put = |id: u16, end: u64| {
            sections.push(SectionLayout { id, offset: at, bytes: end - at, inflated_bytes: None });
            at = end;
        };
        let mut r = self.tables_of_v6(&mut Metadata::default(), &mut put)?;
        r.u32("the number of CPUs")?;
        if r.take(10, "the kind of data")? == b"options  \0" {
            while r.u16("an option")? != id::DONE {
                let size = r.u32("an option")?;
                r.take_u64(size.into(), "an option")?;
            }
            put(id::DONE, r.offset());
        }
        put(id::BUFFER, self.len());
        Ok(())
    }

    fn buffer_layouts(&self) -> Vec<BufferLayout> {
        let of = |b: &super::Buffer| {
            let compressed = b.codec != Codec::None;
            let cpu = |c: &super::CpuData| {
                let start = usize::try_from(c.offset).ok().and_then(|at| self.data.get(at..));
                let parts = match compressed {
                    true => start.and_then(|d| self.endian.uint(d, 4)).unwrap_or(0),
                    false => c.size.div_ceil(b.layout.page_size.into()),
                };
                CpuLayout { cpu: c.cpu, offset: c.offset, bytes: c.size, parts }
            };
            BufferLayout {
                name: b.name.clone(),
                clock: b.clock.clone(),
                compressed,
                cpus: b.cpus.iter().map(cpu).collect(),
            }
        };
        self.buffers.iter().map(of).collect()
    }
}

/// The options by the names of `trace-cmd.dat.v7(5)`.
fn options(o: &Options) -> Vec<OptionLayout> {
    let mut all = Vec::new();
    let mut put = |name: &str, value: String| {
        all.push(OptionLayout { name: name.to_owned(), value: value.trim().to_owned() });
    };
    o.cpu_stats
        .iter()
        .for_each(|s| put("CPUSTAT", s.split_whitespace().collect::<Vec<_>>().join(" ")));
    if !o.clock.is_empty() {
        put("TRACECLOCK", o.clock.clone());
    }
    if !o.uname.is_empty() {
        put("UNAME", o.uname.clone());
    }
    o.hooks.iter().for_each(|hook| put("HOOK", hook.clone()));
    if o.ts_offset != 0 {
        put("OFFSET", o.ts_offset.to_string());
    }
    if let Some(n) = o.cpu_count {
        put("CPUCOUNT", n.to_string());
    }
    if !o.recorder.is_empty() {
        put("VERSION", o.recorder.clone());
    }
    o.proc_maps.iter().for_each(|m| put("PROCMAPS", m.lines().next().unwrap_or("").to_owned()));
    if let Some(id) = o.trace_id {
        put("TRACEID", format!("{id:#x}"));
    }
    if let Some(shift) = &o.time_shift {
        let n = shift.cpus.iter().map(|c| c.times.len()).sum::<usize>();
        put("TIME_SHIFT", format!("peer={:#x} cpus={} shifts={n}", shift.peer, shift.cpus.len()));
    }
    for guest in &o.guests {
        let cpus: Vec<String> = guest.threads.iter().map(|(c, t)| format!("{c}:{t}")).collect();
        put("GUEST", format!("{} trace_id={:#x} {}", guest.name, guest.trace_id, cpus.join(" ")));
    }
    if let Some(tsc) = o.tsc {
        put("TSC2NSEC", format!("mult={} shift={} offset={}", tsc.mult, tsc.shift, tsc.offset));
    }
    o.unknown.iter().for_each(|(number, bytes)| put(&number.to_string(), bytes.to_string()));
    all
}
