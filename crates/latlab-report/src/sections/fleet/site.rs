//! What all pages of a site share: their names, and tables that lead from one to another.

use crate::doc::{Block, Links, Section, Table};
use latlab_model::fleet::{Alarm, Fleet, Metric};
use std::collections::BTreeMap;

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
pub(super) const ROWS: usize = 100;
/// Nights whose alarms are new.
pub(super) const NEW: usize = 7;

/// File names of the pages that there are.
pub(super) struct Files {
    pub(super) boards: BTreeMap<usize, String>,
    pub(super) metrics: BTreeMap<usize, String>,
    pub(super) builds: BTreeMap<usize, String>,
    pub(super) alarms: BTreeMap<usize, String>,
}

/// A fleet with its pages' names.
pub(super) struct Site<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) most: Limits,
    pub(super) files: Files,
    /// First night that is drawn.
    pub(super) from: usize,
    /// Alarms of each board.
    pub(super) alarms_of: BTreeMap<usize, Vec<usize>>,
}

/// `wakeup.user cpu=0`.
pub(super) fn label(metric: &Metric) -> String {
    let part = if metric.name.starts_with(&metric.part) { "" } else { metric.part.as_str() };
    let words = [part, metric.name.as_str(), metric.params.as_str()];
    words.into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ")
}

/// `2026-04-13 beaglebone-black sn5 wakeup`.
pub(super) fn alarm_words(fleet: &Fleet, alarm: &Alarm) -> String {
    let date = fleet.nights.get(alarm.since).map_or("", |n| n.date.as_str());
    let board = &fleet.boards[alarm.board].name;
    [date, board, alarm.device.as_deref().unwrap_or_default(), alarm.family.as_str()].join(" ")
}

impl Site<'_> {
    pub(super) fn date(&self, night: usize) -> &str {
        self.fleet.nights.get(night).map_or("", |n| n.date.as_str())
    }

    pub(super) fn kernel(&self, kernel: usize) -> &str {
        self.fleet.kernels.get(kernel).map_or("", |k| k.release.as_str())
    }

    pub(super) fn board(&self, board: usize) -> &str {
        let name = self.fleet.boards.get(board).map_or("", |b| b.name.as_str());
        if name.is_empty() { "(no model)" } else { name }
    }

    /// Devices of a board.
    pub(super) fn devices(&self, board: usize) -> usize {
        self.fleet.boards.get(board).map_or(0, |b| b.devices.len() + b.more_devices)
    }

    pub(super) fn metric(&self, metric: usize) -> String {
        self.fleet.metrics.get(metric).map_or(String::new(), label)
    }

    /// The first night whose alarms are new.
    pub(super) fn first_new(&self) -> usize {
        self.fleet.nights.len().saturating_sub(NEW)
    }

    /// A cell that leads to a page, where there is one.
    pub(super) fn to_board(&self, board: usize) -> Cell {
        Cell(self.board(board).to_owned(), self.files.boards.get(&board).cloned())
    }

    pub(super) fn to_metric(&self, metric: usize) -> Cell {
        Cell(self.metric(metric), self.files.metrics.get(&metric).cloned())
    }

    pub(super) fn to_build(&self, kernel: usize) -> Cell {
        Cell(self.kernel(kernel).to_owned(), self.files.builds.get(&kernel).cloned())
    }

    pub(super) fn to_alarm(&self, alarm: usize, text: impl Into<String>) -> Cell {
        Cell(text.into(), self.files.alarms.get(&alarm).cloned())
    }

    /// Alarms as a table: the latest first.
    pub(super) fn alarms(
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
pub(super) fn suspects(site: &Site, alarm: &Alarm) -> String {
    let (before, with) = alarm.suspects;
    if before == with {
        format!("same kernel {}", site.kernel(with))
    } else {
        format!("{} to {}", site.kernel(before), site.kernel(with))
    }
}

/// A cell and the page that it leads to.
pub(super) struct Cell(pub(super) String, pub(super) Option<String>);

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self(text, None)
    }
}

/// A table with links, of at most [`ROWS`] rows.
pub(super) struct Rows {
    links: Links,
    most: usize,
    pub(super) more: usize,
}

impl Rows {
    pub(super) fn new(caption: &str, heads: &[&str], numbers: &[usize]) -> Self {
        let columns = heads.iter().enumerate().map(|(i, head)| crate::doc::Column {
            head: (*head).to_owned(),
            right: numbers.contains(&i),
            ..crate::doc::Column::default()
        });
        let table = Table { caption: caption.into(), columns: columns.collect(), rows: Vec::new() };
        Self { links: Links { table, targets: Vec::new() }, most: ROWS, more: 0 }
    }

    /// Another number of rows.
    pub(super) fn most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    pub(super) fn add(&mut self, cells: Vec<Cell>) {
        if self.links.table.rows.len() >= self.most {
            self.more += 1;
            return;
        }
        let (texts, targets) = cells.into_iter().map(|c| (c.0, c.1)).unzip();
        self.links.table.rows.push(texts);
        self.links.targets.push(targets);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links.table.rows.is_empty()
    }

    pub(super) fn done(mut self) -> Block {
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

pub(super) fn section(id: &str, title: impl Into<String>, blocks: Vec<Block>) -> Section {
    Section { id: id.into(), title: title.into(), blocks }
}
