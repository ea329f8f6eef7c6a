//! How fast captures are explained: `why_bench MIB FILE…` digests the files again and again, on as
//! many threads as there are CPUs, until so many MiB were digested, as `latlab why` does.

use latlab_analysis::latency::from_trace;
use latlab_analysis::latency::summary::{Digest, conclude, digest};
use latlab_model::event::Event;
use latlab_model::latency::SystemContext;
use latlab_model::units::Nanos;
use latlab_sys::mmap::{Mapped, with_huge_pages};
use latlab_trace::{DEFAULT_MEMORY, KnownFormats, TraceFile};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

#[expect(clippy::print_stdout, reason = "a benchmark prints")]
fn main() {
    let mut args = std::env::args().skip(1);
    let mib: usize = args.next().and_then(|a| a.parse().ok()).unwrap_or(1024);
    let files: Vec<String> = args.collect();
    let size = |f: &String| std::fs::metadata(f).map_or(0, |m| m.len() as usize);
    let once: usize = files.iter().map(size).sum();
    assert!(once > 0, "why_bench MIB FILE…");
    let rounds = (mib << 20).div_ceil(once);
    let all: Vec<&String> = std::iter::repeat_n(&files, rounds).flatten().collect();
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    let work = || {
        let (mut done, mut events, mut known) = (Vec::new(), Vec::new(), KnownFormats::default());
        while let Some(file) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push(one(file, &mut events, &mut known));
        }
        done
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let digests: Vec<Digest> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap_or_default()).collect()
    });
    let digested = begun.elapsed().as_secs_f64();
    let events: u64 = digests.iter().map(|d| d.note.events).sum();
    let windows: usize = digests.iter().map(|d| d.windows.len()).sum();
    let result = conclude(digests, SystemContext::default());
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{:.0} MiB, {} captures, {events} events, {windows} wake-ups, {} causes: {seconds:.2} s \
         ({digested:.2} s for the captures), {:.0} MiB/s on {workers} threads",
        (once * rounds) as f64 / 1048576.0,
        all.len(),
        result.explanation.causes.len(),
        (once * rounds) as f64 / 1048576.0 / seconds
    );
}

fn one(path: &str, events: &mut Vec<Event>, known: &mut KnownFormats) -> Digest {
    let bytes = match Mapped::open_all(Path::new(path)) {
        Ok(bytes) => bytes,
        Err(error) => panic!("{path}: {error}"),
    };
    match TraceFile::parse_after(&bytes, DEFAULT_MEMORY, Some(known)) {
        Ok(file) => {
            let expected = from_trace::expected_events(&file);
            let memory = with_huge_pages(std::mem::take(events), expected);
            let mut capture = from_trace::capture_in(&file, path, memory);
            let digest = digest(&mut capture, Nanos(0));
            *events = capture.events;
            digest
        }
        Err(error) => panic!("{path}: {error}"),
    }
}
