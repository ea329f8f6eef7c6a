//! A kind of work that a worker repeats.

use std::io;

/// One kind of work, ready to be done round by round.
pub(super) trait Work {
    /// One round.
    ///
    /// # Errors
    /// When it cannot be done, or what was written was not read back.
    fn round(&mut self) -> io::Result<()>;
}

impl<F: FnMut() -> io::Result<()>> Work for F {
    fn round(&mut self) -> io::Result<()> {
        self()
    }
}
