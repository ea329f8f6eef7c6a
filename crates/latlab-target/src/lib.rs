//! Where a command runs: here, on a board over SSH, or in a virtual machine.

#![forbid(unsafe_code)]
