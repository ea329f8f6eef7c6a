//! How long the viewer's flame graph of a whole trace takes: `flame-speed FILE`. The stacks of
//! `fixtures/trace/stack6.dat` a million times over are made by `trace_bench make` (latlab-testkit).

use latlab_trace::TraceFile;
use latlab_view::flame::flame;
use latlab_view::index::{Index, Progress};
use latlab_view::rows::Rows;
use std::time::Instant;

#[expect(clippy::print_stdout, reason = "a benchmark prints")]
fn main() {
    let path = std::env::args().nth(1).unwrap_or_default();
    let data = std::fs::read(&path).unwrap_or_default();
    let file = match TraceFile::parse(&data) {
        Ok(file) => file,
        Err(error) => panic!("flame-speed FILE: {path}: {error}"),
    };
    let index = Index::build(&file, 0, 1, &Progress::default(), &[], &mut |_| {});
    let rows = Rows::new(&file, 0);
    let begun = Instant::now();
    let graph = flame(&file, &rows, &index, index.origin, index.end);
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{} of {} events, {} boxes in {seconds:.3} s",
        graph.nodes.first().map_or(0, |n| n.value),
        index.events,
        graph.nodes.len()
    );
}
