//! The spans of a watch: what is recorded for them, and which end in a look.

use super::events::{NO_FILTER, of_threads};
use super::tasks::Threads;
use crate::cli::watch::SpanConfig;
use crate::cmd::why::ends::Both;
use latlab_analysis::latency::activations::from_capture::Thread;
use latlab_analysis::latency::activations::spans::{self, Ending, Ends, Key};
use latlab_analysis::latency::capture::Capture;
use latlab_analysis::watch::spans::FollowSpans;
use latlab_model::units::{Nanos, Tid, TraceNs};
use latlab_sys::recorder::RecordConfig;
use latlab_sys::tracefs::{Probes, Tracefs};
use latlab_trace::TraceFile;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

/// The events of the threads that began a span are kept so long.
const HELD: Nanos = Nanos(20_000_000_000);

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Spans {
    own: Vec<Span>,
    /// For the instance that records now. They are removed after it.
    probes: Option<Probes>,
}

/// Those between two events.
#[derive(Debug)]
struct Span {
    name: String,
    both: Both,
    follow: FollowSpans,
    /// The events of the ends, `system:name`.
    events: Vec<String>,
    programs: Programs,
}

/// Device, inode and time of the last change of the programs that have probes; `None`: it is not there.
type Programs = Vec<Option<(u64, u64, i64)>>;

impl Span {
    fn programs(&self) -> Programs {
        let of = |path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino(), m.mtime()));
        self.both.programs().map(of).collect()
    }
}

impl Spans {
    /// None recorded yet.
    ///
    /// # Errors
    /// One sentence that names the span.
    pub(super) fn new(configs: &[SpanConfig]) -> anyhow::Result<Self> {
        let span = |config: &SpanConfig| {
            let SpanConfig { name, from, to, key, .. } = config;
            let both =
                Both::new((from, to), key, true).map_err(|e| e.context(format!("span {name}")))?;
            let follow = FollowSpans::new(both.ends());
            let (name, events, programs) = (name.clone(), Vec::new(), Programs::new());
            Ok(Span { name, both, follow, events, programs })
        };
        let own = configs.iter().map(span).collect::<anyhow::Result<_>>()?;
        Ok(Self { own, probes: None })
    }

    /// Makes the probes, and adds the events to what is recorded. No instance has the probes of before.
    ///
    /// # Errors
    /// When a place is not found, or this kernel lacks what it takes.
    pub(super) fn prepare(
        &mut self,
        tracefs: &Tracefs,
        config: &mut RecordConfig,
    ) -> anyhow::Result<()> {
        self.probes = None;
        let mut probes = Probes::new(tracefs);
        for span in &mut self.own {
            span.programs = span.programs();
            span.events = span
                .both
                .prepare(tracefs, config, &mut probes)
                .map_err(|e| e.context(format!("span {}", span.name)))?;
            span.follow.clear();
        }
        self.probes = Some(probes);
        Ok(())
    }

    /// Whether a program with a probe was replaced, and the new one has the place too. One without it is reported, and the
    /// probe stays where it is.
    pub(super) fn are_replaced(&mut self) -> bool {
        let mut replaced = false;
        for span in &mut self.own {
            let programs = span.programs();
            if programs == span.programs || programs.contains(&None) {
                continue;
            }
            span.programs = programs;
            match span.both.check() {
                Ok(()) => replaced = true,
                Err(error) => log::warn!("span {}: {error:#}", span.name),
            }
        }
        replaced
    }

    /// The kernel's filter of an event that is an end of a span; `None`: it is none.
    pub(super) fn filter(&self, event: &str, threads: &Threads) -> Option<String> {
        let mut own: Vec<Tid> = Vec::new();
        let mut is_end = false;
        for (span, tids) in self.own.iter().zip(&threads.spans) {
            if !span.events.iter().any(|e| e == event) {
                continue;
            }
            is_end = true;
            match tids {
                Some(tids) if span.follow.ends().key == Key::Tid => own.extend(tids),
                _ => return Some(NO_FILTER.into()),
            }
        }
        own.sort_unstable();
        own.dedup();
        is_end.then(|| of_threads(&["common_pid"], &own))
    }

    /// Adds what was recorded. How many of the events have no place.
    ///
    /// # Errors
    /// When the recording has no such event or field.
    pub(super) fn add(&mut self, file: &TraceFile<'_>) -> anyhow::Result<u64> {
        let mut unseen = 0;
        for span in &mut self.own {
            let added = span.follow.add(file);
            unseen +=
                added.map_err(|e| anyhow::Error::new(e).context(format!("span {}", span.name)))?;
        }
        Ok(unseen)
    }

    /// Those that ended until a horizon, by the number of their entry.
    pub(super) fn take(
        &mut self,
        window: &Capture,
        horizon: TraceNs,
        threads: &Threads,
    ) -> Vec<(usize, Thread)> {
        let mut all = Vec::new();
        for (number, span) in self.own.iter_mut().enumerate() {
            let of = threads.spans.get(number).and_then(Option::as_ref);
            let found = span.follow.take(window, &threads.all, horizon);
            let is_own = |t: &Thread| of.is_none_or(|tids| tids.binary_search(&t.tid).is_ok());
            all.extend(found.into_iter().filter(is_own).map(|thread| (number, thread)));
        }
        all
    }

    /// Adds the threads that began open spans to those whose events are needed, and since when.
    pub(super) fn hold(&self, held: Vec<(Tid, TraceNs)>, horizon: TraceNs) -> Vec<(Tid, TraceNs)> {
        let mut all: BTreeMap<Tid, TraceNs> = held.into_iter().collect();
        for span in &self.own {
            for (tid, since) in span.follow.held(horizon, HELD) {
                all.entry(tid).and_modify(|own| *own = since.min(*own)).or_insert(since);
            }
        }
        all.into_iter().collect()
    }

    /// Nothing was recorded for a time.
    pub(super) fn lose(&mut self) {
        self.own.iter_mut().for_each(|span| span.follow.lose());
    }

    /// What begins and ends those of an entry.
    pub(super) fn ends(&self, number: usize) -> Option<&Ends> {
        self.own.get(number).map(|span| span.follow.ends())
    }
}

/// The spans of a capture.
///
/// # Errors
/// When the capture has no such event or field.
pub(super) fn of_capture(
    file: &TraceFile<'_>,
    capture: &Capture,
    ends: &Ends,
) -> anyhow::Result<Vec<Thread>> {
    let found = spans::spans(file, ends, Ending::default())?;
    Ok(spans::threads(capture, &found.spans, ends))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str, from: &str, key: &str, task: Option<&str>) -> SpanConfig {
        let (name, from, to) = (name.to_owned(), from.to_owned(), "sysret:read".to_owned());
        let (key, task) = (key.to_owned(), task.map(str::to_owned));
        SpanConfig { name, from, to, key, task, deadline: None }
    }

    #[test]
    fn ends_are_filtered_by_the_threads_that_record_them() {
        let of = |own: &[SpanConfig], threads: &[Option<Vec<Tid>>]| {
            let mut spans = Spans::new(own).unwrap();
            spans.own[0].events = vec!["syscalls:sys_exit_read".into()];
            let threads = Threads { spans: threads.to_vec(), ..Threads::default() };
            let other = spans.filter("sched:sched_switch", &threads);
            assert_eq!(other, None);
            spans.filter("syscalls:sys_exit_read", &threads).unwrap()
        };
        let from = "syscall:read";
        let own = [config("a", from, "tid", Some("x"))];
        assert_eq!(of(&own, &[Some(vec![Tid(7)])]), "common_pid == 7");
        assert_eq!(of(&own, &[Some(vec![])]), "common_pid == 2147483647");
        assert_eq!(of(&own, &[None]), "0");
        // Another thread may begin it.
        assert_eq!(of(&[config("a", from, "none", Some("x"))], &[Some(vec![Tid(7)])]), "0");
    }

    #[test]
    fn a_mistake_names_the_span() {
        let error = Spans::new(&[config("a", "read", "tid", None)]).unwrap_err();
        assert!(format!("{error:#}").starts_with("span a: --from read: expected"), "{error:#}");
    }
}
