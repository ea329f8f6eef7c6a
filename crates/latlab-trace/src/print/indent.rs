//! How deep the functions of the `function` tracer are drawn: below the caller that each names.

use super::notes::{Note, NotedBatch};
use super::{Dialect, LineStyle};
use crate::names::Symbols;
use crate::{Field, TraceFile};

/// A CPU's chain of callers, by the addresses of the functions' starts. It is not cut where a
/// function returns, which the tracer does not tell, but goes on from wherever the next caller is
/// in it.
#[derive(Debug)]
pub(super) struct Callers<'f> {
    id: u16,
    function: &'f Field,
    caller: &'f Field,
    symbols: &'f Symbols<'f>,
    chains: Vec<(u32, Vec<u64>)>,
}

/// A chain is no longer than the deepest kernel stack; recursion is cut there.
const MAX_DEPTH: usize = 128;

impl<'f> Callers<'f> {
    /// `None` when the file has no such events, or they are not drawn so.
    pub fn new(file: &'f TraceFile<'_>, style: &LineStyle) -> Option<Self> {
        let format = file.formats.find("function").filter(|f| &*f.system == "ftrace")?;
        let plain = style.dialect != Dialect::TraceCmd || style.json;
        if plain || style.fields_of.contains(&format.id) {
            return None;
        }
        Some(Self {
            id: format.id,
            function: format.field("ip")?,
            caller: format.field("parent_ip")?,
            symbols: &file.symbols,
            chains: Vec::new(),
        })
    }

    /// Notes the depth of each function in the batch, which must be the next one.
    pub fn note(&mut self, batch: &mut NotedBatch<'_>) {
        let mut notes = Vec::new();
        let id = self.id;
        for (n, event) in batch.events.events().enumerate().filter(|(_, e)| e.id == id) {
            let start = |address: u64| match self.symbols.find(address) {
                Some(symbol) => address.wrapping_sub(symbol.offset),
                None => address,
            };
            let function = start(self.function.u64(event.payload));
            let caller = start(self.caller.u64(event.payload));
            let depth = self.depth(event.cpu, caller, function);
            if depth > 0 {
                notes.push((n as u32, Note::Below(depth)));
            }
        }
        batch.add_notes(notes);
    }

    fn depth(&mut self, cpu: u32, caller: u64, function: u64) -> u16 {
        let at = match self.chains.iter().position(|(c, _)| *c == cpu) {
            Some(at) => at,
            None => {
                self.chains.push((cpu, Vec::new()));
                self.chains.len() - 1
            }
        };
        let chain = &mut self.chains[at].1;
        let depth = chain.iter().position(|f| *f == caller).unwrap_or_else(|| {
            put(chain, 0, caller);
            0
        });
        put(chain, depth + 1, function);
        depth as u16
    }
}

/// What was deeper stays: a later function may name it as its caller.
fn put(chain: &mut Vec<u64>, at: usize, function: u64) {
    match chain.get_mut(at) {
        Some(place) => *place = function,
        None if at < MAX_DEPTH => chain.push(function),
        None => {}
    }
}
