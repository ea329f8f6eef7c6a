//! `latlab tune --boot` with a virtual machine.
//!
//! Ignored by default as those of [`crate::vm`].

use crate::common::{latlab, said};
use crate::vm::json;

/// Settings of a machine have their value in their blocks, and in all others the one that they had, with all its digits.
#[test]
#[ignore = "boots a virtual machine"]
fn settings_of_a_machine_are_undone_after_their_block() {
    let dir = tempfile::tempdir().unwrap();
    let words = "tune --boot armv7-rt,icount=3 --try kernel.sched_rt_runtime_us=990000 --try vm.swappiness=10 \
                 --rounds 4 --block 0.2 --settle 1 --seed 1 --out run";
    let args: Vec<&str> = words.split_whitespace().collect();
    let out = latlab(dir.path(), &args);
    assert!(out.status.success(), "{}", said(&out));
    let boots = dir.path().join("run/boots");
    let mut found = 0;
    for boot in std::fs::read_dir(boots).unwrap().flatten() {
        for block in 0..3 {
            let run = json(&boot.path().join(format!("run-{block}/run.json")));
            let expected = if block == 1 { 990_000 } else { 950_000 };
            assert_eq!(run["machine"]["rt"]["runtime_us"], expected, "block {block} of {boot:?}");
            found += 1;
        }
    }
    assert_eq!(found, 12);
}
