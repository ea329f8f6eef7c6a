//! Access to the values of a finding, formatted by their units.

use latlab_model::finding::{Quantity, Value, Values};
use latlab_model::units::format_ns;

/// The values that a wording is composed of.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a>(&'a Values, Wording);

/// The sentence of an identifier with values; `None` for an identifier without a wording.
pub type Wording = fn(&str, &Values) -> Option<String>;

impl<'a> Args<'a> {
    /// Of a finding or a note; `wording` is for values that are identifiers themselves.
    pub fn new(values: &'a Values, wording: Wording) -> Self {
        Self(values, wording)
    }
    /// The sentence of the note whose identifier is the value `name`, with the values of this one;
    /// `None` where it is no identifier.
    #[inline(never)]
    pub fn nested(&self, name: &str) -> Option<String> {
        (self.1)(self.text(name), self.0)
    }
    /// A value, formatted by its unit; `?` where it is missing.
    #[inline(never)]
    pub fn get(&self, name: &str) -> String {
        self.0.get(name).map_or_else(|| "?".to_owned(), value)
    }
    /// The same, `None` where it is missing.
    #[inline(never)]
    pub fn find(&self, name: &str) -> Option<String> {
        self.0.get(name).map(value)
    }
    /// Whether the value is there.
    #[inline(never)]
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
    /// A text as it is; empty where it is missing or no text.
    #[inline(never)]
    pub fn text(&self, name: &str) -> &'a str {
        match self.0.get(name) {
            Some(Value::Text(t)) => t,
            _ => "",
        }
    }
    /// A flag; false where it is missing.
    #[inline(never)]
    pub fn is(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Value::Flag(true)))
    }
    /// The number of a quantity in its unit; of a list, its length.
    #[inline(never)]
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.0.get(name)? {
            Value::Quantity(q) => Some(number(*q)),
            Value::List(all) => Some(all.len() as f64),
            Value::Flag(_) | Value::Text(_) => None,
        }
    }
    /// A count with its noun: `1 problem`, `6 problems`.
    #[inline(never)]
    pub fn count(&self, name: &str, one: &str, many: &str) -> String {
        match self.number(name) {
            Some(1.0) => format!("1 {one}"),
            Some(n) => format!("{n:.0} {many}"),
            None => format!("? {many}"),
        }
    }
    /// The values of a list, each formatted; a single value is a list of one.
    #[inline(never)]
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.0.get(name) {
            Some(Value::List(all)) => all.iter().map(value).collect(),
            Some(one) => vec![value(one)],
            None => Vec::new(),
        }
    }

    /// The pairs of texts of a list of lists.
    pub fn pairs(&self, name: &str) -> Vec<(&'a str, &'a str)> {
        let Some(Value::List(all)) = self.0.get(name) else { return Vec::new() };
        let pair = |v: &'a Value| match v {
            Value::List(two) => match two.as_slice() {
                [Value::Text(a), Value::Text(b)] => Some((a.as_str(), b.as_str())),
                _ => None,
            },
            _ => None,
        };
        all.iter().filter_map(pair).collect()
    }
}

fn number(q: Quantity) -> f64 {
    match q {
        Quantity::Bytes(n) | Quantity::Count(n) => n as f64,
        Quantity::Integer(n) => n as f64,
        Quantity::Cpu(n) => f64::from(n),
        Quantity::Tid(n) | Quantity::Priority(n) => f64::from(n),
        Quantity::Ns(v)
        | Quantity::S(v)
        | Quantity::Number(v)
        | Quantity::Ratio(v)
        | Quantity::Probability(v)
        | Quantity::Hz(v)
        | Quantity::Watts(v)
        | Quantity::PerSecond(v)
        | Quantity::BytesPerSecond(v)
        | Quantity::Celsius(v) => v,
    }
}

/// A value of any kind; lists with commas.
#[inline(never)]
pub fn value(v: &Value) -> String {
    match v {
        Value::Flag(true) => "yes".to_owned(),
        Value::Flag(false) => "no".to_owned(),
        Value::Text(t) => t.clone(),
        Value::Quantity(q) => quantity(*q),
        Value::List(all) => all.iter().map(value).collect::<Vec<_>>().join(", "),
    }
}

/// A number with its unit: `6.05 ms`, `32 KiB`, `12 %`, `CPU 3`.
#[inline(never)]
pub fn quantity(q: Quantity) -> String {
    match q {
        Quantity::Ns(v) => format_ns(v),
        Quantity::S(v) if v.abs() < 1e-3 || v.fract() != 0.0 && v.abs() < 10.0 => {
            format_ns(v * 1e9)
        }
        Quantity::S(v) => format!("{v:.0} s"),
        Quantity::Bytes(n) => bytes(n),
        Quantity::Count(n) => n.to_string(),
        Quantity::Integer(n) => n.to_string(),
        Quantity::Number(v) => significant(v),
        Quantity::Ratio(v) => percent(v),
        Quantity::Probability(v) if v > 0.0 && v < 1e-3 => format!("{v:.0e}"),
        Quantity::Probability(v) => format!("{v:.3}"),
        Quantity::Hz(v) if v >= 1e9 => format!("{:.2} GHz", v / 1e9),
        Quantity::Hz(v) if v >= 1e6 => format!("{:.0} MHz", v / 1e6),
        Quantity::Hz(v) => format!("{} Hz", significant(v)),
        Quantity::Watts(v) => format!("{} W", significant(v)),
        Quantity::PerSecond(v) => format!("{}/s", significant(v)),
        Quantity::BytesPerSecond(v) => format!("{:.2} GB/s", v / 1e9),
        Quantity::Cpu(n) => format!("CPU {n}"),
        Quantity::Tid(n) => n.to_string(),
        Quantity::Priority(n) => n.to_string(),
        Quantity::Celsius(v) => format!("{v:.0} °C"),
    }
}

/// A size: whole binary units where it is one (`32 KiB`), otherwise with three digits.
#[inline(never)]
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut v = n as f64;
    while v >= 1024.0 && unit + 1 < UNITS.len() {
        v /= 1024.0;
        unit += 1;
    }
    if v.fract() == 0.0 {
        format!("{v:.0} {}", UNITS[unit])
    } else {
        format!("{} {}", significant(v), UNITS[unit])
    }
}

/// A share in per cent with two to three digits.
fn percent(share: f64) -> String {
    let v = share * 100.0;
    match v.abs() {
        m if m >= 10.0 || m == 0.0 => format!("{v:.0} %"),
        m if m >= 1.0 => format!("{v:.1} %"),
        _ => format!("{v:.2} %"),
    }
}

/// Three significant digits; whole numbers of any size as they are.
fn significant(v: f64) -> String {
    match v.abs() {
        m if m >= 100.0 || v.fract() == 0.0 => format!("{v:.0}"),
        m if m >= 10.0 => format!("{v:.1}"),
        m if m >= 1.0 => format!("{v:.2}"),
        _ => format!("{v:.3}"),
    }
}
