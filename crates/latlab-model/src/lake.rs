//! The tables of a lake: runs of many machines as rows.
//!
//! ```text
//! run           one row a run
//! result        one row a record: count and quantiles
//! histogram     one row a bucket of a record
//! finding       one row a finding
//! environment   one row a property of the machine: kernel, configuration, processor, clock
//! ```
//!
//! Each table has what questions group by (board, device, kernel, start), so that none needs a join.
//! Text, whole numbers, real numbers and flags only: every engine that reads Parquet has them.

use std::sync::Arc;

/// Version of the tables; a reader accepts every smaller number.
pub const VERSION: i64 = 1;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// 64 bits with sign.
    Int,
    /// A double; may be unknown.
    Real,
    /// Yes or no.
    Flag,
}

/// A table.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name, and the name of its directory.
    pub name: &'static str,
    /// Columns in order.
    pub columns: &'static [(&'static str, Kind)],
    /// Columns that rows of a file are sorted by, the first one first.
    pub sorted_by: &'static [usize],
}

impl Table {
    /// Position of a column; `None` where there is no such column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|(n, _)| *n == name)
    }
}

use Kind::{Flag, Int, Real, Text};

/// One row a run.
pub static RUN: Table = Table {
    name: "run",
    columns: &[
        ("run", Text),
        ("started", Text),
        ("board", Text),
        ("device", Text),
        ("kernel", Text),
        ("host", Text),
        ("serial", Text),
        ("arch", Text),
        ("command", Text),
        ("latlab", Text),
        ("campaign", Text),
        ("experiment", Text),
        ("complete", Flag),
        ("digest", Int),
    ],
    sorted_by: &[2, 3, 1, 0],
};

/// One row a record.
pub static RESULT: Table = Table {
    name: "result",
    columns: &[
        ("run", Text),
        ("started", Text),
        ("board", Text),
        ("device", Text),
        ("kernel", Text),
        ("part", Text),
        ("name", Text),
        ("params", Text),
        ("unit", Text),
        ("larger_is_better", Flag),
        ("count", Int),
        ("min", Real),
        ("median", Real),
        ("p99", Real),
        ("p999", Real),
        ("max", Real),
    ],
    sorted_by: &[6, 7, 5, 2, 3, 1, 0],
};

/// One row a bucket.
pub static HISTOGRAM: Table = Table {
    name: "histogram",
    columns: &[
        ("run", Text),
        ("started", Text),
        ("board", Text),
        ("device", Text),
        ("kernel", Text),
        ("part", Text),
        ("name", Text),
        ("params", Text),
        ("unit", Text),
        ("low", Int),
        ("high", Int),
        ("n", Int),
    ],
    sorted_by: &[6, 7, 5, 2, 3, 1, 0, 9],
};

/// One row a finding.
pub static FINDING: Table = Table {
    name: "finding",
    columns: &[
        ("run", Text),
        ("started", Text),
        ("board", Text),
        ("device", Text),
        ("kernel", Text),
        ("part", Text),
        ("finding", Text),
        ("severity", Text),
        ("confidence", Text),
        ("details", Text),
    ],
    sorted_by: &[6, 2, 3, 1, 0],
};

/// One row a property of the machine.
pub static ENVIRONMENT: Table = Table {
    name: "environment",
    columns: &[
        ("run", Text),
        ("started", Text),
        ("board", Text),
        ("device", Text),
        ("kernel", Text),
        ("name", Text),
        ("value", Text),
    ],
    sorted_by: &[5, 2, 3, 1, 0],
};

/// All tables; `run` first.
pub static TABLES: [&Table; 5] = [&RUN, &RESULT, &HISTOGRAM, &FINDING, &ENVIRONMENT];

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Of [`Kind::Text`]; rows of one run share it.
    Text(Arc<str>),
    /// Of [`Kind::Int`].
    Int(i64),
    /// Of [`Kind::Real`]; `None`: not known.
    Real(Option<f64>),
    /// Of [`Kind::Flag`].
    Flag(bool),
}

impl Cell {
    /// Text; empty for a cell of another kind.
    pub fn text(&self) -> &str {
        if let Self::Text(t) = self { t } else { "" }
    }
    /// The text as rows share it; empty for a cell of another kind.
    pub fn shared(&self) -> Arc<str> {
        if let Self::Text(t) = self { t.clone() } else { Arc::default() }
    }
    /// A whole number; 0 for a cell of another kind.
    pub fn int(&self) -> i64 {
        if let Self::Int(v) = self { *v } else { 0 }
    }
    /// A real number, where it is known.
    pub fn real(&self) -> Option<f64> {
        if let Self::Real(v) = self { *v } else { None }
    }
    /// A flag; false for a cell of another kind.
    pub fn flag(&self) -> bool {
        matches!(self, Self::Flag(true))
    }
}

/// A row: its cells in the order of the table's columns.
pub type Row = Vec<Cell>;

/// A run as rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunRows {
    /// Identifier of the run.
    pub id: String,
    /// Day of its start, `YYYY-MM-DD`: the partition.
    pub date: String,
    /// Hash of what was measured: two runs of one identifier and different digests are not one run.
    pub digest: i64,
    /// The same with the directory that the run was written to (`--out`), as earlier versions stored it.
    pub digest_with_out: i64,
    /// Rows of each table, in the order of [`TABLES`].
    pub rows: [Vec<Row>; 5],
}

/// Orders two rows of a table.
pub fn order(table: &Table, a: &Row, b: &Row) -> std::cmp::Ordering {
    let compare = |&i: &usize| match (a.get(i), b.get(i)) {
        (Some(Cell::Text(a)), Some(Cell::Text(b))) => a.cmp(b),
        (Some(Cell::Int(a)), Some(Cell::Int(b))) => a.cmp(b),
        _ => std::cmp::Ordering::Equal,
    };
    table.sorted_by.iter().map(compare).find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
}
