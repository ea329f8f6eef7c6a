//! The tables of a trace.dat as they lie in the file, for writing them into another one.

use super::options::id;
use super::section::contents;
use super::trace_file::{Head, TraceFile};
use super::v7;
use crate::TraceError;
use crate::bytes::Reader;
use crate::write::{EventSystem, Metadata};

/// Longest page head and event head, and numbers of systems and events, that are not damage.
const COUNT_MAX: u32 = 1 << 20;

impl TraceFile<'_> {
    /// Everything besides the events, to be written with [`crate::write`]. A part that is damaged is left out, as it is
    /// in reading. Statistics of the buffers are not part of it: they describe the whole recording.
    ///
    /// # Errors
    /// [`TraceError::NotATrace`] for a trace that was made from text, which has no such tables.
    pub fn metadata(&self) -> Result<Metadata, TraceError> {
        if !matches!(self.version, 6 | 7) {
            return Err(TraceError::NotATrace);
        }
        // Cycles are ns in what is read.
        let clock = if self.options.tsc.is_some() { "tsc2nsec" } else { self.clock() };
        let page_size = self.buffers.iter().map(|b| b.layout.page_size).max().unwrap_or(4096);
        let mut meta = Metadata {
            big_endian: self.endian == crate::Endian::Big,
            long_size: self.user_long_size.clamp(4, 8),
            page_size,
            kallsyms: self.symbols.text().to_vec(),
            uname: self.options.uname.clone(),
            clock: clock.to_owned(),
            trace_clock: format!("[{clock}]"),
            trace_id: self.options.trace_id.unwrap_or(0),
            cpu_count: self.cpu_count,
            ..Metadata::default()
        };
        match self.version {
            6 => self.tables_of_v6(&mut meta, &mut |_, _| {}).map(|_| ())?,
            _ => self.tables_of_v7(&mut meta)?,
        }
        if meta.header_page.is_empty() {
            meta.header_page = self.layout_text();
        }
        Ok(meta)
    }

    /// `header_page` of a file that has none: the layout that is assumed for it.
    fn layout_text(&self) -> Vec<u8> {
        let Some(l) = self.buffers.first().map(|b| b.layout) else { return Vec::new() };
        let (commit, long, data) = (l.commit_at, l.long_size, l.data_at);
        let size = l.page_size.saturating_sub(data);
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:{commit};\tsize:{long};\tsigned:1;\n\tfield: char data;\toffset:{data};\tsize:{size};\tsigned:0;\n"
        )
        .into_bytes()
    }

    /// Reads the tables of version 6; `end` is given the number of each in version 7 and where it ends. The reader is
    /// behind them.
    pub(super) fn tables_of_v6(
        &self,
        meta: &mut Metadata,
        end: &mut dyn FnMut(u16, u64),
    ) -> Result<Reader<'_>, TraceError> {
        let mut r = self.behind_the_head()?;
        heads(&mut r, meta)?;
        end(id::HEADER_INFO, r.offset());
        meta.ftrace_formats = formats(&mut r)?;
        end(id::FTRACE_EVENTS, r.offset());
        meta.systems = systems(&mut r)?;
        end(id::EVENT_FORMATS, r.offset());
        let size = r.u32("the kernel's symbols")?;
        r.take_u64(size.into(), "the kernel's symbols")?;
        end(id::KALLSYMS, r.offset());
        let size = r.u32("the printk formats")?;
        meta.printk_formats = r.take_u64(size.into(), "the printk formats")?.to_vec();
        end(id::PRINTK, r.offset());
        let size = r.u64("the command lines")?;
        meta.cmdlines = r.take_u64(size, "the command lines")?.to_vec();
        end(id::CMDLINES, r.offset());
        Ok(r)
    }

    fn tables_of_v7(&self, meta: &mut Metadata) -> Result<(), TraceError> {
        let head = Head {
            version: self.version,
            endian: self.endian,
            user_long_size: self.user_long_size,
            page_size: meta.page_size,
            memory: self.memory.limit(),
        };
        let mut file = TraceFile::empty(&self.data, &head);
        let pointers = v7::pointers(&self.data, &mut file, self.behind_the_head()?)?;
        let load =
            |at: Option<u64>, id: u16| at.and_then(|at| contents(&self.data, &file, at, id).ok());
        if let Some((bytes, _)) = load(pointers.header, id::HEADER_INFO) {
            heads(&mut Reader::new(&bytes, self.endian), meta)?;
        }
        if let Some((bytes, _)) = load(pointers.ftrace, id::FTRACE_EVENTS) {
            meta.ftrace_formats = formats(&mut Reader::new(&bytes, self.endian))?;
        }
        if let Some((bytes, _)) = load(pointers.events, id::EVENT_FORMATS) {
            meta.systems = systems(&mut Reader::new(&bytes, self.endian))?;
        }
        if let Some((bytes, _)) = load(pointers.printk, id::PRINTK) {
            meta.printk_formats = v7::without_size(bytes, self.endian, 4).into_owned();
        }
        if let Some((bytes, _)) = load(pointers.cmdlines, id::CMDLINES) {
            meta.cmdlines = v7::without_size(bytes, self.endian, 8).into_owned();
        }
        Ok(())
    }

    /// Behind magic, version, byte order, size of long, and page size.
    pub(super) fn behind_the_head(&self) -> Result<Reader<'_>, TraceError> {
        let mut r = Reader::new(&self.data, self.endian);
        r.seek(super::MAGIC.len());
        r.cstr("the version")?;
        r.take(2 + 4, "the page size")?;
        Ok(r)
    }
}

/// `header_page` and `header_event`.
fn heads(r: &mut Reader<'_>, meta: &mut Metadata) -> Result<(), TraceError> {
    for (name, text) in
        [("header_page", &mut meta.header_page), ("header_event", &mut meta.header_event)]
    {
        r.cstr(name)?;
        let size = r.u64(name)?;
        *text = r.take_u64(size, name)?.to_vec();
    }
    Ok(())
}

/// Count, then size and text of each; as many as there are.
fn formats(r: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, TraceError> {
    let count = r.u32("the number of events")?;
    let mut all = Vec::new();
    for _ in 0..count.min(COUNT_MAX) {
        let text = r.u64("an event's format").and_then(|n| r.take_u64(n, "an event's format"));
        let Ok(text) = text else { break };
        all.push(text.to_vec());
    }
    Ok(all)
}

/// Count, then name and formats of each; as many as there are.
fn systems(r: &mut Reader<'_>) -> Result<Vec<EventSystem>, TraceError> {
    let count = r.u32("the number of event systems")?;
    let mut all = Vec::new();
    for _ in 0..count.min(COUNT_MAX) {
        let Ok(name) = r.cstr("the name of an event system") else { break };
        let name = String::from_utf8_lossy(name).into_owned();
        let Ok(formats) = formats(r) else { break };
        all.push(EventSystem { name, formats });
    }
    Ok(all)
}
