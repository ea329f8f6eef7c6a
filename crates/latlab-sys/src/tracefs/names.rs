//! Names: globs, and the nearest ones to a name that does not exist.

/// Whether `name` matches `pattern`, in which `*` stands for any text and `?` for one character.
pub fn glob(pattern: &str, name: &str) -> bool {
    let (p, n): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut i, mut j) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while j < n.len() {
        match p.get(i) {
            Some('*') => {
                star = Some((i, j));
                i += 1;
            }
            Some(&c) if c == '?' || Some(&c) == n.get(j) => {
                i += 1;
                j += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    i = at + 1;
                    j = from + 1;
                }
                None => return false,
            },
        }
    }
    p[i..].iter().all(|&c| c == '*')
}

/// Up to three of `names` that the user may have meant, the best first.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let limit = (wanted.len() / 3).max(2);
    let mut scored: Vec<(usize, &str)> = names
        .filter_map(|name| {
            let distance = strsim::damerau_levenshtein(wanted, name);
            if distance <= limit {
                Some((distance, name))
            } else if wanted.len() >= 4 && name.contains(wanted) {
                Some((limit + name.len() - wanted.len(), name))
            } else {
                None
            }
        })
        .collect();
    scored.sort_unstable();
    scored.dedup();
    scored.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        assert!(glob("sched_*", "sched_switch"));
        assert!(glob("*wak*", "sched_wakeup_new"));
        assert!(glob("?rq", "irq"));
        assert!(glob("*", ""));
        assert!(!glob("sched", "sched_switch"));
        assert!(!glob("sched_*x", "sched_switch"));
    }

    #[test]
    fn nearest_names_come_best_first_and_never_far_ones() {
        let names = ["sched_switch", "sched_waking", "irq_handler_entry", "sched_swap_numa"];
        assert_eq!(nearest("sched_swich", names.into_iter())[0], "sched_switch");
        assert_eq!(nearest("handler", names.into_iter()), ["irq_handler_entry"]);
        assert!(nearest("zzz", names.into_iter()).is_empty());
    }
}
