//! A fleet as pages of a site: overview, boards, results, kernels, alarms.
//!
//! The number of pages, and what each has, is limited ([`MOST`]); the rest is counted. A page's file name
//! has only letters, digits and hyphens, whatever a device calls itself.

mod alarm;
mod board;
mod build;
mod metric;
mod overview;
mod plots;

use crate::doc::{Block, Doc, Links, Section, Table};
use latlab_model::fleet::{Alarm, Fleet, Metric};
use std::collections::{BTreeMap, BTreeSet};

/// Most pages of each kind, and most nights that are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Boards; those with most devices.
    pub boards: usize,
    /// Results; those of most devices.
    pub metrics: usize,
    /// Kernels; the latest.
    pub builds: usize,
    /// Alarms; the latest.
    pub alarms: usize,
    /// Nights that are drawn; the latest.
    pub nights: usize,
}

/// The limits of a site.
pub const MOST: Limits =
    Limits { boards: 100, metrics: 300, builds: 400, alarms: 500, nights: 400 };

/// Rows of a table, at most; the first page lists what has pages.
const ROWS: usize = 100;
/// Nights whose alarms are new.
const NEW: usize = 7;

/// A page of a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Its file name.
    pub file: String,
    /// Its content.
    pub doc: Doc,
}

/// File names of the pages that there are.
struct Files {
    boards: BTreeMap<usize, String>,
    metrics: BTreeMap<usize, String>,
    builds: BTreeMap<usize, String>,
    alarms: BTreeMap<usize, String>,
}

/// A fleet with its pages' names.
struct Site<'a> {
    fleet: &'a Fleet,
    most: Limits,
    files: Files,
    /// First night that is drawn.
    from: usize,
    /// Alarms of each board.
    alarms_of: BTreeMap<usize, Vec<usize>>,
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

/// `wakeup.user cpu=0`.
fn label(metric: &Metric) -> String {
    let part = if metric.name.starts_with(&metric.part) { "" } else { metric.part.as_str() };
    let words = [part, metric.name.as_str(), metric.params.as_str()];
    words.into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ")
}

/// `2026-04-13 beaglebone-black sn5 wakeup`.
fn alarm_words(fleet: &Fleet, alarm: &Alarm) -> String {
    let date = fleet.nights.get(alarm.since).map_or("", |n| n.date.as_str());
    let board = &fleet.boards[alarm.board].name;
    [date, board, alarm.device.as_deref().unwrap_or_default(), alarm.family.as_str()].join(" ")
}

impl Site<'_> {
    fn date(&self, night: usize) -> &str {
        self.fleet.nights.get(night).map_or("", |n| n.date.as_str())
    }

    fn kernel(&self, kernel: usize) -> &str {
        self.fleet.kernels.get(kernel).map_or("", |k| k.release.as_str())
    }

    fn board(&self, board: usize) -> &str {
        let name = self.fleet.boards.get(board).map_or("", |b| b.name.as_str());
        if name.is_empty() { "(no model)" } else { name }
    }

    /// Devices of a board.
    fn devices(&self, board: usize) -> usize {
        self.fleet.boards.get(board).map_or(0, |b| b.devices.len() + b.more_devices)
    }

    fn metric(&self, metric: usize) -> String {
        self.fleet.metrics.get(metric).map_or(String::new(), label)
    }

    /// The first night whose alarms are new.
    fn new(&self) -> usize {
        self.fleet.nights.len().saturating_sub(NEW)
    }

    /// A cell that leads to a page, where there is one.
    fn to_board(&self, board: usize) -> Cell {
        Cell(self.board(board).to_owned(), self.files.boards.get(&board).cloned())
    }

    fn to_metric(&self, metric: usize) -> Cell {
        Cell(self.metric(metric), self.files.metrics.get(&metric).cloned())
    }

    fn to_build(&self, kernel: usize) -> Cell {
        Cell(self.kernel(kernel).to_owned(), self.files.builds.get(&kernel).cloned())
    }

    fn to_alarm(&self, alarm: usize, text: impl Into<String>) -> Cell {
        Cell(text.into(), self.files.alarms.get(&alarm).cloned())
    }

    /// Alarms as a table: the latest first.
    fn alarms(
        &self,
        of: impl DoubleEndedIterator<Item = usize>,
        caption: &str,
        most: usize,
    ) -> Block {
        let heads = ["since", "board", "devices", "results", "largest change", "of", "suspects"];
        let mut table = Rows::new(caption, &heads, &[4]).most(most);
        for i in of.rev() {
            let alarm = &self.fleet.alarms[i];
            let first = alarm.changes.first();
            let more = (alarm.changes.len() + alarm.more_changes).saturating_sub(1);
            let result = first.map_or(String::new(), |c| self.metric(c.metric));
            let others = if more > 0 { format!("{result} and {more} more") } else { result };
            table.add(vec![
                self.to_alarm(i, self.date(alarm.since)),
                self.to_board(alarm.board),
                alarm.device.clone().unwrap_or_else(|| "all".into()).into(),
                alarm.family.clone().into(),
                first.map_or(String::new(), |c| crate::values::change(c.change)).into(),
                others.into(),
                suspects(self, alarm).into(),
            ]);
        }
        table.done()
    }
}

/// `6.6.39 to 6.6.40`, or that it is not the kernel.
fn suspects(site: &Site, alarm: &Alarm) -> String {
    let (before, with) = alarm.suspects;
    if before == with {
        format!("same kernel {}", site.kernel(with))
    } else {
        format!("{} to {}", site.kernel(before), site.kernel(with))
    }
}

/// A cell and the page that it leads to.
struct Cell(String, Option<String>);

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self(text, None)
    }
}

/// A table with links, of at most [`ROWS`] rows.
struct Rows {
    links: Links,
    most: usize,
    more: usize,
}

impl Rows {
    fn new(caption: &str, heads: &[&str], numbers: &[usize]) -> Self {
        let columns = heads.iter().enumerate().map(|(i, head)| crate::doc::Column {
            head: (*head).to_owned(),
            right: numbers.contains(&i),
            ..crate::doc::Column::default()
        });
        let table = Table { caption: caption.into(), columns: columns.collect(), rows: Vec::new() };
        Self { links: Links { table, targets: Vec::new() }, most: ROWS, more: 0 }
    }

    /// Another number of rows.
    fn most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    fn add(&mut self, cells: Vec<Cell>) {
        if self.links.table.rows.len() >= self.most {
            self.more += 1;
            return;
        }
        let (texts, targets) = cells.into_iter().map(|c| (c.0, c.1)).unzip();
        self.links.table.rows.push(texts);
        self.links.targets.push(targets);
    }

    fn is_empty(&self) -> bool {
        self.links.table.rows.is_empty()
    }

    fn done(mut self) -> Block {
        if self.is_empty() {
            return Block::Text(format!("{}: none.", self.links.table.caption));
        }
        if self.more > 0 {
            let caption = &mut self.links.table.caption;
            *caption = format!("{caption}; {} more are not listed", self.more);
        }
        Block::Links(Box::new(self.links))
    }
}

fn section(id: &str, title: impl Into<String>, blocks: Vec<Block>) -> Section {
    Section { id: id.into(), title: title.into(), blocks }
}

/// `1 board`, `3 boards`.
fn counted(n: usize, one: &str) -> String {
    format!("{} {one}{}", crate::values::grouped(n as u64), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
