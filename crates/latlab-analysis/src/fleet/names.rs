//! Names by their numbers, which are given in the order in which names come.

use std::collections::BTreeMap;

/// Names with their numbers.
#[derive(Debug)]
pub(super) struct Names<T>(BTreeMap<T, usize>);

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord> Names<T> {
    /// The number of a name, the next one for a new name.
    pub fn number(&mut self, name: T) -> usize {
        let next = self.0.len();
        *self.0.entry(name).or_insert(next)
    }

    /// The number of a name that is there.
    pub fn known(&self, name: &T) -> Option<usize> {
        self.0.get(name).copied()
    }

    /// For each number the place of its name in the order of names, and the names in that order.
    pub fn sorted(self) -> (Vec<usize>, Vec<T>) {
        let mut places = vec![0; self.0.len()];
        self.0.values().enumerate().for_each(|(place, number)| places[*number] = place);
        (places, self.0.into_keys().collect())
    }
}
