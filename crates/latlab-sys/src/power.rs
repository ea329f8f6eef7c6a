//! Electrical power while something is measured, from what the kernel reads of counters and sensors.
//!
//! Energy counters give the mean exactly: `energy_uj` of the powercap zones of packages (RAPL;
//! Documentation/power/powercap/powercap.rst) and `energy*_input` of hwmon (Documentation/hwmon/sysfs-interface.rst), both
//! in µJ. Without any counter, sensors are read ten times a second: `power*_average` or `power*_input` of hwmon, µW, and
//! of a battery that discharges, where there is nothing else, `power_now`, µW, or the product of `current_now`, µA, and
//! `voltage_now`, µV (Documentation/power/power_supply_class.rst). What this process may not read is left out.

use crate::files::Root;
use latlab_model::record::{Record, Unit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two readings of a sensor.
const SENSOR_INTERVAL: Duration = Duration::from_millis(100);
/// Between two readings of counters: the 32 bits of RAPL take longer to overflow, also at 1 kW.
const COUNTER_INTERVAL: Duration = Duration::from_secs(10);
/// Zones of packages; a zone within one has another number behind.
const ZONES: [&str; 2] = ["intel-rapl:", "intel-rapl-mmio:"];

/// A counter or a sensor.
#[derive(Clone, Debug, Default)]
struct Meter {
    name: String,
    /// A counter's energy, µJ, a sensor's power, µW, or a current, µA.
    file: String,
    counts: bool,
    /// Largest value of a counter before it begins again at 0, µJ.
    range_uj: Option<u64>,
    /// File of the voltage, µV, for a current.
    voltage: Option<String>,
}

impl Meter {
    fn read(&self, root: &Root) -> Option<u64> {
        let Some(voltage) = &self.voltage else { return root.number(&self.file) };
        // Of a current that flows out of a battery some drivers give a negative number.
        let current: i64 = root.number(&self.file)?;
        current.unsigned_abs().checked_mul(root.number(voltage)?).map(|product| product / 1_000_000)
    }
}

/// Counters and sensors that can be read.
#[derive(Clone, Debug)]
pub struct Meters {
    root: Root,
    all: Vec<Meter>,
}

impl Meters {
    /// Those of this machine: its counters, or else the sensors of its boards and chips, or else its battery.
    pub fn find() -> Self {
        Self::below(Root::here())
    }

    fn below(root: Root) -> Self {
        let mut meters = Self { root: root.clone(), all: Vec::new() };
        for prefix in ZONES {
            for (_, zone) in root.numbered("sys/class/powercap", prefix) {
                let zone = ["sys/class/powercap/", &zone].concat();
                let file = |name: &str| [zone.as_str(), name].concat();
                if let Some(name) = root.word(&file("/name")) {
                    let range_uj = root.number(&file("/max_energy_range_uj"));
                    let file = file("/energy_uj");
                    meters.add(Meter { name, file, counts: true, range_uj, ..Meter::default() });
                }
            }
        }
        for (_, chip) in root.numbered("sys/class/hwmon", "hwmon") {
            meters.add_chip(&["sys/class/hwmon/", &chip].concat());
        }
        if meters.all.iter().any(|m| m.counts) {
            meters.all.retain(|m| m.counts);
        }
        if meters.all.is_empty() {
            root.names("sys/class/power_supply").iter().for_each(|name| meters.add_battery(name));
        }
        meters
    }

    fn add_chip(&mut self, chip: &str) {
        for file in self.root.names(chip) {
            let Some((input, what)) = file.split_once('_') else { continue };
            let path = |end: &str| [chip, "/", input, end].concat();
            let counts = input.starts_with("energy") && what == "input";
            let averages = what == "average" || !self.root.exists(&path("_average"));
            let is_power = input.starts_with("power") && averages;
            if counts || is_power && matches!(what, "input" | "average") {
                let name = self.root.word(&path("_label")).unwrap_or_else(|| {
                    let name = self.root.word(&[chip, "/name"].concat());
                    [&name.unwrap_or_default(), "-", input].concat()
                });
                let file = [chip, "/", &file].concat();
                self.add(Meter { name, file, counts, ..Meter::default() });
            }
        }
    }

    fn add_battery(&mut self, name: &str) {
        let file = |file: &str| ["sys/class/power_supply/", name, file].concat();
        let is = |path, value| self.root.word(&file(path)).as_deref() == Some(value);
        if is("/type", "Battery") && is("/status", "Discharging") {
            let of =
                |file, voltage| Meter { name: name.to_owned(), file, voltage, ..Meter::default() };
            self.add(of(file("/power_now"), None));
            // Of the same name: only where there is no power.
            self.add(of(file("/current_now"), Some(file("/voltage_now"))));
        }
    }

    /// Adds what can be read under a new name.
    fn add(&mut self, mut meter: Meter) {
        meter.name = meter.name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-");
        let is_new = self.all.iter().all(|m| m.name != meter.name);
        if is_new && meter.read(&self.root).is_some() {
            self.all.push(meter);
        }
    }

    /// Reads from now on, in a thread of its own where there is anything to read.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn begin(&self) -> std::io::Result<Metering> {
        if self.all.is_empty() {
            return Ok(Metering(None));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (root, stopped) = (self.root.clone(), Arc::clone(&stop));
        let mut sums: Vec<Sum> = self.all.iter().map(|m| Sum::begin(m.clone(), &root)).collect();
        let sensors = self.all.iter().any(|m| !m.counts);
        let interval = if sensors { SENSOR_INTERVAL } else { COUNTER_INTERVAL };
        let read = move || {
            loop {
                thread::park_timeout(interval);
                let last = stopped.load(Ordering::Acquire);
                sums.iter_mut().for_each(|sum| sum.add(&root));
                if last {
                    return sums.iter().filter_map(Sum::record).collect();
                }
            }
        };
        let thread = thread::Builder::new().name("power".to_owned()).spawn(read)?;
        Ok(Metering(Some((stop, thread))))
    }
}

/// Readings that go on.
#[must_use = "its end has the result"]
pub struct Metering(Option<(Arc<AtomicBool>, JoinHandle<Vec<Record>>)>);

impl Metering {
    /// `power.METER` of each meter: the mean since the beginning, W. None of a meter that stopped being readable.
    pub fn end(self) -> Vec<Record> {
        let Some((stop, thread)) = self.0 else { return Vec::new() };
        stop.store(true, Ordering::Release);
        thread.thread().unpark();
        thread.join().unwrap_or_default()
    }
}

/// What a meter has counted.
struct Sum {
    meter: Meter,
    began: Instant,
    last: Option<u64>,
    /// µJ of a counter, or the sum of the readings of a sensor, µW.
    total: u64,
    readings: u64,
}

impl Sum {
    fn begin(meter: Meter, root: &Root) -> Self {
        let last = meter.read(root);
        let total = if meter.counts { 0 } else { last.unwrap_or(0) };
        Self { meter, began: Instant::now(), last, total, readings: 1 }
    }

    fn add(&mut self, root: &Root) {
        let Some(last) = self.last else { return };
        self.last = self.meter.read(root).and_then(|now| {
            // A counter that was set back says nothing about the time before.
            let added =
                if self.meter.counts { since(last, now, self.meter.range_uj)? } else { now };
            self.total = self.total.saturating_add(added);
            self.readings += 1;
            Some(now)
        });
    }

    fn record(&self) -> Option<Record> {
        self.last?;
        let per = if self.meter.counts {
            self.began.elapsed().as_secs_f64()
        } else {
            self.readings as f64
        };
        let watts = self.total as f64 / 1e6 / per;
        let mut record = Record {
            name: ["power.", &self.meter.name].concat(),
            unit: Unit::Watt,
            ..Record::default()
        };
        record.summary.count = self.readings;
        record.summary.median = watts.is_finite().then_some(watts);
        Some(record)
    }
}

/// What a counter has counted between two readings.
fn since(last: u64, now: u64, range: Option<u64>) -> Option<u64> {
    match range {
        Some(range) if now < last && last <= range => Some(range - last + now),
        _ => now.checked_sub(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    fn watts(records: &[Record]) -> Vec<(&str, f64)> {
        records.iter().map(|r| (r.name.as_str(), r.summary.median.unwrap())).collect()
    }

    #[test]
    fn packages_sensors_and_a_discharging_battery_are_found() {
        let dir = tree(&[
            ("sys/class/powercap/intel-rapl/enabled", "1\n"),
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", "100\n"),
            ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n"),
            // Part of the package, and the package once more.
            ("sys/class/powercap/intel-rapl:0:0/name", "core\n"),
            ("sys/class/powercap/intel-rapl:0:0/energy_uj", "50\n"),
            ("sys/class/powercap/intel-rapl-mmio:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl-mmio:0/energy_uj", "100\n"),
            ("sys/class/hwmon/hwmon0/name", "ina226\n"),
            ("sys/class/hwmon/hwmon0/power1_input", "5000000\n"),
            ("sys/class/hwmon/hwmon0/in1_input", "12000\n"),
            ("sys/class/hwmon/hwmon1/name", "power_meter\n"),
            ("sys/class/hwmon/hwmon1/power1_average", "90000000\n"),
            ("sys/class/hwmon/hwmon1/power1_input", "91000000\n"),
            ("sys/class/hwmon/hwmon2/energy1_input", "7\n"),
            ("sys/class/hwmon/hwmon2/energy1_label", "Esocket 0\n"),
            ("sys/class/power_supply/BAT0/type", "Battery\n"),
            ("sys/class/power_supply/BAT0/status", "Discharging\n"),
            ("sys/class/power_supply/BAT0/current_now", "-1500000\n"),
            ("sys/class/power_supply/BAT0/voltage_now", "12000000\n"),
            ("sys/class/power_supply/BAT1/type", "Battery\n"),
            ("sys/class/power_supply/BAT1/status", "Charging\n"),
            ("sys/class/power_supply/BAT1/power_now", "8000000\n"),
            ("sys/class/power_supply/AC/type", "Mains\n"),
        ]);
        let meters = Meters::below(Root::at(dir.path()));
        let names: Vec<&str> = meters.all.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["package-0", "Esocket-0"]);
        fs::remove_dir_all(dir.path().join("sys/class/powercap")).unwrap();
        fs::remove_dir_all(dir.path().join("sys/class/hwmon/hwmon2")).unwrap();
        let records = Meters::below(Root::at(dir.path())).begin().unwrap().end();
        let sensors = [("power.ina226-power1", 5.0), ("power.power_meter-power1", 90.0)];
        assert_eq!(watts(&records), sensors);
        fs::remove_dir_all(dir.path().join("sys/class/hwmon")).unwrap();
        let records = Meters::below(Root::at(dir.path())).begin().unwrap().end();
        assert_eq!(watts(&records), [("power.BAT0", 18.0)]);
        fs::remove_dir_all(dir.path().join("sys")).unwrap();
        assert_eq!(Meters::below(Root::at(dir.path())).begin().unwrap().end(), []);
    }

    #[test]
    fn a_counter_gives_energy_by_time_also_where_it_begins_again() {
        let dir = tree(&[
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", "9000000\n"),
            ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "10000000\n"),
        ]);
        let meters = Meters::below(Root::at(dir.path()));
        let root = Root::at(dir.path());
        let mut sum = Sum::begin(meters.all[0].clone(), &root);
        let set =
            |uj: &str| fs::write(dir.path().join("sys/class/powercap/intel-rapl:0/energy_uj"), uj);
        for uj in ["9500000", "500000", "3500000"] {
            set(uj).unwrap();
            sum.add(&root);
        }
        assert_eq!(sum.total, 4_500_000);
        sum.began -= Duration::from_secs(2);
        let record = sum.record().unwrap();
        let watts = record.summary.median.unwrap();
        assert!(watts > 0.0 && watts <= 2.25, "{watts}");
        // A value above the range: the counter was changed.
        sum.last = Some(11_000_000);
        sum.add(&root);
        assert_eq!(sum.record(), None);
    }
}
