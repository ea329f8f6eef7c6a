//! The document model: what every command's result becomes before it is drawn.
//!
//! A command has one pure function from its data to [`Section`]s; the renderers
//! (text, HTML, SVG, PNG) know only this model. A new command is thereby in the
//! terminal, in `report.html` and among the plots without touching a renderer.

use latlab_model::finding::{Finding, Severity};

/// A whole report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Doc {
    /// First heading.
    pub title: String,
    /// Key figures, the most important first; drawn on pages alone.
    pub tiles: Vec<Tile>,
    /// The result in words, most important sentence first.
    pub summary: Vec<String>,
    /// What a page shows at once: warnings, the main plot, findings that need attention. The
    /// sections are collapsed behind it. Empty: the sections are shown as they are.
    pub lead: Vec<Block>,
    /// The body.
    pub sections: Vec<Section>,
}

/// A key figure of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tile {
    /// What it is (`worst`).
    pub label: String,
    /// The figure with its unit.
    pub value: String,
    /// Where, when or of what (`CPU 1, 1.50 s after the start`).
    pub note: String,
    /// Its colour, where a verdict exists.
    pub verdict: Option<Severity>,
}

/// A part of a report under its own heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Anchor, unique within the document, `kebab-case`.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Content in reading order.
    pub blocks: Vec<Block>,
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A heading below the section's own.
    Heading(String),
    /// Something that the reader must not overlook.
    Warning(String),
    /// Names and values.
    Pairs(Vec<(String, String)>),
    /// A table.
    Table(Table),
    /// Conclusions.
    Findings(Vec<Finding>),
    /// A plot. Boxed: it carries its data.
    Plot(Box<Plot>),
    /// Preformatted text, monospaced.
    Pre(String),
    /// A flame graph; drawn on pages alone.
    Flame(Box<Flame>),
    /// A table whose cells lead to other pages of a site.
    Links(Box<Links>),
}

/// A table of text cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What the table shows; read out before it.
    pub caption: String,
    /// Column heads.
    pub columns: Vec<Column>,
    /// Cells, one per column.
    pub rows: Vec<Vec<String>>,
}

/// A table of a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Links {
    /// What it shows.
    pub table: Table,
    /// For each row, the file that each cell leads to.
    pub targets: Vec<Vec<Option<String>>>,
}

/// A column head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Heading, with the unit where all cells share one.
    pub head: String,
    /// Numbers are aligned right.
    pub right: bool,
    /// Cells are never broken, even where the line becomes too long: what people copy (paths,
    /// numbers of runs).
    pub whole: bool,
    /// 0: always shown. In a terminal that is too narrow, columns of the largest number are left
    /// out first.
    pub optional: u8,
}

impl Column {
    /// A column of words.
    pub fn left(head: impl Into<String>) -> Self {
        Self { head: head.into(), ..Self::default() }
    }
    /// A column whose cells are never broken.
    pub fn whole(head: impl Into<String>) -> Self {
        Self { head: head.into(), whole: true, ..Self::default() }
    }
    /// A column of numbers.
    pub fn right(head: impl Into<String>) -> Self {
        Self { head: head.into(), right: true, ..Self::default() }
    }
    /// The same column, left out of narrow terminals: those of the largest `order` first.
    #[must_use]
    pub fn optional(self, order: u8) -> Self {
        Self { optional: order, ..self }
    }
}

/// A flame graph: functions below their callers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flame {
    /// Heading.
    pub title: String,
    /// What it shows, in words.
    pub description: String,
    /// What widths count (`instructions`).
    pub unit: String,
    /// Width of the whole.
    pub total: u64,
    /// Boxes, a caller before its callees.
    pub boxes: Vec<FlameBox>,
}

/// A function of a flame graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameBox {
    /// Its name.
    pub name: String,
    /// Callers above it.
    pub depth: u32,
    /// Where it begins, in [`Flame::unit`].
    pub start: u64,
    /// Its width with that of its callees.
    pub width: u64,
    /// Drawn in another colour: what differs.
    pub marked: bool,
}

/// A plot as data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// Anchor and file name, unique within the document, `kebab-case`.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What it shows, in words, for those who cannot see it.
    pub description: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Named lines and regions.
    pub marks: Vec<Mark>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// Name with unit (`latency (µs)`).
    pub label: String,
    /// Scale.
    pub scale: Scale,
    /// Tick labels for a [`Scale::Category`] axis, at 0, 1, 2…
    pub categories: Vec<String>,
    /// Whether tick values are bytes and are written `4K`, `1M`.
    pub bytes: bool,
    /// Whether a linear vertical axis begins near the smallest value, and not at zero.
    pub tight: bool,
}

/// An axis' scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Linear.
    #[default]
    Linear,
    /// Base 10 logarithm. Values at or below zero are not drawn.
    Log10,
    /// Base 2 logarithm (array sizes).
    Log2,
    /// Evenly spaced names.
    Category,
}

/// One set of points with one meaning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Legend.
    pub name: String,
    /// How it is drawn.
    pub kind: SeriesKind,
    /// Points; for a histogram, the left edge of each bucket and its count.
    pub points: Vec<(f64, f64)>,
    /// Intervals `(low, high)` of y, one per point, or empty.
    pub intervals: Vec<(f64, f64)>,
    /// For [`SeriesKind::Heat`]: the value of each point's cell.
    pub values: Vec<f64>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeriesKind {
    /// Points joined by straight lines.
    #[default]
    Line,
    /// A staircase (histograms, quantiles).
    Step,
    /// Points alone.
    Points,
    /// Bars from zero.
    Bars,
    /// Cells coloured by value.
    Heat,
    /// Horizontal spans: `points` are `(start, lane)`, `values` the ends (Gantt, timelines).
    Spans,
}

/// A named line or region of a plot.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A vertical line at x.
    X(f64, String),
    /// A horizontal line at y.
    Y(f64, String),
    /// A vertical band from x to x.
    Band(f64, f64, String),
}
