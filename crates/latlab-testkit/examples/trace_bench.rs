//! Makes a large trace out of a small one and reads it; `bench/trace-read.sh` runs it beside trace-cmd.
//!
//! ```text
//! trace_bench make SMALL.dat BIG.dat EVENTS    the small one's pages again and again, later each time
//! trace_bench scan FILE THREADS                time, CPU, kind, pid and one field of every event, in order
//! trace_bench pieces FILE THREADS              the same in so many stretches of time, a thread each
//! trace_bench text FILE THREADS                the report, to stdout
//! trace_bench sched FILE THREADS               the analysis of `latlab sched FILE`
//! trace_bench timer FILE THREADS               the analysis of `latlab timer FILE`
//! trace_bench both FILE THREADS                both in one pass
//! ```
#![expect(clippy::print_stdout, reason = "a measuring program")]

use latlab_sys::mmap::Mapped;
use latlab_trace::print::{ReportOptions, report};
use latlab_trace::{Event, Field, Select, TraceFile};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["make", small, big, events] => make(small, big, events.parse()?),
        ["scan", file, threads] => scan(file, threads.parse()?),
        ["pieces", file, threads] => pieces(file, threads.parse()?),
        ["text", file, threads] => text(file, threads.parse()?),
        ["sched", file, threads] => sched(file, threads.parse()?),
        ["timer", file, threads] => timer(file, threads.parse()?),
        ["both", file, threads] => both(file, threads.parse()?),
        _ => Err("make SMALL BIG EVENTS | scan|text|sched|timer|both FILE THREADS".into()),
    }
}

/// A version 6 file with the small one's head and its pages repeated.
fn make(small: &str, big: &str, events: u64) -> Result<(), Box<dyn std::error::Error>> {
    let data = std::fs::read(small)?;
    let file = TraceFile::parse(&data)?;
    let buffer = &file.buffers[0];
    let page = buffer.layout.page_size as usize;
    let (mut count, mut first, mut last) = (0u64, u64::MAX, 0);
    file.scan(&Select::default(), 1, |e| {
        count += 1;
        first = first.min(e.time);
        last = last.max(e.time);
        ControlFlow::Continue(())
    });
    let rounds = events.div_ceil(count);
    let step = last - first + 1000;
    // The table of CPUs is the first place behind the head that holds the first offset.
    let table =
        data.windows(10).position(|w| w == b"flyrecord\0").ok_or("not a version 6 file")? + 10;
    let begin =
        (buffer.cpus.iter().map(|c| c.offset).min().unwrap_or(0) as usize).next_multiple_of(page);
    let mut head = data[..begin].to_vec();
    let mut offset = begin as u64;
    for cpu in &buffer.cpus {
        let at = table + cpu.cpu as usize * 16;
        head[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        head[at + 8..at + 16].copy_from_slice(&(cpu.size * rounds).to_le_bytes());
        offset += cpu.size * rounds;
    }
    let mut out = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(big)?);
    out.write_all(&head)?;
    for cpu in &buffer.cpus {
        let pages = data[cpu.offset as usize..(cpu.offset + cpu.size) as usize].to_vec();
        for round in 0..rounds {
            for p in pages.chunks(page) {
                let time = u64::from_le_bytes(*p.first_chunk().ok_or("a page is cut off")?);
                out.write_all(&(time + round * step).to_le_bytes())?;
                out.write_all(&p[8..])?;
            }
        }
    }
    out.flush()?;
    println!("{} events", count * rounds);
    Ok(())
}

/// One field of each kind: the first number that is its own.
fn fields(file: &TraceFile<'_>) -> Vec<Option<Field>> {
    let highest = file.formats.iter().map(|f| usize::from(f.id) + 1).max().unwrap_or(0);
    let mut fields = vec![None; highest];
    for format in file.formats.iter() {
        let number =
            format.own_fields().iter().find(|f| matches!(f.size, 1 | 2 | 4 | 8) && !f.is_text());
        fields[usize::from(format.id)] = number.cloned();
    }
    fields
}

/// What is read of each event.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: u64,
    sum: u64,
    backwards: u64,
    last: u64,
}

impl Sum {
    #[inline(always)]
    fn add(&mut self, e: &Event<'_>, pid: &Field, fields: &[Option<Field>]) {
        self.count += 1;
        self.backwards += u64::from(e.time < self.last);
        self.last = e.time;
        let field = match fields.get(usize::from(e.id)) {
            Some(Some(f)) => f.u64(e.payload),
            _ => 0,
        };
        self.sum = self
            .sum
            .wrapping_add(e.time)
            .wrapping_add(u64::from(e.cpu))
            .wrapping_add(u64::from(e.id))
            .wrapping_add(pid.u64(e.payload))
            .wrapping_add(field);
    }
}

fn tell(sums: &[Sum], start: Instant, bytes: usize) {
    let s = start.elapsed().as_secs_f64();
    let count: u64 = sums.iter().map(|s| s.count).sum();
    let backwards: u64 = sums.iter().map(|s| s.backwards).sum();
    let sum = sums.iter().fold(0u64, |a, s| a.wrapping_add(s.sum));
    println!(
        "{count} events, {backwards} backwards, {s:.3} s, {:.1} M events/s, {:.0} MB/s of file, sum {sum:x}",
        count as f64 / s / 1e6,
        bytes as f64 / s / 1e6,
    );
}

fn scan(path: &str, threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    let map = Mapped::open(Path::new(path))?;
    let start = Instant::now();
    let file = TraceFile::parse(&map)?;
    let fields = fields(&file);
    let pid = file.common_pid().cloned().ok_or("no common_pid")?;
    let mut sum = Sum::default();
    file.scan(&Select::default(), threads, |e| {
        sum.add(e, &pid, &fields);
        ControlFlow::Continue(())
    });
    tell(&[sum], start, map.len());
    Ok(())
}

fn pieces(path: &str, threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    let map = Mapped::open(Path::new(path))?;
    let start = Instant::now();
    let file = TraceFile::parse(&map)?;
    let fields = fields(&file);
    let pid = file.common_pid().cloned().ok_or("no common_pid")?;
    let (sums, _) = file.scan_pieces(&Select::default(), threads, Sum::default, |sum, e| {
        sum.add(e, &pid, &fields);
        ControlFlow::Continue(())
    });
    tell(&sums, start, map.len());
    Ok(())
}

fn text(path: &str, threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    let map = Mapped::open(Path::new(path))?;
    let file = TraceFile::parse(&map)?;
    let options = ReportOptions { threads, ..ReportOptions::default() };
    let mut out = std::fs::File::options().write(true).open("/dev/stdout")?;
    report(&file, &options, &mut out)?;
    Ok(())
}

/// Millions of events a second since then.
fn rate(events: u64, begun: Instant) -> f64 {
    events as f64 / begun.elapsed().as_secs_f64() / 1e6
}

/// Who ran: switches, slices and tasks.
fn sched(path: &str, threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    use latlab_analysis::sched::{Analyzer, Options};
    use latlab_analysis::timeline::from_trace::scan;
    let map = Mapped::open(Path::new(path))?;
    let begun = Instant::now();
    let file = TraceFile::parse(&map)?;
    let mut analyzer = Analyzer::new(Options::default());
    let mut slices = 0u64;
    let groups = latlab_analysis::sched::groups();
    let all = Select::default();
    let (names, _) = scan(&file, &all, threads, groups, |event, names| {
        analyzer.push(event, names, &mut |_| slices += 1);
        ControlFlow::Continue(())
    });
    let schedule = analyzer.finish(path, &names, &mut |_| {});
    println!(
        "{} events, {} switches, {slices} slices, {} tasks in {:?}, {:.1} M events/s",
        schedule.events,
        schedule.switches,
        schedule.tasks.len() as u64 + schedule.more_tasks,
        begun.elapsed(),
        rate(schedule.events, begun)
    );
    Ok(())
}

/// What timers do.
fn timer(path: &str, threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    let map = Mapped::open(Path::new(path))?;
    let begun = Instant::now();
    let file = TraceFile::parse(&map)?;
    let (found, _) =
        latlab_analysis::timer::from_trace::analyse(&file, path, &Select::default(), threads);
    let found = found.unwrap_or_default();
    println!(
        "{} events, {} functions in {:?}, {:.1} M events/s",
        found.events,
        found.functions.len(),
        begun.elapsed(),
        rate(found.events, begun)
    );
    Ok(())
}

/// Who ran, and what timers do, in one pass.
fn both(path: &str, threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    let map = Mapped::open(Path::new(path))?;
    let begun = Instant::now();
    let file = TraceFile::parse(&map)?;
    let mut who_ran = latlab_analysis::sched::Analyzer::default();
    let mut timers = latlab_analysis::timer::trace::Analyzer::default();
    let all = Select::default();
    let both = (&mut who_ran, &mut timers);
    let (names, _) = latlab_analysis::timeline::from_trace::analyse(&file, &all, threads, both);
    let (who_ran, timers) =
        (who_ran.finish(path, &names, &mut |_| {}), timers.finish(path, &names));
    println!(
        "{} events, {} switches, {} functions in {:?}, {:.1} M events/s",
        who_ran.events,
        who_ran.switches,
        timers.functions.len(),
        begun.elapsed(),
        rate(who_ran.events, begun)
    );
    Ok(())
}
