//! What changed on the devices of alarms, read from the lake's nights around each change.

use super::{lake, nights};
use latlab_analysis::fleet::environment::TwoNights;
use latlab_model::fleet::Environment;
use latlab_model::lake::{ENVIRONMENT, RUN, Table};
use std::collections::BTreeMap;
use std::path::Path;

/// Nights before a change in which a device's properties are looked for.
const BEFORE: usize = 7;

/// Where an alarm is.
pub struct Place<'a> {
    /// Position of the first night of the change.
    pub since: usize,
    /// Board (model).
    pub board: &'a str,
    /// The device; `None`: all of the board.
    pub device: Option<&'a str>,
}

/// What changed for each alarm. `dates` are the nights that positions count.
///
/// # Errors
/// When a file cannot be read.
pub fn of_alarms(dir: &Path, dates: &[&str], alarms: &[Place]) -> anyhow::Result<Vec<Environment>> {
    let files = Files {
        dir,
        environment: lake::parts(dir, ENVIRONMENT.name)?,
        runs: lake::parts(dir, RUN.name)?,
    };
    let mut of_night: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, alarm) in alarms.iter().enumerate() {
        of_night.entry(alarm.since).or_default().push(i);
    }
    let mut out = vec![Environment::default(); alarms.len()];
    for (since, here) in of_night {
        let wanted = |board: &str, device: &str| {
            let named = |a: &Place| a.board == board && a.device.is_none_or(|d| d == device);
            here.iter().any(|i| named(&alarms[*i]))
        };
        let mut both = TwoNights::default();
        files.each(
            dates.get(since).copied().unwrap_or_default(),
            &mut |board, device, name, value| {
                if wanted(board, device) {
                    both.after(board, device, name, value);
                }
            },
        )?;
        for night in (since.saturating_sub(BEFORE)..since).rev() {
            if here.iter().all(|i| both.enough(alarms[*i].board, alarms[*i].device)) {
                break;
            }
            let missing = both.missing();
            files.each(
                dates.get(night).copied().unwrap_or_default(),
                &mut |board, device, name, value| {
                    if missing.contains(&(board.to_owned(), device.to_owned())) {
                        both.before(board, device, name, value);
                    }
                },
            )?;
        }
        for i in here {
            out[i] = both.changes(alarms[i].board, alarms[i].device);
        }
    }
    Ok(out)
}

struct Files<'a> {
    dir: &'a Path,
    environment: BTreeMap<String, Vec<String>>,
    runs: BTreeMap<String, Vec<String>>,
}

impl Files<'_> {
    /// Board, device, name and value of each property of a night, and of the version that measured.
    fn each(&self, date: &str, each: &mut dyn FnMut(&str, &str, &str, &str)) -> anyhow::Result<()> {
        let columns = ["board", "device", "name", "value"];
        self.rows(&ENVIRONMENT, &self.environment, &columns, date, &mut |c| {
            each(c[0], c[1], c[2], c[3])
        })?;
        let columns = ["board", "device", "latlab"];
        self.rows(&RUN, &self.runs, &columns, date, &mut |c| each(c[0], c[1], "latlab", c[2]))
    }

    fn rows(
        &self,
        table: &Table,
        parts: &BTreeMap<String, Vec<String>>,
        columns: &[&str],
        date: &str,
        each: &mut dyn FnMut(&[&str]),
    ) -> anyhow::Result<()> {
        for part in parts.get(date).into_iter().flatten() {
            nights::rows(self.dir, table, columns, date, part, &mut |row| {
                let cells: Vec<&str> = row.iter().map(|c| c.text()).collect();
                each(&cells);
            })?;
        }
        Ok(())
    }
}
