//! A fleet as pages of a site: overview, boards, results, kernels, alarms.
//!
//! The number of pages, and what each has, is limited ([`MOST`]); the rest is counted. A page's file name
//! has only letters, digits and hyphens, whatever a device calls itself.

mod alarm;
mod board;
mod build;
mod metric;
mod overview;
mod pairs;
mod plots;
mod site;
mod values;

use crate::doc::Doc;
use latlab_model::fleet::{Fleet, Metric};
use site::{Files, Site, alarm_words, label};
pub use site::{Limits, MOST};
use std::collections::{BTreeMap, BTreeSet};

/// A page of a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Its file name.
    pub file: String,
    /// Its content.
    pub doc: Doc,
}

/// Names of all pages; overview first. Their content is made one at a time by [`Pages::iter`].
pub struct Pages<'a>(Site<'a>, Vec<(String, Kind)>);

#[derive(Clone, Copy)]
enum Kind {
    Overview,
    Board(usize),
    Metric(usize),
    Build(usize),
    Alarm(usize),
}

/// The pages of a fleet.
pub fn pages(fleet: &Fleet, most: Limits) -> Pages<'_> {
    let mut taken = BTreeSet::new();
    let devices = |m: &Metric| m.lines.iter().map(|l| u64::from(l.devices)).sum::<u64>();
    let count = |b: usize| fleet.boards[b].devices.len() + fleet.boards[b].more_devices;
    let boards = largest(fleet.boards.len(), most.boards, |i| count(i) as u64);
    let metrics = largest(fleet.metrics.len(), most.metrics, |i| devices(&fleet.metrics[i]));
    let builds = largest(fleet.kernels.len(), most.builds, |i| i as u64);
    let alarms = largest(fleet.alarms.len(), most.alarms, |i| i as u64);
    let mut files = |kind: &str, of: Vec<usize>, text: &dyn Fn(usize) -> String| {
        of.into_iter().map(|i| (i, file(kind, &text(i), &mut taken))).collect()
    };
    let files = Files {
        boards: files("board", boards, &|i| fleet.boards[i].name.clone()),
        metrics: files("result", metrics, &|i| label(&fleet.metrics[i])),
        builds: files("kernel", builds, &|i| fleet.kernels[i].release.clone()),
        alarms: files("alarm", alarms, &|i| alarm_words(fleet, &fleet.alarms[i])),
    };
    let mut alarms_of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, alarm) in fleet.alarms.iter().enumerate() {
        alarms_of.entry(alarm.board).or_default().push(i);
    }
    let mut all = vec![("index.html".to_owned(), Kind::Overview)];
    let mut add = |of: &BTreeMap<usize, String>, kind: fn(usize) -> Kind| {
        all.extend(of.iter().map(|(i, file)| (file.clone(), kind(*i))));
    };
    add(&files.boards, Kind::Board);
    add(&files.metrics, Kind::Metric);
    add(&files.builds, Kind::Build);
    add(&files.alarms, Kind::Alarm);
    let from = fleet.nights.len().saturating_sub(most.nights);
    Pages(Site { fleet, most, files, from, alarms_of }, all)
}

impl Pages<'_> {
    /// Number of pages.
    pub fn len(&self) -> usize {
        self.1.len()
    }

    /// Never: there is an overview.
    pub fn is_empty(&self) -> bool {
        self.1.is_empty()
    }

    /// Each page, made when it is asked for.
    pub fn iter(&self) -> impl Iterator<Item = Page> {
        self.1.iter().map(|(file, kind)| {
            let mut doc = match *kind {
                Kind::Overview => overview::doc(&self.0),
                Kind::Board(i) => board::doc(&self.0, i),
                Kind::Metric(i) => metric::doc(&self.0, i),
                Kind::Build(i) => build::doc(&self.0, i),
                Kind::Alarm(i) => alarm::doc(&self.0, i),
            };
            super::make_ids_unique(&mut doc);
            Page { file: file.clone(), doc }
        })
    }
}

/// Positions of those with the largest weight, at most so many; of equal ones the first.
fn largest(all: usize, most: usize, weight: impl Fn(usize) -> u64) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..all).collect();
    positions.sort_by_key(|i| std::cmp::Reverse(weight(*i)));
    positions.truncate(most);
    positions.sort_unstable();
    positions
}

/// `board-beaglebone-black-1f2e3d4c.html`: what a name says in letters and digits, and its hash.
fn file(kind: &str, text: &str, taken: &mut BTreeSet<String>) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut words = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            words.push(c.to_ascii_lowercase());
        } else if !words.is_empty() && !words.ends_with('-') {
            words.push('-');
        }
        if words.len() >= 40 {
            break;
        }
    }
    let words = words.trim_end_matches('-');
    let between = if words.is_empty() { "" } else { "-" };
    let stem = format!("{kind}{between}{words}-{:08x}", (hash ^ (hash >> 32)) as u32);
    let mut name = format!("{stem}.html");
    for again in 2.. {
        if taken.insert(name.clone()) {
            break;
        }
        name = format!("{stem}-{again}.html");
    }
    name
}

#[cfg(test)]
mod tests;
