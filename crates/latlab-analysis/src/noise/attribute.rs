//! Which actors ran in the interruptions of one CPU.

use crate::timeline::actor::Actor;
use crate::timeline::from_trace::Analysis;
use crate::timeline::span::{Span, Spans};
use latlab_model::event::{Event, EventKind, Names, Symbol, softirq_name};
use latlab_model::noise::{Interruption, NoiseKind};
use latlab_model::units::{CpuId, Tid, TraceNs};
use latlab_trace::decode::Groups;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A source: its kind, and its name where the kind alone does not tell.
pub type Source = (NoiseKind, String);

/// What ran instead of the loop, from one event to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Start, ns.
    pub start: u64,
    /// End, ns.
    pub end: u64,
    /// Index of the source.
    pub source: usize,
    /// An activation of the source began here (false: it went on after what interrupted it).
    pub begins: bool,
}

/// Events of one CPU while it looped.
#[derive(Clone, Debug, Default)]
pub struct CpuPieces {
    /// In order of time.
    pub pieces: Vec<Piece>,
    /// Time of the first event, ns.
    pub first: Option<u64>,
}

/// What tells the source of a span.
type Key = (Actor, Option<Actor>, Option<Actor>, Option<(Tid, Symbol)>);

/// Takes the events of one window.
#[derive(Debug)]
pub struct Pieces {
    loops: HashMap<CpuId, Tid>,
    spans: Spans,
    /// By CPU.
    pub cpus: BTreeMap<CpuId, CpuPieces>,
    /// By index.
    pub sources: Vec<Source>,
    index: HashMap<Source, usize>,
    known: HashMap<Key, usize>,
}

impl Pieces {
    /// For loops by their CPU and thread.
    pub fn new(loops: impl IntoIterator<Item = (CpuId, Tid)>) -> Self {
        Self {
            loops: loops.into_iter().collect(),
            spans: Spans::new(HashSet::new()),
            cpus: BTreeMap::new(),
            sources: Vec::new(),
            index: HashMap::new(),
            known: HashMap::new(),
        }
    }

    /// Adds a piece of that source, whose number it gets.
    pub fn add_piece(&mut self, cpu: CpuId, piece: Piece, source: Source) {
        let source = self.number(source);
        self.cpus.entry(cpu).or_default().pieces.push(Piece { source, ..piece });
    }

    fn number(&mut self, source: Source) -> usize {
        let next = self.sources.len();
        let at = *self.index.entry(source.clone()).or_insert(next);
        if at == next {
            self.sources.push(source);
        }
        at
    }

    fn add(&mut self, cpu: CpuId, span: Span, own: Tid, names: &Names) {
        if span.actor == Actor::Task(own) {
            return;
        }
        let named = matches!(span.actor, Actor::Task(_) | Actor::Work(_));
        let task = named.then_some((span.task.tid, span.task.name));
        let key = (span.actor, span.inside, span.outermost, task);
        let source = match self.known.get(&key) {
            Some(&source) => source,
            None => {
                let at = self.number(source(&span, names));
                self.known.insert(key, at);
                at
            }
        };
        let (start, end, begins) = (span.start.0, span.end.0, span.begins);
        let pieces = &mut self.cpus.entry(cpu).or_default().pieces;
        match pieces.last_mut() {
            // Functions within an interrupt cut its time, and are no activation of their own.
            Some(last) if last.source == source && last.end == start && !is_entry(&span) => {
                last.end = end;
            }
            _ => pieces.push(Piece { start, end, source, begins }),
        }
    }
}

/// Whether the span begins an activation of its source, not a function within it.
fn is_entry(span: &Span) -> bool {
    span.begins && !matches!(span.actor, Actor::Hrtimer(_) | Actor::Timer(_) | Actor::Work(_))
}

impl Analysis for Pieces {
    fn groups(&self) -> Groups {
        Groups::SWITCH | Groups::INTERRUPT | Groups::EXPIRY | Groups::REST
    }
    fn take(&mut self, event: &Event, names: &Names) {
        let Some(&own) = self.loops.get(&event.cpu) else { return };
        if matches!(event.kind, EventKind::Noise { .. } | EventKind::Lost { .. }) {
            return;
        }
        let cpu = self.cpus.entry(event.cpu).or_default();
        cpu.first.get_or_insert(event.time.0);
        let at = self.spans.place(event);
        let mut ended: [Option<Span>; 4] = [None; 4];
        let mut n = 0;
        self.spans.push(at, 0, event, &mut |span| {
            if let Some(place) = ended.get_mut(n) {
                *place = Some(span);
                n += 1;
            }
        });
        for span in ended.into_iter().flatten().filter(|s| s.end > s.start && s.start != TraceNs(0))
        {
            self.add(event.cpu, span, own, names);
        }
    }
}

fn source(span: &Span, names: &Names) -> Source {
    let of_task = |tid: Tid| {
        let name = names.get(span.task.name);
        let name =
            if name.is_empty() { ["task ", &tid.to_string()].concat() } else { name.to_owned() };
        (NoiseKind::Thread, name)
    };
    let direct = |actor: Actor| match actor {
        Actor::Nmi => Some((NoiseKind::Nmi, String::new())),
        Actor::Irq(n, name) => {
            Some((NoiseKind::Interrupt, [&n.to_string(), " ", names.get(name)].concat()))
        }
        Actor::Vector(name) => Some((NoiseKind::Interrupt, names.get(name).to_owned())),
        Actor::Softirq(vec) => Some((NoiseKind::Softirq, softirq_name(vec).to_owned())),
        Actor::Idle => Some((NoiseKind::Thread, "idle".to_owned())),
        Actor::Task(tid) => Some(of_task(tid)),
        Actor::Hrtimer(_) | Actor::Timer(_) | Actor::Work(_) => None,
    };
    // A function of a timer is a part of the interrupt or softirq that calls it.
    direct(span.actor)
        .or_else(|| span.inside.and_then(direct))
        .or_else(|| span.outermost.and_then(direct))
        .unwrap_or_else(|| match span.actor {
            Actor::Work(_) => of_task(span.task.tid),
            _ => (NoiseKind::Interrupt, "timer".to_owned()),
        })
}

/// One interruption with what ran in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The interruption.
    pub of: Interruption,
    /// Source, time in ns, activations; the largest time first.
    pub shares: Vec<(usize, u64, u64)>,
    /// Time in no piece, ns.
    pub rest: u64,
}

/// Joins interruptions and pieces, both in order of time. Both are of one clock.
pub fn explain(interruptions: &[Interruption], pieces: &[Piece]) -> Vec<Explained> {
    let mut at = 0;
    let mut out = Vec::with_capacity(interruptions.len());
    for &of in interruptions {
        let (from, to) = (of.start_ns, of.start_ns.saturating_add(of.length_ns));
        while pieces.get(at).is_some_and(|p| p.end <= from) {
            at += 1;
        }
        let mut shares: Vec<(usize, u64, u64)> = Vec::new();
        let mut covered = 0;
        for p in pieces[at.min(pieces.len())..].iter().take_while(|p| p.start < to) {
            let ns = p.end.min(to).saturating_sub(p.start.max(from));
            covered += ns;
            match shares.iter_mut().find(|s| s.0 == p.source) {
                Some(share) => (share.1, share.2) = (share.1 + ns, share.2 + u64::from(p.begins)),
                None => shares.push((p.source, ns, u64::from(p.begins))),
            }
        }
        // An activation that began before the interruption, as far as the clock tells, is one too.
        shares.iter_mut().for_each(|s| s.2 = s.2.max(1));
        shares.sort_by_key(|s| std::cmp::Reverse(s.1));
        out.push(Explained { of, shares, rest: of.length_ns.saturating_sub(covered) });
    }
    out
}
