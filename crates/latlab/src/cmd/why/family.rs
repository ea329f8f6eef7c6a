//! A process that was started for this, with all that it started: their end.
//!
//! A process is its id and its start: an id may be used again, and nothing else is signalled.

use latlab_sys::process::{self, Stat};
use std::collections::BTreeMap;
use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

/// Between the request to end and its enforcement.
const GRACE: Duration = Duration::from_secs(2);
/// Between two looks whether all have ended.
const LOOK: Duration = Duration::from_millis(10);
const TERM: u8 = 15;
const KILL: u8 = 9;

/// The processes that descend from one, itself first, each with its start.
#[derive(Debug, Default)]
struct Family {
    members: Vec<(u32, u64)>,
}

/// Ends a child and the processes that descend from it: they are asked, and killed if they do not end soon.
pub(super) fn end(child: &mut Child) {
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    let mut family = Family::default();
    family.add(child.id());
    family.signal(TERM);
    let asked = Instant::now();
    // The child has its id until it is waited for, and with it the processes below it have a parent.
    let is_there = |child: &mut Child| matches!(child.try_wait(), Ok(None));
    while asked.elapsed() < GRACE && (is_there(child) | family.is_there()) {
        std::thread::sleep(LOOK);
    }
    if is_there(child) {
        // With those that were started meanwhile.
        family.add(child.id());
    }
    family.signal(KILL);
    let _ = child.wait();
}

impl Family {
    /// Adds a child of ours that was not waited for, and those that descend from it.
    fn add(&mut self, first: u32) {
        let all = all();
        let Some(stat) = all.get(&first).filter(|s| s.parent == std::process::id()) else { return };
        let mut next = vec![(first, stat.start)];
        while let Some(member) = next.pop() {
            // One that began before its parent has another one by now.
            let is_own = |stat: &Stat| stat.parent == member.0 && stat.start >= member.1;
            let own = all.iter().filter(|(_, stat)| is_own(stat));
            next.extend(own.map(|(pid, stat)| (*pid, stat.start)));
            if !self.members.contains(&member) {
                self.members.push(member);
            }
        }
    }

    /// Whether one of them is there.
    fn is_there(&self) -> bool {
        self.members.iter().any(|member| is_same(*member))
    }

    fn signal(&self, signal: u8) {
        for member in self.members.iter().filter(|member| is_same(**member)) {
            // It may have ended just now.
            let _ = process::send(member.0, signal);
        }
    }
}

/// Whether the process is there, and the same one.
fn is_same((pid, start): (u32, u64)) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.start == start && !stat.is_zombie)
}

fn all() -> BTreeMap<u32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, Stat::of(pid)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    /// A shell that waits for what it started in the background, which may ignore the request to end.
    #[test]
    fn what_a_child_started_ends_with_it() {
        for trap in ["", "trap '' TERM; "] {
            let script = format!("( ( {trap}echo; exec sleep 600 ) & wait ) & echo; wait");
            let mut shell = Command::new("sh");
            shell.args(["-c", &script]).stdout(Stdio::piped());
            let mut child = shell.spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap());
            (0..2).for_each(|_| assert!(lines.read_line(&mut String::new()).unwrap() > 0));
            let mut family = Family::default();
            family.add(child.id());
            assert!(family.members.len() >= 3, "{family:?}");
            end(&mut child);
            let asked = Instant::now();
            while family.is_there() {
                assert!(asked.elapsed() < 5 * GRACE, "{family:?}");
                std::thread::sleep(LOOK);
            }
        }
    }

    #[test]
    fn another_process_with_the_same_id_is_left_alone() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let (pid, start) = (child.id(), Stat::of(child.id()).unwrap().start);
        let other = Family { members: vec![(pid, start + 1)] };
        other.signal(KILL);
        std::thread::sleep(LOOK);
        assert!(matches!(child.try_wait(), Ok(None)) && !other.is_there());
        // Nor is one that is no child of ours.
        let mut family = Family::default();
        family.add(1);
        assert!(family.members.is_empty());
        end(&mut child);
        assert!(child.try_wait().unwrap().is_some());
    }
}
