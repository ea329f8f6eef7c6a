//! Whether the journal is in a `/run` that no latlab outside of this container sees.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Inode of the first PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// What is known of this process's place.
#[derive(Clone, Copy, Debug)]
struct Namespaces<'a> {
    /// Target of `/proc/self/ns/pid`.
    pid: Option<&'a str>,
    /// Whether process 1 has the same `/run`; `None` where it may not be seen.
    same_run: Option<bool>,
    /// Mount points of this process.
    mountinfo: &'a str,
}

impl Namespaces<'_> {
    /// A container whose creator did not mount the journal's directory into it.
    fn has_private_run(self, journal: &Path) -> bool {
        let in_container = self.pid.is_some_and(|pid| pid != FIRST_PID_NAMESPACE);
        let mounted =
            |line: &str| line.split(' ').nth(4).is_some_and(|point| Path::new(point) == journal);
        (in_container || self.same_run == Some(false)) && !self.mountinfo.lines().any(mounted)
    }
}

/// Whether `journal`, a directory on `/run`, is seen by this container alone.
pub(super) fn has_private_run(journal: &Path) -> bool {
    let place = |path: &str| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let pid = fs::read_link("/proc/self/ns/pid").ok();
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let namespaces = Namespaces {
        pid: pid.as_deref().and_then(Path::to_str),
        same_run: place("/proc/1/root/run").zip(place("/run")).map(|(theirs, ours)| theirs == ours),
        mountinfo: &mountinfo,
    };
    journal.starts_with("/run") && namespaces.has_private_run(journal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_a_run_of_its_own_unless_the_journal_is_mounted_into_it() {
        let host = Namespaces {
            pid: Some(FIRST_PID_NAMESPACE),
            same_run: Some(true),
            mountinfo: "25 1 0:23 / /run rw - tmpfs tmpfs rw\n",
        };
        let journal = Path::new("/run/latlab");
        assert!(!host.has_private_run(journal));
        assert!(!Namespaces { pid: None, same_run: None, ..host }.has_private_run(journal));
        let container = Namespaces { pid: Some("pid:[4026532201]"), ..host };
        assert!(container.has_private_run(journal));
        // --pid=host, or a service with a mount namespace of its own.
        assert!(Namespaces { same_run: Some(false), ..host }.has_private_run(journal));
        let shared = "90 80 0:23 /latlab /run/latlab rw - tmpfs tmpfs rw\n";
        assert!(!Namespaces { mountinfo: shared, ..container }.has_private_run(journal));
    }
}
