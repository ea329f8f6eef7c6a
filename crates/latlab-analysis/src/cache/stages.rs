//! Stages of a measurement, and what each asks for.

use super::associativity::{MOST, Probe};
use super::levels::{PER_OCTAVE, SMALLEST, low_interference, stairs};
use super::line::DISTANCES;
use super::observations::{Observations, SPLINTER_PAGES, splintering};
use super::plateau::Plateau;
use super::tlb;
use latlab_model::cache::detail::{AccessPattern, Curve, Pages};
use latlab_model::cache::request::{PAIR_BLOCK, Work, grid, whole};
use latlab_model::cache::timer::Stage;

/// Chains of the measurement of memory-level parallelism.
const CHAINS: [u32; 5] = [1, 2, 4, 8, 16];

/// Rounds in which disturbed placements are measured again.
const AGAIN: u32 = 3;
/// Placements of a point of base pages, and the size up to which there are so many: chance decides which pages share
/// a set, less with many pages.
const PLACEMENTS: (u32, f64) = (24, 8e6);
/// Placements with base pages at the least.
const PLACEMENTS_LEAST: u32 = 4;
/// Points of a knee.
const KNEE_POINTS: u32 = 24;
/// Points of a knee reach this factor beyond its begin and its end.
const KNEE_MARGIN: f64 = 1.15;
/// Arrays that are visited once more at the end, bytes at most: interference on the same core.
const AGAIN_MOST: u64 = 4 << 20;
/// Pages of the translation curve, at most: twice the largest second TLB (4096 entries).
const TLB_PAGES: u32 = 8192;
/// Smallest and largest array of the map of regimes, bytes, and sizes in each doubling.
const REGIME_SIZES: (u32, u32, u32) = (4096, 64 << 20, 2);
/// Its smallest stride, bytes.
const REGIME_STRIDE: u32 = 16;
/// Rounds in which the end of a TLB is bisected, then measured again.
const TLB_ROUNDS: (u32, u32) = (10, 13);

/// Works to be measured at random placements, or once more at one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub pages: Pages,
    pub work: Work,
    pub placements: u32,
    pub start: Option<u32>,
}

fn want(pages: Pages, work: Work, placements: u32) -> Want {
    Want { pages, work, placements, start: None }
}

/// The stage after it.
pub(super) fn next(stage: Stage) -> Option<Stage> {
    Some(match stage {
        Stage::Splintering => Stage::Coarse,
        Stage::Coarse => Stage::Line,
        Stage::Line => Stage::CoarseLine,
        Stage::CoarseLine => Stage::Associativity,
        Stage::Associativity => Stage::Translation,
        Stage::Translation => Stage::Knees,
        Stage::Knees => Stage::Again,
        Stage::Again => Stage::Parallelism,
        Stage::Parallelism => Stage::Regimes,
        Stage::Regimes => Stage::Compared,
        Stage::Compared => return None,
    })
}

/// Requests that are missing in a round; none when the stage is done.
pub(super) fn wanted(stage: Stage, s: &Observations, round: u32) -> Vec<Want> {
    match stage {
        Stage::Splintering
            if round == 0 && s.limits.huge_bytes >= SPLINTER_PAGES * s.limits.page_bytes =>
        {
            splintering(&s.limits).into_iter().map(|(p, w)| want(p, w, 5)).collect()
        }
        Stage::Coarse => first_grid(s, 64, round),
        Stage::CoarseLine if s.stride() != 64 => first_grid(s, s.stride(), round),
        Stage::Line => pairs(s, round),
        Stage::Associativity if round == 0 => conflicts(s),
        Stage::Translation => translation(s, round),
        Stage::Knees if round == 0 => knees(s),
        Stage::Knees if round <= AGAIN => disturbed(s, &s.curve()),
        Stage::Again => again(s, round),
        Stage::Parallelism if round == 0 => chains(s),
        Stage::Regimes if round == 0 => regimes(s),
        Stage::Compared if round == 0 => comparison(s),
        _ => Vec::new(),
    }
}

/// Levels whose associativity this stage asks for.
pub(super) fn probes(stage: Stage, s: &Observations) -> Vec<Probe> {
    if stage != Stage::Associativity {
        return Vec::new();
    }
    let pages = s.pages();
    let found = s.levels();
    let line = s.line().map_or(64, |l| l.bytes.max(16));
    let of = |(level, bracket): (usize, &(u64, u64))| {
        // No way is larger than the cache, and the cache is not larger than twice where its knee begins; LRU and
        // the lack of one way more make it end before that.
        let size = u32::try_from(bracket.0.max(bracket.1 / 2)).ok()?;
        let stride = size.checked_next_power_of_two()?.max(s.limits.page_bytes);
        let most = (s.room(pages) / stride).min(MOST);
        let named = level == 0 || pages == Pages::Huge;
        let (hit_ns, miss_ns) = (found.latencies[level], found.latencies[level + 1]);
        (named && most >= 6).then_some(Probe { level, stride, line, hit_ns, miss_ns, most })
    };
    found.brackets.iter().enumerate().filter_map(of).collect()
}

/// Placements of an array.
fn placements(s: &Observations, pages: Pages, bytes: u32, most: u32) -> u32 {
    let most = if s.config.quick { (most * 2).div_ceil(3) } else { most };
    match pages {
        Pages::Huge if bytes > 8 << 20 => 1,
        Pages::Huge => most.min(3),
        Pages::Base => {
            let share = (PLACEMENTS.1 / f64::from(bytes.max(1))).min(1.0);
            let scattered = (f64::from(PLACEMENTS.0) * share) as u32;
            most.min(scattered.max(PLACEMENTS_LEAST)).min(s.room(pages) / bytes.max(1) + 1)
        }
    }
}

fn array(s: &Observations, stride: u32, bytes: u32, most: u32) -> Want {
    let pages = s.pages();
    let work = Work::Array { access: low_interference(pages), stride, bytes };
    let had = s.records.samples(pages, work).len() as u32;
    want(pages, work, placements(s, pages, bytes, most).saturating_sub(had))
}

fn disturbed(s: &Observations, curve: &Curve) -> Vec<Want> {
    let (pages, access, stride) = (curve.pages, curve.access, curve.stride_bytes);
    let one = |(x, start)| {
        let work = Work::Array { access, stride, bytes: u32::try_from(x).unwrap_or(u32::MAX) };
        Want { pages, work, placements: 1, start: Some(start) }
    };
    s.records.disturbed(curve).into_iter().map(one).collect()
}

fn first_grid(s: &Observations, stride: u32, round: u32) -> Vec<Want> {
    let pages = s.pages();
    match round {
        0 => grid(SMALLEST, s.room(pages), PER_OCTAVE)
            .into_iter()
            .map(|x| array(s, stride, x, if x > 8 << 20 { 1 } else { 3 }))
            .collect(),
        1..=AGAIN => disturbed(s, &s.records.curve(pages, low_interference(pages), stride)),
        _ => Vec::new(),
    }
}

/// Pairs of loads in an array that the second level holds, so that a prefetcher of adjacent lines into it changes
/// nothing; four times as large where both loads hit.
fn pairs(s: &Observations, round: u32) -> Vec<Want> {
    let pages = s.pages();
    let curve = s.curve();
    let (found, _) = stairs(&curve);
    let [first, second, ..] = found[..] else { return Vec::new() };
    let size = |p: Plateau| {
        let at = |i: usize| curve.points.get(i).map_or(0.0, |p| p.x as f64);
        (at(p.first) * at(p.last)).sqrt().clamp(16384.0, 4e6) as u32
    };
    let missed = s.line().is_some_and(|l| l.pairs.first().is_some_and(|p| p.1 > first.ns * 1.08));
    let bytes = (size(second) << (2 * round)).min(s.room(pages) / 2) / PAIR_BLOCK * PAIR_BLOCK;
    if missed || round > 3 || s.records.largest_pairs(pages).is_some_and(|b| b >= bytes) {
        return Vec::new();
    }
    let count = if s.config.quick { 3 } else { 5 };
    // Each placement with all distances: pages that share a set do so for each of them.
    let places = s.room(pages).saturating_sub(bytes) / s.limits.page_bytes;
    let mut out = Vec::new();
    for k in 0..count {
        let start = places / count * k * s.limits.page_bytes;
        out.extend(DISTANCES.into_iter().map(|distance| Want {
            pages,
            work: Work::Pairs { bytes, distance },
            placements: 1,
            start: Some(start),
        }));
    }
    out
}

fn conflicts(s: &Observations) -> Vec<Want> {
    let pages = s.pages();
    let count = if pages == Pages::Base { 6 } else { 3 };
    let mut out = Vec::new();
    for probe in &s.probes {
        let unit =
            if pages == Pages::Base { s.limits.page_bytes } else { s.limits.huge_page_bytes };
        let places = s.room(pages).saturating_sub(probe.stride * probe.most) / unit.max(1) + 1;
        for k in 0..count {
            let start = Some(places / count * k * unit);
            for n in 2..=probe.most {
                let works = probe.works(n).into_iter();
                let one = |work| Want { pages, work, placements: 1, start };
                // Twice: the shorter time counts.
                out.extend(works.flat_map(|work| [one(work), one(work)]));
            }
        }
    }
    out
}

/// Points of each knee, evenly between its begin and its end.
fn knees(s: &Observations) -> Vec<Want> {
    let curve = s.curve();
    let points = if s.config.quick { KNEE_POINTS / 2 } else { KNEE_POINTS };
    let mut out = Vec::new();
    for (low, high) in s.levels().brackets {
        let (low, high) = (low as f64 / KNEE_MARGIN, high as f64 * KNEE_MARGIN);
        let even =
            (0..=points).map(|k| whole(low * (high / low).powf(f64::from(k) / f64::from(points))));
        let had = curve.points.iter().map(|p| p.x as u32);
        let had = had.filter(|x| (low..high).contains(&f64::from(*x)));
        let sizes = even.chain(had).filter(|x| *x <= s.room(curve.pages));
        out.extend(sizes.map(|x| array(s, curve.stride_bytes, x, PLACEMENTS.0)));
    }
    out.retain(|w| w.placements > 0);
    out.sort_by_key(|w| w.work);
    out.dedup_by_key(|w| w.work);
    out
}

fn translation(s: &Observations, round: u32) -> Vec<Want> {
    let page = s.limits.page_bytes.max(1);
    let line = s.line().map_or(64, |l| l.bytes.max(16));
    let most = (s.limits.base_bytes / page).min(TLB_PAGES);
    if s.levels().levels.is_empty() {
        return Vec::new();
    }
    let both = |count: u32, placements: u32| {
        let of = |apart| want(Pages::Base, Work::LinePerPage { apart, line, count }, placements);
        [of(page), of(line)]
    };
    if round == 0 {
        let many = grid(1024, most.saturating_mul(64), PER_OCTAVE).into_iter().map(|x| x / 64);
        let all = (2..=16).chain(many.filter(|n| *n > 16)).filter(|n| *n <= most);
        return all.flat_map(|n| both(n, 5)).collect();
    }
    let mut out = Vec::new();
    for (_, (low, high)) in tlb::knees(&s.translation()) {
        let (low, high) = (low as u32, high as u32);
        if round <= TLB_ROUNDS.0 {
            let fine = low <= 256 || f64::from(high) > f64::from(low) * 1.015;
            if high > low + 1 && fine {
                out.extend(both((low + high) / 2, 9));
            }
        } else if round <= TLB_ROUNDS.1 {
            // Others take entries away and never add any: the end of the plateau once more.
            let near = [low.saturating_sub(1), low, high, high + 1, high + high / 16];
            out.extend(
                near.into_iter().filter(|n| (2..=most).contains(n)).flat_map(|n| both(n, 5)),
            );
        }
    }
    out
}

/// All small arrays once more, at the same placements; then what is disturbed.
fn again(s: &Observations, round: u32) -> Vec<Want> {
    let curve = s.curve();
    if round > AGAIN {
        return Vec::new();
    }
    if round > 0 || s.config.quick {
        return disturbed(s, &curve);
    }
    let mut out = Vec::new();
    for p in curve.points.iter().filter(|p| p.x <= AGAIN_MOST) {
        let bytes = u32::try_from(p.x).unwrap_or(u32::MAX);
        let work = Work::Array { access: curve.access, stride: curve.stride_bytes, bytes };
        let samples = s.records.samples(curve.pages, work);
        out.extend(samples.iter().map(|sample| Want {
            pages: curve.pages,
            work,
            placements: 1,
            start: Some(sample.start),
        }));
    }
    out
}

fn chains(s: &Observations) -> Vec<Want> {
    let pages = s.pages();
    let whole = s.room(pages).min(64 << 20);
    let stride = s.stride();
    CHAINS
        .into_iter()
        .map(|chains| Want {
            pages,
            work: Work::Chains { chains, stride, bytes: whole / chains },
            placements: 1,
            start: Some(0),
        })
        .collect()
}

/// Arrays of the map of regimes: each power of two as stride, up to half of the array.
fn regimes(s: &Observations) -> Vec<Want> {
    let pages = s.pages();
    if s.config.quick || s.config.emulated {
        return Vec::new();
    }
    let (low, high, per_octave) = REGIME_SIZES;
    let line = s.line().map_or(64, |l| l.bytes.max(REGIME_STRIDE));
    let of = |bytes: u32| {
        let strides = (0..).map(|k| REGIME_STRIDE << k).take_while(move |x| *x <= bytes / 2);
        strides.map(move |stride| want(pages, Work::Lines { line, stride, bytes }, 1))
    };
    grid(low, s.room(pages).min(high), per_octave).into_iter().flat_map(of).collect()
}

/// Curves that a comparison with prefetchers and translation shows; nothing is inferred from them.
fn compared(s: &Observations) -> Vec<(Pages, AccessPattern, u32)> {
    let stride = s.stride();
    let mut all = vec![
        (Pages::Base, AccessPattern::Sequential, stride),
        (Pages::Base, AccessPattern::PageRandom, stride),
    ];
    if s.pages() == Pages::Huge {
        all.push((Pages::Base, AccessPattern::PageLocal, stride));
    }
    if !s.config.quick {
        let others = [16, 32, 64, 128, 256, 512, 1024].into_iter().filter(|other| *other != stride);
        all.extend(others.map(|other| (Pages::Base, AccessPattern::Sequential, other)));
    }
    all
}

fn comparison(s: &Observations) -> Vec<Want> {
    let per_octave = if s.config.quick { 1 } else { 2 };
    let curve = |(pages, access, stride)| {
        grid(4096, s.room(pages).min(64 << 20), per_octave)
            .into_iter()
            .map(move |bytes| want(pages, Work::Array { access, stride, bytes }, 1))
    };
    let mut all: Vec<Want> = compared(s).into_iter().flat_map(curve).collect();
    all.retain(|w| s.records.samples(w.pages, w.work).is_empty());
    all
}
