//! `latlab tune --factorial`: rounds of combinations of settings.

use super::rounds::{Measured, begin, is_over, not_tried};
use super::settings::Chosen;
use crate::cli::tune::Args;
use crate::outcome::HintExt;
use crate::progress::Progress;
use anyhow::{Context, anyhow};
use latlab_analysis::tune::Block;
use latlab_analysis::tune::factorial::{Design, factors, judge};
use latlab_model::tune::{FileValue, TuneDetail};
use latlab_stats::rng::SplitMix64;
use latlab_sys::signal;
use std::time::Instant;

/// Measures and judges. `probe` sets one setting for a moment and returns its files; the design is that of the settings
/// for which this is possible. `block` measures the first of the runs of a round (from 1) that are left, each with a
/// combination or without any setting; `None` where a signal came.
///
/// # Errors
/// Those of `block`, of a combination that cannot be set, and where fewer than two settings can be.
pub fn measure(
    args: &Args,
    chosen: &[Chosen],
    mut probe: impl FnMut(&Chosen) -> anyhow::Result<Vec<FileValue>>,
    mut block: impl FnMut(u32, &[(usize, Option<&Chosen>)]) -> anyhow::Result<Option<Measured>>,
) -> anyhow::Result<TuneDetail> {
    let mut detail = begin(args, chosen);
    let mut progress = Progress::new("tune");
    let mut refused = None;
    for (one, tried) in chosen.iter().zip(&mut detail.tried) {
        progress.set(Some(0.0), &one.name);
        match probe(one) {
            _ if signal::stop_requested().is_some() => return Ok(detail),
            Ok(files) => tried.files = files,
            Err(error) => {
                not_tried(tried, &error);
                refused = Some(error);
            }
        }
    }
    let places = factors(&detail.tried);
    let Some(design) = Design::new(places.len()) else {
        let few = format!("--factorial: {} of {} settings can be set", places.len(), chosen.len());
        return Err(refused.unwrap_or_else(|| anyhow!("not enough")).context(few))
            .hint("name others with --try");
    };
    let combinations = combinations(&design, &places, chosen)?;
    let mut rounds: Vec<Vec<Block>> = Vec::new();
    let mut rng = SplitMix64::new(args.seed);
    let all = args.rounds as usize * design.runs();
    let mut done = 0;
    let began = Instant::now();
    'rounds: for round in 1..=args.rounds {
        if is_over(args, began, round) {
            break;
        }
        let mut order: Vec<usize> = (0..design.runs()).collect();
        rng.shuffle(&mut order);
        let order: Vec<(usize, Option<&Chosen>)> =
            order.into_iter().map(|run| (run, combinations[run].as_ref())).collect();
        let mut blocks = vec![Block::default(); design.runs()];
        for (at, (run, combination)) in order.iter().copied().enumerate() {
            let name = combination.map_or("without", |c| c.name.as_str());
            progress.set(Some(done as f64 / all as f64), name);
            done += 1;
            let one = block(round, &order[at..]).with_context(|| format!("--factorial: {name}"));
            if signal::stop_requested().is_some() {
                break 'rounds;
            }
            let Some(one) = one.hint("leave out one of the settings, or try them one by one")?
            else {
                break 'rounds;
            };
            blocks[run] = one.into_block(&mut detail.side);
        }
        // Whole rounds only: an effect is estimated from all of a round.
        rounds.push(blocks);
        detail.rounds += 1;
    }
    drop(progress);
    judge(&design, &places, &mut detail, &rounds);
    Ok(detail)
}

/// The settings of each run at once; none for the run without any.
fn combinations(
    design: &Design,
    places: &[usize],
    chosen: &[Chosen],
) -> anyhow::Result<Vec<Option<Chosen>>> {
    let run = |run: usize| {
        let with: Vec<Chosen> =
            design.settings_of(run).into_iter().map(|k| chosen[places[k]].clone()).collect();
        match with.is_empty() {
            true => Ok(None),
            false => Chosen::together(&with).map(Some),
        }
    };
    (0..design.runs()).map(run).collect()
}
