//! The rounds of `latlab tune`: a block with each setting and one without any, in random order.

use super::settings::Chosen;
use crate::cli::tune::Args;
use crate::progress::Progress;
use latlab_analysis::tune::{Block, Elimination, ROUNDS_LEAST};
use latlab_model::finding::Note;
use latlab_model::record::Record;
use latlab_model::tune::{SideMetric, Tried, TuneDetail, TuneEffect};
use latlab_stats::histogram::Histogram;
use latlab_stats::rng::SplitMix64;
use latlab_sys::signal;
use std::time::Instant;

/// A change below this share counts as none.
const MARGIN: f64 = 0.1;

/// Looks of `--eliminate` at most: each has its part of the 5 %.
const LOOKS_MOST: u32 = 3;

/// Looks at so many rounds, the last one included.
pub fn looks(rounds: u32) -> u32 {
    (rounds / ROUNDS_LEAST as u32).min(LOOKS_MOST)
}

/// What a block measures: latencies, and the records of power and of its benchmarks.
pub struct Measured {
    pub latency: Histogram,
    pub records: Vec<Record>,
}

impl Measured {
    /// With the medians of the records in the order of `side`, which gets those that are new.
    pub fn into_block(self, side: &mut Vec<SideMetric>) -> Block {
        let mut medians = vec![None; side.len()];
        for record in &self.records {
            let params = record.params.iter().map(|(k, v)| (k.clone(), v.to_string())).collect();
            let name = latlab_model::bench::label(&record.name, &params);
            let at = side.iter().position(|m| m.name == name).unwrap_or_else(|| {
                side.push(SideMetric { name, unit: record.unit });
                medians.push(None);
                side.len() - 1
            });
            medians[at] = record.summary.median.filter(|m| *m > 0.0);
        }
        Block { latency: self.latency, side: medians }
    }
}

/// What is to be tried, without a result.
pub fn begin(args: &Args, chosen: &[Chosen]) -> TuneDetail {
    let tried = |c: &Chosen| Tried {
        name: c.name.clone(),
        parameters: c.parameters.clone(),
        ..Tried::default()
    };
    TuneDetail {
        boot: args.boot().map(str::to_owned),
        quantile: args.quantile / 100.0,
        requirement: args.requirement().cloned(),
        block_ns: args.block.as_nanos() as u64,
        margin: MARGIN,
        tried: chosen.iter().map(tried).collect(),
        ..TuneDetail::default()
    }
}

/// Whether the next round would end after the time of `-D`. A round takes as long as those before, on average.
pub fn is_over(args: &Args, began: Instant, round: u32) -> bool {
    let expected = began.elapsed() * round / (round - 1).max(1);
    args.duration.is_some_and(|limit| round > 1 && expected > limit)
}

/// What a block is: the place of its setting among those that are tried; `None` without any.
pub type Arm = Option<usize>;

/// Measures and judges. `block` measures one block of a round (from 1), with the setting of that number or without any,
/// and is told which blocks of the round are left, this one included, in their order; it returns `None` where it was not
/// measured, because a signal came or the setting cannot be set, which [`not_tried`] notes.
///
/// # Errors
/// Those of `block`.
pub fn measure(
    args: &Args,
    chosen: &[Chosen],
    mut block: impl FnMut(u32, &[Arm], Option<(usize, &mut Tried)>) -> anyhow::Result<Option<Measured>>,
) -> anyhow::Result<TuneDetail> {
    let mut detail = begin(args, chosen);
    let mut plain: Vec<Block> = Vec::new();
    let mut blocks: Vec<Vec<Block>> = vec![Vec::new(); chosen.len()];
    let mut rng = SplitMix64::new(args.seed);
    let mut progress = Progress::new("tune");
    let all = args.rounds as usize * (chosen.len() + 1);
    let mut done;
    let looks = if args.eliminate { looks(args.rounds) } else { 1 };
    let mut elimination = Elimination::new(looks, chosen.len());
    let began = Instant::now();
    'rounds: for round in 1..=args.rounds {
        if is_over(args, began, round) {
            break;
        }
        let is_done =
            |i: usize, t: &Tried| elimination.is_decided(i) || t.effect == TuneEffect::NotTried;
        if args.eliminate && detail.tried.iter().enumerate().all(|(i, t)| is_done(i, t)) {
            break;
        }
        // `None` is the block without any setting.
        let mut order: Vec<Arm> = (0..chosen.len()).map(Some).chain([None]).collect();
        rng.shuffle(&mut order);
        order.retain(|arm| !arm.is_some_and(|i| is_done(i, &detail.tried[i])));
        let mut measured: Vec<(Arm, Measured)> = Vec::new();
        done = (round as usize - 1) * (chosen.len() + 1);
        for (at, arm) in order.iter().copied().enumerate() {
            let name = arm.map_or("without", |i| chosen[i].name.as_str());
            progress.set(Some(done as f64 / all as f64), name);
            done += 1;
            let one = block(round, &order[at..], arm.map(|i| (i, &mut detail.tried[i])))?;
            if signal::stop_requested().is_some() {
                break 'rounds;
            }
            measured.extend(one.map(|m| (arm, m)));
        }
        // Whole rounds only: they are compared within.
        for (arm, one) in measured {
            let block = one.into_block(&mut detail.side);
            match arm {
                Some(i) => blocks[i].push(block),
                None => plain.push(block),
            }
        }
        detail.rounds += 1;
        if (1..looks).any(|k| round == k * args.rounds / looks) {
            elimination.look(&detail, &plain, &blocks);
        }
    }
    drop(progress);
    elimination.finish(&mut detail, &plain, &blocks);
    Ok(detail)
}

/// Notes why a setting cannot be set.
pub fn not_tried(tried: &mut Tried, error: &anyhow::Error) {
    let error = crate::outcome::format_error_chain(error);
    tried.note = Some(Note::new("tune.error").value("error", error));
    tried.effect = TuneEffect::NotTried;
}
