//! Scores the inference of memory hierarchies on simulated machines.
//!
//! `cargo run --release -p latlab-testkit --example cache-score -- [frozen|hostile|training|hostile-training|named] [quick] [faults] [only=N] [first=N] [seconds=N]`:
//! `frozen` (the default) are 120 machines of `catalog::drawn` and 80 of `catalog::wide` with fixed seeds, `hostile` 80 of
//! `catalog::hostile`, with policies and interference that no model of the inference contains (`hostile-training` 40
//! others). `faults` prints each wrong answer (not for these two: they are not to be tuned on). All processors are used; the answers do not depend
//! on how many. Each machine that is done is a line on stderr; `first` and `seconds`, after which none is begun, bound
//! how many there are.

use latlab_testkit::cache_sim::Hierarchy;
use latlab_testkit::cache_sim::catalog;
use latlab_testkit::cache_sim::score;
use latlab_testkit::cache_sim::score::{Answer, LevelAnswer, Score, Tally};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Seed of the first machine's simulation; each further one has the next.
const FIRST_SEED: u64 = 40_000;

fn main() -> std::io::Result<()> {
    let words: Vec<String> =
        std::env::args_os().skip(1).filter_map(|a| a.into_string().ok()).collect();
    let has = |word: &str| words.iter().any(|w| w == word);
    let number =
        |what: &str| words.iter().find_map(|w| w.strip_prefix(what)?.parse::<usize>().ok());
    let (name, all) = if has("training") {
        ("training", catalog::training())
    } else if has("named") {
        ("named", catalog::named())
    } else if has("hostile-training") {
        ("hostile-training", catalog::training_hostile())
    } else if has("hostile") {
        ("hostile", catalog::frozen_hostile())
    } else {
        ("frozen", catalog::frozen())
    };
    let wanted = Wanted {
        only: number("only="),
        first: number("first="),
        time: number("seconds=").map(|s| Duration::from_secs(s as u64)),
        quick: has("quick"),
    };
    let scored = score_all(&all, &wanted);
    let mut out = std::io::stdout().lock();
    for family in ["drawn", "wide", ""] {
        let of = |(i, _): &&(usize, Score)| name == "named" || all[*i].name.contains(family);
        let mut sum = Score::default();
        scored.iter().filter(of).for_each(|(_, s)| sum.add(s.clone()));
        if !scored.iter().any(|s| of(&s)) || (name == "named" && !family.is_empty()) {
            continue;
        }
        let shown = if family.is_empty() { name } else { family };
        print(&mut out, shown, scored.iter().filter(of).count(), &sum)?;
    }
    if has("faults") && !["frozen", "hostile"].contains(&name) {
        for (i, s) in &scored {
            for fault in &s.faults {
                writeln!(out, "{i} {} {fault}", all[*i].name)?;
            }
        }
    }
    Ok(())
}

fn print(out: &mut impl Write, family: &str, machines: usize, s: &Score) -> std::io::Result<()> {
    let line = |out: &mut dyn Write, what: &str, t: &Tally| {
        let (all, share) = (t.right + t.wrong + t.undetermined, 100.0 * t.share());
        let (wrong, undetermined) = (t.wrong, t.undetermined);
        writeln!(
            out,
            "| {what} | {share:.1} % | {} of {all} | {wrong} wrong | {undetermined} not determined |",
            t.right
        )
    };
    writeln!(
        out,
        "\n{family}: {machines} machines, {:.1} million loads each",
        s.loads as f64 / 1e6 / machines as f64
    )?;
    for (n, t) in s.sizes.iter().enumerate() {
        line(out, &format!("L{} size exact", n + 1), t)?;
    }
    line(out, "size interval holds the truth", &s.covered)?;
    for (i, grade) in ["high", "medium", "low"].iter().enumerate() {
        line(out, &format!("sizes of {grade} confidence exact"), &s.grades[i])?;
        line(out, &format!("sizes of {grade} confidence in their interval"), &s.grades_covered[i])?;
    }
    line(out, "line exact", &s.lines)?;
    line(out, "ways exact", &s.ways)?;
    line(out, "latency within 5 %", &s.latencies)?;
    line(out, "TLB entries exact", &s.entries)?;
    for (i, grade) in ["high", "medium", "low"].iter().enumerate() {
        line(out, &format!("TLB entries of {grade} confidence exact"), &s.tlb_grades[i])?;
    }
    line(out, "TLB interval holds the truth", &s.entries_covered)?;
    writeln!(out, "TLB intervals that are one value: {}", s.tlb_single)?;
    let mut widths = s.widths.clone();
    widths.sort_by(f64::total_cmp);
    let at =
        |q: f64| widths.get((q * (widths.len() as f64 - 1.0)) as usize).copied().unwrap_or(0.0);
    let single = widths.iter().filter(|w| **w == 0.0).count();
    writeln!(
        out,
        "size intervals: {single} of {} are one value; width median {:.2}, 90 % {:.2} doublings; caches invented {}, TLBs invented {}",
        widths.len(),
        at(0.5),
        at(0.9),
        s.invented,
        s.invented_tlbs
    )
}

/// Which machines, and how.
struct Wanted {
    only: Option<usize>,
    first: Option<usize>,
    /// No machine is begun after this.
    time: Option<Duration>,
    quick: bool,
}

fn score_all(all: &[Hierarchy], w: &Wanted) -> Vec<(usize, Score)> {
    let wanted: Vec<usize> = (0..all.len())
        .filter(|i| w.only.is_none_or(|n| n == *i) && w.first.is_none_or(|n| *i < n))
        .collect();
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while w.time.is_none_or(|t| began.elapsed() < t)
                    && let Some(&i) = wanted.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let since = Instant::now();
                    let seed = FIRST_SEED + i as u64;
                    let mut machine = score::machine(&all[i], seed);
                    let answer = answer_of(&mut machine, seed, w.quick);
                    let score = score::compare(&all[i], &answer, machine.loads);
                    if let Ok(mut done) = done.lock() {
                        done.push((i, score));
                        let (n, of, s) = (done.len(), wanted.len(), since.elapsed().as_secs_f64());
                        let loads = machine.loads as f64 / 1e6;
                        let line =
                            format!("{n} of {of}: machine {i}, {loads:.1} million loads, {s:.0} s");
                        writeln!(std::io::stderr(), "{line}").ok();
                    }
                }
            });
        }
    });
    let mut all = done.into_inner().unwrap_or_default();
    all.sort_by_key(|(i, _)| *i);
    all
}

/// The answer of the inference.
fn answer_of(machine: &mut latlab_testkit::cache_sim::Simulated, seed: u64, quick: bool) -> Answer {
    use latlab_analysis::cache::{Config, Session, run};
    use latlab_model::cache::detail::Level;
    use latlab_model::finding::Confidence;
    let config = Config { quick, seed, emulated: false };
    let mut session = Session::new(machine.limits(), config);
    if run(&mut session, machine).is_err() {
        return Answer::default();
    }
    let found = session.result();
    let index = |c: Confidence| match c {
        Confidence::High => 0,
        Confidence::Medium => 1,
        Confidence::Low => 2,
    };
    let level = |l: &Level| LevelAnswer {
        bytes: l.bytes,
        interval: l.bytes_interval,
        ways: l.ways,
        ns: l.ns,
        confidence: index(l.grade.confidence),
    };
    Answer {
        levels: found.levels.iter().map(level).collect(),
        line: found.line.as_ref().map(|l| l.bytes),
        memory_ns: found.memory_ns,
        tlbs: found
            .tlbs
            .iter()
            .map(|t| (t.entries, t.entries_interval, index(t.grade.confidence)))
            .collect(),
    }
}
