//! `--by`: mechanisms that wake a task; `--core`: what else schedules it.

use clap::ValueEnum;
use latlab_model::wakeup::mechanism::Mechanism;

/// A real-time core beside Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CoreArg {
    /// Cobalt of Xenomai 3.
    Cobalt,
    /// EVL (Xenomai 4).
    Evl,
}

/// Mechanisms, each once, in the order in which they were named.
#[derive(Clone, Debug)]
pub struct By(pub Vec<Mechanism>);

impl By {
    /// A single timer, which any number of threads can have.
    pub fn only_timer(&self) -> Option<Mechanism> {
        match self.0.as_slice() {
            [one] if one.is_timer() => Some(*one),
            _ => None,
        }
    }

    /// As on the command line.
    pub fn names(&self) -> String {
        names(&self.0, ",")
    }
}

fn names(mechanisms: &[Mechanism], separator: &str) -> String {
    mechanisms.iter().map(|m| m.id()).collect::<Vec<_>>().join(separator)
}

/// `timerfd,futex`, or `all`.
///
/// # Errors
/// A name that is no mechanism, or is there twice.
pub fn parse(text: &str) -> Result<By, String> {
    if text == "all" {
        return Ok(By(Mechanism::ALL.to_vec()));
    }
    let mut by = Vec::new();
    for name in text.split(',') {
        let Ok(mechanism) = name.parse::<Mechanism>() else {
            let known = names(&Mechanism::ALL, ", ");
            return Err(format!("'{name}' is no mechanism: {known}, all"));
        };
        if by.contains(&mechanism) {
            return Err(format!("'{name}' is named twice"));
        }
        by.push(mechanism);
    }
    Ok(By(by))
}
