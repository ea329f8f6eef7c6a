//! The kernel's limit on the latency of idle states.

use std::fs;
use std::io::{self, Write};

/// A promise of the kernel that no CPU enters an idle state that takes longer than this to leave
/// (`/dev/cpu_dma_latency`, Documentation/power/pm_qos_interface.rst). It lasts as long as the
/// file is open, so it ends with the process, however that ends. It changes what is measured: say it.
#[derive(Debug)]
pub struct DmaLatency {
    _open: fs::File,
}

impl DmaLatency {
    /// Asks for at most `us` microseconds.
    ///
    /// # Errors
    /// When the kernel has no such file or this user may not write to it.
    pub fn hold(us: u32) -> io::Result<Self> {
        let mut file = fs::OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
        file.write_all(&us.to_ne_bytes())?;
        Ok(Self { _open: file })
    }
}
