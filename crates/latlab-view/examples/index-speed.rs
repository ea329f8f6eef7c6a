//! How fast the viewer's index is built: `index-speed FILE THREADS`. `bench/sched-speed.sh` runs it.

use latlab_trace::TraceFile;
use latlab_view::index::{Index, Progress};
use std::time::Instant;

#[expect(clippy::print_stdout, reason = "a benchmark prints")]
fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_default();
    let threads = args.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let data = std::fs::read(&path).unwrap_or_default();
    let file = match TraceFile::parse(&data) {
        Ok(file) => file,
        Err(error) => panic!("index-speed FILE THREADS: {path}: {error}"),
    };
    let begun = Instant::now();
    let index = Index::build(&file, 0, threads, &Progress::default(), &[], &mut |_| {});
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{} events in {seconds:.3} s, {:.1} M events/s",
        index.events,
        index.events as f64 / seconds / 1e6
    );
}
