//! What changed on the devices of an alarm between two nights, besides the kernel.
//!
//! A property may have several values in a night, as experiments change settings: it changed where none of the
//! values before is among those after. A property that is not known in one of the nights did not change, except
//! for a package of a system whose packages are known: it was installed or removed.

use latlab_model::fleet::{Environment, Property};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Properties of an alarm that are listed.
const LISTED: usize = 30;
/// Characters of a value that are kept; a command line may have thousands.
const SHOWN: usize = 200;
/// Properties that are packages.
const PACKAGE: &str = "package.";

/// Values of the properties of one device: numbers of names and values.
type Values = BTreeSet<(u32, u32)>;

/// Texts by their numbers.
#[derive(Debug, Default)]
struct Texts(Vec<Arc<str>>, BTreeMap<Arc<str>, u32>);

impl Texts {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(known) = self.1.get(text) {
            return *known;
        }
        let (number, text) = (self.0.len() as u32, Arc::<str>::from(text));
        self.0.push(text.clone());
        self.1.insert(text, number);
        number
    }

    fn text(&self, number: u32) -> &str {
        self.0.get(number as usize).map_or("", |t| t)
    }
}

/// Properties of devices in one night and before it.
#[derive(Debug, Default)]
pub struct TwoNights {
    texts: Texts,
    before: BTreeMap<(String, String), Values>,
    after: BTreeMap<(String, String), Values>,
}

impl TwoNights {
    /// Adds a value of a device of a board in the night of the change.
    pub fn after(&mut self, board: &str, device: &str, name: &str, value: &str) {
        let pair = self.numbers(name, value);
        self.after.entry((board.to_owned(), device.to_owned())).or_default().insert(pair);
    }

    /// Adds a value of a night before, of a device that was [`TwoNights::missing`] when that night began.
    pub fn before(&mut self, board: &str, device: &str, name: &str, value: &str) {
        let pair = self.numbers(name, value);
        self.before.entry((board.to_owned(), device.to_owned())).or_default().insert(pair);
    }

    fn numbers(&mut self, name: &str, value: &str) -> (u32, u32) {
        (self.texts.number(name), self.texts.number(value))
    }

    /// Devices of the night of the change without a value before.
    pub fn missing(&self) -> BTreeSet<(String, String)> {
        self.after.keys().filter(|d| !self.before.contains_key(*d)).cloned().collect()
    }

    /// Whether half of the devices of a board, or one of them, have values before: then the nights before that
    /// tell little more.
    pub fn enough(&self, board: &str, device: Option<&str>) -> bool {
        let (mut all, mut known) = (0, 0);
        for who in self.after.keys().filter(|w| is_of(w, board, device)) {
            all += 1;
            known += usize::from(self.before.contains_key(who));
        }
        2 * known >= all
    }

    /// What changed on all devices of a board, or on one of them.
    pub fn changes(&self, board: &str, device: Option<&str>) -> Environment {
        let mut out = Environment::default();
        let mut counts: BTreeMap<(&str, String, String), usize> = BTreeMap::new();
        for (who, after) in &self.after {
            if !is_of(who, board, device) {
                continue;
            }
            let Some(before) = self.before.get(who) else { continue };
            out.compared += 1;
            for (name, before, after) in self.changes_of(before, after) {
                *counts.entry((name, before, after)).or_default() += 1;
            }
        }
        let property = |((name, before, after), devices): ((&str, String, String), usize)| {
            Property { name: name.to_owned(), before, after, devices }
        };
        out.changes = counts.into_iter().map(property).collect();
        out.changes.sort_by_key(|c| std::cmp::Reverse(c.devices));
        out.more = out.changes.len().saturating_sub(LISTED);
        out.changes.truncate(LISTED);
        out
    }

    fn changes_of<'a>(
        &'a self,
        before: &'a Values,
        after: &'a Values,
    ) -> impl Iterator<Item = (&'a str, String, String)> {
        let known = |all: &Values| all.iter().any(|v| self.texts.text(v.0).starts_with(PACKAGE));
        let packages_known = known(before) && known(after);
        let names: BTreeSet<u32> = before.iter().chain(after).map(|v| v.0).collect();
        names.into_iter().filter_map(move |name| {
            let of = |all: &'a Values| {
                all.range((name, 0)..=(name, u32::MAX)).map(|v| v.1).collect::<BTreeSet<_>>()
            };
            let (old, new) = (of(before), of(after));
            let text = self.texts.text(name);
            let unknown = old.is_empty() || new.is_empty();
            if !old.is_disjoint(&new) || unknown && !(packages_known && text.starts_with(PACKAGE)) {
                return None;
            }
            let words = |all: BTreeSet<u32>| {
                let mut all: Vec<&str> = all.into_iter().map(|v| self.texts.text(v)).collect();
                all.sort_unstable();
                let all = all.join(", ");
                match all.char_indices().nth(SHOWN) {
                    Some((at, _)) => [&all[..at], "…"].concat(),
                    None => all,
                }
            };
            Some((text, words(old), words(new)))
        })
    }
}

fn is_of(who: &(String, String), board: &str, device: Option<&str>) -> bool {
    who.0 == board && device.is_none_or(|d| d == who.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_nights(before: &[(&str, &str, &str)], after: &[(&str, &str, &str)]) -> TwoNights {
        let mut nights = TwoNights::default();
        after.iter().for_each(|(device, name, value)| nights.after("b", device, name, value));
        before.iter().for_each(|(device, name, value)| nights.before("b", device, name, value));
        nights
    }

    fn shown(of: &Environment) -> Vec<String> {
        let one = |p: &Property| format!("{} {} > {} ({})", p.name, p.before, p.after, p.devices);
        of.changes.iter().map(one).collect()
    }

    #[test]
    fn packages_and_settings_that_changed_are_listed_by_devices() {
        let nights = two_nights(
            &[
                ("x", "package.libc6", "1"),
                ("x", "package.irqbalance", "1.9"),
                ("x", "thp", "never"),
                ("y", "package.libc6", "1"),
                ("y", "thp", "never"),
                ("z", "thp", "never"),
            ],
            &[
                ("x", "package.libc6", "2"),
                ("x", "thp", "never"),
                ("y", "package.libc6", "2"),
                ("y", "thp", "always"),
                ("y", "firmware", "known from now on"),
                ("new", "thp", "always"),
            ],
        );
        assert_eq!(nights.missing().len(), 1);
        assert!(nights.enough("b", None) && nights.enough("b", Some("x")));
        assert!(!nights.enough("b", Some("new")));
        let all = nights.changes("b", None);
        assert_eq!((all.compared, all.more), (2, 0));
        assert_eq!(
            shown(&all),
            ["package.libc6 1 > 2 (2)", "package.irqbalance 1.9 >  (1)", "thp never > always (1)"]
        );
        assert_eq!(shown(&nights.changes("b", Some("x"))).len(), 2);
        assert_eq!(nights.changes("other", None), Environment::default());
    }

    #[test]
    fn a_setting_that_experiments_change_is_no_change() {
        let nights = two_nights(
            &[
                ("x", "cpu.governor.policy0", "performance"),
                ("x", "cpu.governor.policy0", "ondemand"),
            ],
            &[("x", "cpu.governor.policy0", "ondemand"), ("x", "package.a", "1")],
        );
        let all = nights.changes("b", None);
        // Without packages before, nothing is known of them.
        assert_eq!((all.compared, shown(&all)), (1, vec![]));
    }

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let mut nights = TwoNights::default();
        for i in 0..40 {
            nights.after("b", "x", &format!("p{i:02}"), "2");
            nights.before("b", "x", &format!("p{i:02}"), "1");
        }
        let all = nights.changes("b", None);
        assert_eq!((all.changes.len(), all.more), (LISTED, 10));
        let long = ["x".repeat(199), "ä".repeat(5_000)].concat();
        let nights = two_nights(&[("x", "p", "y")], &[("x", "p", &long)]);
        let after = &nights.changes("b", None).changes[0].after;
        assert!(after.ends_with("xä…") && after.chars().count() == 201, "{after}");
    }
}
