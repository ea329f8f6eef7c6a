//! Axes of a plan, as people write them: `64K..256M:x2`, `0..100:+20`, `1,16,64`, `alloc,keep`.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// Values of one axis, at most.
const MOST: usize = 1_000;

/// A value on an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Value {
    /// A number (bytes, per cent).
    Number(f64),
    /// A word.
    Word(String),
}

impl Value {
    /// The number, where it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(n) => Some(*n),
            Self::Word(_) => None,
        }
    }
}

impl Eq for Value {}
impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Word(a), Self::Word(b)) => a.cmp(b),
            (Self::Number(_), Self::Word(_)) => Ordering::Less,
            (Self::Word(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => f.write_str(&size(*n)),
            Self::Word(w) => f.write_str(w),
        }
    }
}

/// `64K`, `16M`, `100`.
pub fn size(n: f64) -> String {
    for (unit, shift) in [("G", 30), ("M", 20), ("K", 10)] {
        let unit_size = f64::from(1u32 << shift);
        if n >= unit_size && (n / unit_size).fract() == 0.0 {
            return format!("{}{unit}", n / unit_size);
        }
    }
    if n.fract() == 0.0 { format!("{n:.0}") } else { format!("{n:.3}") }
}

/// One axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its values, in order.
    pub values: Vec<Value>,
    /// Whether steps are factors, not differences.
    pub geometric: bool,
}

/// Why text is no axis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not an axis: {why} (64K..256M:x2, 0..100:+20, 1,16,64 or alloc,keep)")]
pub struct AxisError {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub why: AxisProblem,
}

/// What is wrong with the text of an axis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AxisProblem {
    /// There is no value.
    #[error("it has no value")]
    NoValue,
    /// There are more values than a sweep can have.
    #[error("it has more than {MOST} values")]
    TooMany,
    /// A bound or a step is not a number.
    #[error("'{0}' is not a number")]
    NotANumber(String),
    /// The last value is below the first.
    #[error("it ends before it begins")]
    Reversed,
    /// A step has neither `x` nor `+`.
    #[error("'{0}' is not a step: x2 multiplies, +10 adds")]
    NotAStep(String),
    /// A step does not increase the value.
    #[error("the step '{0}' does not lead from its first to its last value")]
    StepTooSmall(String),
    /// A value of a list is empty.
    #[error("a value is empty")]
    EmptyValue,
    /// A value of a list occurs twice.
    #[error("a value is there twice")]
    Repeated,
}

impl Axis {
    /// Reads an axis.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence.
    pub fn parse(name: &str, text: &str) -> Result<Self, AxisError> {
        let bad = |why| AxisError { text: text.to_owned(), why };
        let axis = match text.split_once("..") {
            Some((from, rest)) => range(name, from, rest).map_err(bad)?,
            None => list(name, text).map_err(bad)?,
        };
        match axis.values.len() {
            0 => Err(bad(AxisProblem::NoValue)),
            n if n > MOST => Err(bad(AxisProblem::TooMany)),
            _ => Ok(axis),
        }
    }

    /// Whether its values are numbers.
    pub fn is_numeric(&self) -> bool {
        self.values.iter().all(|v| matches!(v, Value::Number(_)))
    }

    /// Its numbers.
    pub fn numbers(&self) -> Vec<f64> {
        self.values.iter().filter_map(Value::number).collect()
    }
}

fn range(name: &str, from: &str, rest: &str) -> Result<Axis, AxisProblem> {
    let (to, step) = rest.split_once(':').unwrap_or((rest, "x2"));
    let number = |t: &str| number(t).ok_or_else(|| AxisProblem::NotANumber(t.to_owned()));
    let (from, to) = (number(from)?, number(to)?);
    if from > to {
        return Err(AxisProblem::Reversed);
    }
    let (geometric, by) = match step.split_at_checked(1) {
        Some(("x", by)) => (true, number(by)?),
        Some(("+", by)) => (false, number(by)?),
        _ => return Err(AxisProblem::NotAStep(step.to_owned())),
    };
    if (geometric && (by <= 1.0 || from <= 0.0)) || (!geometric && by <= 0.0) {
        return Err(AxisProblem::StepTooSmall(step.to_owned()));
    }
    let mut values = Vec::new();
    let mut v = from;
    while v <= to * (1.0 + 1e-9) && values.len() <= MOST {
        values.push(Value::Number(v));
        v = if geometric { v * by } else { v + by };
    }
    Ok(Axis { name: name.to_owned(), values, geometric })
}

fn list(name: &str, text: &str) -> Result<Axis, AxisProblem> {
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    if words.iter().any(|w| w.is_empty()) {
        return Err(AxisProblem::EmptyValue);
    }
    let numbers: Option<Vec<f64>> = words.iter().map(|w| number(w)).collect();
    let mut values: Vec<Value> = match numbers {
        Some(mut n) => {
            n.sort_unstable_by(f64::total_cmp);
            n.into_iter().map(Value::Number).collect()
        }
        None => words.iter().map(|w| Value::Word((*w).to_owned())).collect(),
    };
    let many = values.len();
    values.dedup();
    if values.len() < many {
        return Err(AxisProblem::Repeated);
    }
    let numbers: Vec<f64> = values
        .iter()
        .filter_map(|v| if let Value::Number(n) = v { Some(*n) } else { None })
        .collect();
    // Sizes grow by factors; percentages and counts are told from them by their span.
    let geometric = numbers.first().is_some_and(|f| *f > 0.0)
        && numbers.last().zip(numbers.first()).is_some_and(|(l, f)| l / f >= 16.0);
    Ok(Axis { name: name.to_owned(), values, geometric })
}

/// `64K`, `2.5`, `1G`.
fn number(text: &str) -> Option<f64> {
    let plain = text.trim().trim_end_matches(['%', 'B']);
    let (digits, factor) = match plain.chars().last()?.to_ascii_uppercase() {
        'K' => (&plain[..plain.len() - 1], 1024.0),
        'M' => (&plain[..plain.len() - 1], 1024.0 * 1024.0),
        'G' => (&plain[..plain.len() - 1], 1024.0 * 1024.0 * 1024.0),
        _ => (plain, 1.0),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let n: f64 = digits.parse().ok()?;
    (n.is_finite() && n >= 0.0).then_some(n * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_as_people_write_them() {
        let a = Axis::parse("vm-bytes", "64K..256K:x2").unwrap();
        assert_eq!(a.numbers(), [65_536.0, 131_072.0, 262_144.0]);
        assert!(a.geometric);
        assert_eq!(Axis::parse("cpu", "0..100:+50").unwrap().numbers(), [0.0, 50.0, 100.0]);
        let s = Axis::parse("vm-stride", "4096,1,64").unwrap();
        assert_eq!(s.numbers(), [1.0, 64.0, 4096.0]);
        assert!(s.geometric && !Axis::parse("n", "1,2,3").unwrap().geometric);
        let m = Axis::parse("mode", "keep,alloc").unwrap();
        assert!(!m.is_numeric());
        assert_eq!(m.values[0].to_string(), "keep");
        assert_eq!((size(4_194_304.0), size(100.0)), ("4M".into(), "100".into()));
    }

    #[test]
    fn nonsense_is_said() {
        for (text, why) in [
            ("", "empty"),
            ("1,,2", "empty"),
            ("4M..1K", "ends before it begins"),
            ("1K..4M:x1", "the step 'x1' does not lead"),
            ("0..4M:x2", "the step 'x2' does not lead"),
            ("1..9:*2", "not a step"),
            ("1..9:", "not a step"),
            ("a..b", "not a number"),
            ("1,1", "twice"),
            ("0..1000000:+1", "more than 1000 values"),
        ] {
            let said = Axis::parse("x", text).unwrap_err().to_string();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
