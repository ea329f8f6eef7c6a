//! What the end of a wait tells.

/// What a wait brings besides its end; zero where the mechanism does not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Brought {
    /// Number of the call.
    pub number: u64,
    /// When the call began, ns of CLOCK_MONOTONIC.
    pub sent_ns: u64,
    /// When the kernel saw what ends the wait, ns of CLOCK_MONOTONIC.
    pub stamp_ns: u64,
}
