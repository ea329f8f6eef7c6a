//! The machine description.

use latlab_core::machine::{Condition, Machine};

/// `uname -n`; `localhost` where it is empty.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// Everything that this machine says of itself.
pub fn read() -> Machine {
    Machine { host: host_name(), ..Machine::default() }
}

/// What is going on right now.
pub fn condition() -> Condition {
    Condition::default()
}
