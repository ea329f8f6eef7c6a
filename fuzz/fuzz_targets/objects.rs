//! Any bytes as an executable of a program whose stacks are unwound: mappings, unwind tables, functions and lines.
//!
//! The first bytes are registers and a stack, the others the file, mapped at a fixed address.
#![no_main]

#[path = "../../crates/latlab/src/cmd/why/user_stacks/objects.rs"]
mod objects;
#[path = "../../crates/latlab/src/cmd/why/user_stacks/unwind.rs"]
mod unwind;

#[path = "../../crates/latlab/src/cmd/why/debug_info.rs"]
#[expect(dead_code, reason = "functions are looked up by address, not by name")]
mod debug_info;

/// As in the program.
mod cmd {
    pub mod why {
        pub(crate) use crate::debug_info;
    }
}

/// As in the program.
mod trace_input {
    pub fn memory() -> u64 {
        latlab_fuzz::MEMORY
    }
}

use latlab_fuzz::outcome;
use latlab_sys::user_stacks::{Registers, Sample};
use libfuzzer_sys::fuzz_target;
use objects::ObjectFile;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Where the file and the stack lie.
const CODE: u64 = 0x5555_5555_0000;
const STACK: u64 = 0x7ffd_0000_0000;
/// Bytes of registers and stack.
const HEAD: usize = 128;

fn path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let name = || std::env::temp_dir().join(format!("latlab-fuzz-{}.elf", std::process::id()));
    PATH.get_or_init(name)
}

fuzz_target!(|data: &[u8]| {
    let Some((head, file)) = data.split_at_checked(HEAD) else { return };
    fs::write(path(), file).expect("temporary file");
    let Some(object) = ObjectFile::open(path(), "fuzzed") else { return };
    let word = |k: usize| u64::from_ne_bytes(head[8 * k..8 * k + 8].try_into().expect("8 bytes"));
    let offset = word(0) % file.len() as u64;
    let bias = object.address_of(offset & !0xfff).map_or(CODE, |a| CODE.wrapping_sub(a));
    let end = CODE + file.len() as u64;
    let mut unwinder = unwind::Unwinder::default();
    unwinder.add("fuzzed", (CODE, end, bias), object.unwind_sections());
    let registers = Registers {
        ip: CODE.wrapping_add(offset),
        sp: STACK,
        fp: STACK.wrapping_add(word(1) % 256),
        lr: word(2),
    };
    // Words of the stack that point into the file are return addresses.
    let stack: Vec<u8> = (3..HEAD / 8)
        .map(|k| if word(k) % 2 == 0 { word(k) } else { CODE + word(k) % file.len() as u64 })
        .flat_map(u64::to_ne_bytes)
        .collect();
    let found = unwinder.unwind(&Sample { at_ns: 0, registers, stack: &stack });
    let addresses: Vec<u64> = found.iter().map(|a| a.wrapping_sub(bias)).collect();
    assert_eq!(object.functions(&addresses).len(), addresses.len());
});
