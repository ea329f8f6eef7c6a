//! The store: two tables, the same in SQLite and PostgreSQL.
//!
//! ```text
//! runs(id, path, started, host, board, kernel, arch, command, complete, serial)
//! results(run_id, part, name, params, unit, count, min, median, p99, p999, max)
//! ```
//!
//! A run's number is made from its UUID, so that adding it twice, from wherever, adds it once;
//! another run under a number that is taken is refused. `meta` holds the version of this layout.
//! Layout 1 had no `serial`; a store of it gets the column when it is opened.

use super::server::{Server, is_server, with_causes};
use crate::outcome::HintExt;
use anyhow::{Context, anyhow, bail};
use latlab_model::history::{ResultRow, RunRow};
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use rusqlite::OpenFlags;
use std::path::Path;

/// Version of the tables.
const VERSION: i64 = 2;

/// `application_id` of a SQLite file: "latl".
const APPLICATION: i32 = 0x6c61_746c;

/// Tables and their columns.
const COLUMNS: [(&str, &str); 3] = [
    ("meta", "key value"),
    ("runs", "id path started host board kernel arch command complete serial"),
    ("results", "run_id part name params unit count min median p99 p999 max"),
];

const TABLES: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS runs (id BIGINT PRIMARY KEY, path TEXT NOT NULL, started TEXT NOT NULL, host TEXT NOT NULL, board TEXT NOT NULL, kernel TEXT NOT NULL, arch TEXT NOT NULL, command TEXT NOT NULL, complete BIGINT NOT NULL, serial TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE IF NOT EXISTS results (run_id BIGINT NOT NULL REFERENCES runs(id), part TEXT NOT NULL, name TEXT NOT NULL, params TEXT NOT NULL, unit TEXT NOT NULL, count BIGINT NOT NULL, min DOUBLE PRECISION, median DOUBLE PRECISION, p99 DOUBLE PRECISION, p999 DOUBLE PRECISION, max DOUBLE PRECISION)",
    "CREATE INDEX IF NOT EXISTS runs_started ON runs(started)",
    "CREATE INDEX IF NOT EXISTS runs_board ON runs(board)",
    "CREATE INDEX IF NOT EXISTS results_run ON results(run_id)",
    "CREATE INDEX IF NOT EXISTS results_name ON results(name, part, params)",
    // Everything that a list of names needs: the rows themselves are not read for it.
    "CREATE INDEX IF NOT EXISTS results_names ON results(name, unit, run_id)",
];

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Not known.
    Null,
    /// A whole number.
    Int(i64),
    /// Any number.
    Real(f64),
    /// Words.
    Text(String),
}

impl Cell {
    /// As words; empty for what is none.
    pub fn text(&self) -> String {
        if let Self::Text(t) = self { t.clone() } else { String::new() }
    }
    /// As a number.
    pub fn real(&self) -> Option<f64> {
        match self {
            Self::Real(v) => Some(*v),
            Self::Int(v) => Some(*v as f64),
            _ => None,
        }
    }
    /// As a whole number, 0 for what is none.
    pub fn int(&self) -> i64 {
        if let Self::Int(v) = self { *v } else { 0 }
    }
}

impl From<&str> for Cell {
    fn from(t: &str) -> Self {
        // PostgreSQL's text has no NUL.
        Self::Text(t.replace('\0', ""))
    }
}
impl From<Option<f64>> for Cell {
    fn from(v: Option<f64>) -> Self {
        v.map_or(Self::Null, Self::Real)
    }
}

impl ToSql for Cell {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut postgres::types::private::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(v) => v.to_sql(ty, out),
            Self::Real(v) => v.to_sql(ty, out),
            Self::Text(t) => t.to_sql(ty, out),
        }
    }
    fn accepts(_: &Type) -> bool {
        true
    }
    to_sql_checked!();
}

impl rusqlite::ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::{ToSqlOutput, Value, ValueRef};
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(Value::Null),
            Self::Int(v) => ToSqlOutput::Owned(Value::Integer(*v)),
            Self::Real(v) => ToSqlOutput::Owned(Value::Real(*v)),
            Self::Text(t) => ToSqlOutput::Borrowed(ValueRef::Text(t.as_bytes())),
        })
    }
}

/// Whose tables a database has.
#[derive(Debug, PartialEq)]
enum Owner {
    Nobody,
    Latlab,
    /// Tables of layout 1.
    Earlier,
    Another,
}

/// A store that is open.
pub enum Store {
    /// A file.
    Sqlite(rusqlite::Connection),
    /// A server. Boxed: it is large.
    Postgres(Box<postgres::Client>),
}

impl Store {
    /// Opens a store; `make` makes one that is not there.
    ///
    /// # Errors
    /// One sentence when it cannot be reached, is no store, or was made by a newer latlab.
    pub fn open(name: &str, make: bool) -> anyhow::Result<Self> {
        let (mut store, shown) = if is_server(name) {
            let server = Server::parse(name)?;
            (Self::Postgres(Box::new(server.connect()?)), server.shown().to_owned())
        } else {
            (Self::Sqlite(open_file(name, make)?), name.to_owned())
        };
        store
            .prepare(make)
            .with_context(|| format!("--store {shown}"))
            .hint("name a store that latlab history made, or add a run to a new file")?;
        Ok(store)
    }

    /// Looks whose database it is before anything is written; `make` makes the tables where there are none.
    fn prepare(&mut self, make: bool) -> anyhow::Result<()> {
        match self.owner()? {
            Owner::Nobody if !make => bail!("this database has no store"),
            Owner::Another => bail!("is a database of another program"),
            Owner::Nobody => self.whole(Self::make)?,
            Owner::Earlier => self.whole(Self::migrate)?,
            Owner::Latlab => {}
        }
        let found = self.query("SELECT value FROM meta WHERE key = 'version'", &[])?;
        match found.first().map(|row| row[0].int()) {
            Some(v) if v > VERSION => {
                bail!(
                    "was written by a newer latlab (layout {v}; this version reads up to {VERSION})"
                )
            }
            Some(_) => Ok(()),
            None => bail!("is a database of another program"),
        }
    }

    /// Whose database it is, by the columns of the tables. A server's may have other tables beside ours, a
    /// file may not.
    fn owner(&mut self) -> anyhow::Result<Owner> {
        let columns = match self {
            Self::Sqlite(_) => {
                let id = self.query("PRAGMA application_id", &[])?;
                if !id.iter().all(|row| [0, i64::from(APPLICATION)].contains(&row[0].int())) {
                    return Ok(Owner::Another);
                }
                "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
            }
            Self::Postgres(_) => {
                "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = current_schema() AND table_name IN ('meta', 'runs', 'results')"
            }
        };
        let mut found: Vec<(String, String)> =
            self.query(columns, &[])?.iter().map(|row| (row[0].text(), row[1].text())).collect();
        let mut ours: Vec<(String, String)> = (COLUMNS.iter())
            .flat_map(|(table, all)| all.split(' ').map(|c| ((*table).to_owned(), c.to_owned())))
            .collect();
        found.sort();
        ours.sort();
        let mut earlier = ours.clone();
        earlier.retain(|column| (column.0.as_str(), column.1.as_str()) != ("runs", "serial"));
        Ok(match found {
            none if none.is_empty() => Owner::Nobody,
            found if found == ours => Owner::Latlab,
            found if found == earlier => Owner::Earlier,
            _ => Owner::Another,
        })
    }

    /// From layout 1 to 2.
    fn migrate(&mut self) -> anyhow::Result<()> {
        self.execute("ALTER TABLE runs ADD COLUMN serial TEXT NOT NULL DEFAULT ''", &[])?;
        self.execute("UPDATE meta SET value = 2 WHERE key = 'version'", &[]).map(drop)
    }

    fn make(&mut self) -> anyhow::Result<()> {
        match self {
            // Two that add the first run at once: the second waits, and finds the tables.
            Self::Postgres(_) => {
                let key = Cell::Int(i64::from(APPLICATION));
                self.query("SELECT pg_advisory_xact_lock(?1)::text", &[key])?;
            }
            Self::Sqlite(c) => c.pragma_update(None, "application_id", APPLICATION)?,
        }
        for sql in TABLES {
            self.execute(sql, &[])?;
        }
        let sql = "INSERT INTO meta (key, value) VALUES ('version', ?1) ON CONFLICT DO NOTHING";
        self.execute(sql, &[Cell::Int(VERSION)]).map(drop)
    }

    /// Does something whole or not at all.
    fn whole<T>(&mut self, work: impl FnOnce(&mut Self) -> anyhow::Result<T>) -> anyhow::Result<T> {
        // SQLite: the lock for writing at once, because one that is asked for later is not waited for.
        let begin = if matches!(self, Self::Sqlite(_)) { "BEGIN IMMEDIATE" } else { "BEGIN" };
        self.execute(begin, &[])?;
        let done = work(self).and_then(|value| self.execute("COMMIT", &[]).map(|_| value));
        if done.is_err() {
            // The error that matters is the first.
            let _ = self.execute("ROLLBACK", &[]);
        }
        done
    }

    /// Runs a statement; how many rows it changed.
    ///
    /// # Errors
    /// The database's.
    pub fn execute(&mut self, sql: &str, args: &[Cell]) -> anyhow::Result<u64> {
        match self {
            Self::Sqlite(c) => {
                Ok(c.prepare_cached(sql)?.execute(rusqlite::params_from_iter(args))? as u64)
            }
            Self::Postgres(c) => {
                let args: Vec<&(dyn ToSql + Sync)> = args.iter().map(|a| a as _).collect();
                c.execute(dollars(sql).as_str(), &args).map_err(|e| anyhow!("{}", with_causes(&e)))
            }
        }
    }

    /// Rows of a query.
    ///
    /// # Errors
    /// The database's.
    pub fn query(&mut self, sql: &str, args: &[Cell]) -> anyhow::Result<Vec<Vec<Cell>>> {
        match self {
            Self::Sqlite(c) => {
                let mut statement = c.prepare_cached(sql)?;
                let columns = statement.column_count();
                let mut rows = statement.query(rusqlite::params_from_iter(args))?;
                let mut out = Vec::new();
                while let Some(row) = rows.next()? {
                    out.push((0..columns).map(|i| sqlite_cell(row, i)).collect::<Result<_, _>>()?);
                }
                Ok(out)
            }
            Self::Postgres(c) => {
                let args: Vec<&(dyn ToSql + Sync)> = args.iter().map(|a| a as _).collect();
                let rows = c
                    .query(dollars(sql).as_str(), &args)
                    .map_err(|e| anyhow!("{}", with_causes(&e)))?;
                let cells =
                    |row: &postgres::Row| (0..row.len()).map(|i| postgres_cell(row, i)).collect();
                rows.iter().map(cells).collect()
            }
        }
    }

    /// Adds a run with its results, whole or not at all; false when it is there already.
    ///
    /// # Errors
    /// The database's.
    pub fn add(&mut self, run: &RunRow, results: &[ResultRow]) -> anyhow::Result<bool> {
        self.whole(|store| store.add_inside(run, results))
    }

    fn add_inside(&mut self, run: &RunRow, results: &[ResultRow]) -> anyhow::Result<bool> {
        let sql = "INSERT INTO runs (id, path, started, host, board, kernel, arch, command, complete, serial) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING";
        let texts =
            [&run.path, &run.started, &run.host, &run.board, &run.kernel, &run.arch, &run.command];
        let mut cells = vec![Cell::Int(run.id)];
        cells.extend(texts.into_iter().map(|t| Cell::from(t.as_str())));
        cells.push(Cell::Int(i64::from(run.complete)));
        cells.push(Cell::from(run.unit.as_str()));
        if self.execute(sql, &cells)? == 0 {
            return self.same(run, results).map(|()| false);
        }
        let sql = "INSERT INTO results (run_id, part, name, params, unit, count, min, median, p99, p999, max) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        for r in results {
            let mut cells = vec![Cell::Int(run.id)];
            cells.extend([&r.part, &r.name, &r.params, &r.unit].map(|t| Cell::from(t.as_str())));
            cells.push(Cell::Int(r.count));
            cells.extend([r.min, r.median, r.p99, r.p999, r.max].map(Cell::from));
            self.execute(sql, &cells)?;
        }
        Ok(true)
    }

    /// That the run that is stored under a number is this one: by its head and the values of its results.
    fn same(&mut self, run: &RunRow, results: &[ResultRow]) -> anyhow::Result<()> {
        let id = [Cell::Int(run.id)];
        let stored =
            self.query("SELECT started, host, command, path FROM runs WHERE id = ?1", &id)?;
        let head = [&run.started, &run.host, &run.command].map(|t| Cell::from(t.as_str()));
        let sql = "SELECT part, name, params, count, median FROM results WHERE run_id = ?1";
        let of = |r: &ResultRow| {
            let texts = [&r.part, &r.name, &r.params].map(|t| Cell::from(t.as_str()));
            let mut cells = texts.to_vec();
            cells.extend([Cell::Int(r.count), Cell::from(r.median)]);
            cells
        };
        let key = |cells: &Vec<Cell>| format!("{cells:?}");
        let (mut there, mut here) =
            (self.query(sql, &id)?, results.iter().map(of).collect::<Vec<_>>());
        there.sort_by_key(key);
        here.sort_by_key(key);
        match stored.first() {
            Some(row) if row[..3] == head && there == here => Ok(()),
            Some(row) => bail!(
                "another run is stored under its number, from {} (started {})",
                row[3].text(),
                row[0].text()
            ),
            None => bail!("its number was stored and removed at the same time"),
        }
    }
}

fn open_file(name: &str, make: bool) -> anyhow::Result<rusqlite::Connection> {
    let path = Path::new(name);
    if !make && !path.exists() {
        return Err(anyhow!("--store {name}: no such store"))
            .hint("latlab history add RUN… creates it; --store names another");
    }
    if make && !path.exists() {
        make_file(path)
            .map_err(|e| anyhow!("--store {name}: cannot be created: {e:#}"))
            .hint("name a store in a directory that this user may write to: --store FILE")?;
    }
    connect(path, OpenFlags::empty())
        .map_err(|e| anyhow!("--store {name}: {e}"))
        .hint("name a file that this user may write to")
}

/// A new store appears under its name with its tables, or not at all.
fn make_file(path: &Path) -> anyhow::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent)?;
    let beside = latlab_sys::scratch::ScratchDir::create(parent)?;
    let new = beside.path().join("new");
    Store::Sqlite(connect(&new, OpenFlags::SQLITE_OPEN_CREATE)?).prepare(true)?;
    match std::fs::hard_link(&new, path) {
        // Another process was first.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        // A file system without hard links.
        Err(_) if !path.exists() => Ok(std::fs::rename(&new, path)?),
        made => Ok(made?),
    }
}

fn connect(path: &Path, create: OpenFlags) -> rusqlite::Result<rusqlite::Connection> {
    let connection = rusqlite::Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create,
    )?;
    connection.busy_timeout(std::time::Duration::from_secs(10)).and_then(|()| {
        // FULL: with a rollback journal, less may lose the database at a power cut (SQLite, PRAGMA synchronous).
        connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL;")
    })?;
    Ok(connection)
}

/// `?1` is SQLite's, `$1` is PostgreSQL's.
fn dollars(sql: &str) -> String {
    sql.replace('?', "$")
}

fn sqlite_cell(row: &rusqlite::Row<'_>, i: usize) -> anyhow::Result<Cell> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(i)? {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(v) => Cell::Int(v),
        ValueRef::Real(v) => Cell::Real(v),
        ValueRef::Text(t) | ValueRef::Blob(t) => {
            Cell::Text(String::from_utf8_lossy(t).into_owned())
        }
    })
}

fn postgres_cell(row: &postgres::Row, i: usize) -> anyhow::Result<Cell> {
    let ty = row.columns()[i].type_();
    let cell = match *ty {
        Type::INT8 => row.try_get::<_, Option<i64>>(i)?.map(Cell::Int),
        Type::FLOAT8 => row.try_get::<_, Option<f64>>(i)?.map(Cell::Real),
        Type::TEXT | Type::VARCHAR => row.try_get::<_, Option<String>>(i)?.map(Cell::Text),
        ref other => bail!("a column has the unexpected type {other}"),
    };
    Ok(cell.unwrap_or(Cell::Null))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_added_once_and_whole() {
        let mut store = Store::Sqlite(rusqlite::Connection::open_in_memory().unwrap());
        store.prepare(true).unwrap();
        let run = RunRow { id: 7, started: "2026-01-01".into(), ..RunRow::default() };
        let result = ResultRow { name: "x".into(), median: Some(1.5), ..ResultRow::default() };
        assert!(store.add(&run, &[result.clone(), result.clone()]).unwrap());
        assert!(!store.add(&run, &[result.clone(), result.clone()]).unwrap());
        let another = ResultRow { median: Some(2.5), ..result };
        let refused = store.add(&run, &[another.clone(), another]).unwrap_err().to_string();
        assert!(refused.contains("another run is stored"), "{refused}");
        let rows = store
            .query("SELECT median, p99 FROM results WHERE run_id = ?1", &[Cell::Int(7)])
            .unwrap();
        assert_eq!(rows, [[Cell::Real(1.5), Cell::Null], [Cell::Real(1.5), Cell::Null]]);
    }

    #[test]
    fn a_store_of_layout_1_gets_the_serial_number() {
        let mut store = Store::Sqlite(rusqlite::Connection::open_in_memory().unwrap());
        store.prepare(true).unwrap();
        let run = RunRow { id: 7, ..RunRow::default() };
        assert!(store.add(&run, &[]).unwrap());
        store.execute("ALTER TABLE runs DROP COLUMN serial", &[]).unwrap();
        store.execute("UPDATE meta SET value = 1", &[]).unwrap();
        store.prepare(false).unwrap();
        assert_eq!(store.owner().unwrap(), Owner::Latlab);
        assert!(!store.add(&run, &[]).unwrap(), "what was stored is there");
    }

    #[test]
    fn a_store_of_a_newer_latlab_is_refused() {
        let mut store = Store::Sqlite(rusqlite::Connection::open_in_memory().unwrap());
        store.prepare(true).unwrap();
        store.execute("UPDATE meta SET value = 9", &[]).unwrap();
        assert!(store.prepare(true).unwrap_err().to_string().contains("newer latlab"));
    }

    #[test]
    fn the_layout_is_that_of_the_tables() {
        let mut store = Store::Sqlite(rusqlite::Connection::open_in_memory().unwrap());
        assert_eq!(store.owner().unwrap(), Owner::Nobody);
        assert!(store.prepare(false).is_err());
        assert_eq!(store.owner().unwrap(), Owner::Nobody, "reading makes nothing");
        store.prepare(true).unwrap();
        assert_eq!(store.owner().unwrap(), Owner::Latlab);
        store.prepare(false).unwrap();
        store.execute("CREATE TABLE more (x)", &[]).unwrap();
        assert_eq!(store.owner().unwrap(), Owner::Another);
    }

    #[test]
    fn a_database_of_another_program_is_left_as_it_is() {
        for sql in [
            "CREATE TABLE contacts (name TEXT)",
            "CREATE TABLE runs (distance REAL)",
            "CREATE VIEW meta AS SELECT 1 AS key, 2 AS value",
            "PRAGMA application_id = 252006673",
        ] {
            for make in [false, true] {
                let connection = rusqlite::Connection::open_in_memory().unwrap();
                connection.execute_batch(sql).unwrap();
                let mut store = Store::Sqlite(connection);
                let before = schema(&mut store);
                let error = store.prepare(make).unwrap_err().to_string();
                assert_eq!(error, "is a database of another program", "{sql}");
                assert_eq!(schema(&mut store), before, "{sql}");
            }
        }
    }

    fn schema(store: &mut Store) -> Vec<Vec<Cell>> {
        store.query("SELECT name, sql FROM sqlite_master", &[]).unwrap()
    }
}
