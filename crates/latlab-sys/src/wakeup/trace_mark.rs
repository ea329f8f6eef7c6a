//! `--tracemark`: when the break value is exceeded, a line in the trace and an end of tracing.
//!
//! This is the user's own tracing at the top level, which they started (`trace-cmd start`,
//! `echo function > current_tracer`) and asked to have stopped; both files are opened before
//! the measurement, and written as cyclictest writes them, so that its scripts find the line.

use super::WakeupError;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Two open files of tracefs.
pub struct TraceMark {
    marker: File,
    tracing_on: File,
}

impl TraceMark {
    /// Opens `trace_marker` and `tracing_on` of the top-level buffer.
    ///
    /// # Errors
    /// When tracefs is not mounted or not writable.
    pub fn open() -> Result<Self, WakeupError> {
        let roots = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        let root = roots.iter().find(|r| Path::new(r).join("trace_marker").exists());
        Self::open_in(Path::new(root.unwrap_or(&roots[0])))
    }

    fn open_in(root: &Path) -> Result<Self, WakeupError> {
        let open = |name: &str| {
            let path = root.join(name);
            OpenOptions::new()
                .write(true)
                .open(&path)
                .map_err(|source| WakeupError::File { path: path.display().to_string(), source })
        };
        Ok(Self { marker: open("trace_marker")?, tracing_on: open("tracing_on")? })
    }

    /// Writes the line and stops tracing. Does not allocate.
    pub fn stop(&self, latency_ns: u64, limit_ns: u64) {
        let mut line = [0u8; 96];
        let mut rest = &mut line[..];
        let (latency, limit) = (latency_ns / 1_000, limit_ns / 1_000);
        let _ = writeln!(rest, "hit latency threshold ({latency} > {limit})");
        let used = 96 - rest.len();
        let _ = (&self.marker).write_all(&line[..used]);
        let _ = (&self.tracing_on).write_all(b"0\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_written_before_tracing_stops() {
        let dir = std::env::temp_dir().join(format!("latlab-mark-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for name in ["trace_marker", "tracing_on"] {
            std::fs::write(dir.join(name), "").unwrap();
        }
        TraceMark::open_in(&dir).unwrap().stop(123_456, 100_000);
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
        assert_eq!(read("trace_marker"), "hit latency threshold (123 > 100)\n");
        assert_eq!(read("tracing_on"), "0\n");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn without_tracefs_the_file_is_named() {
        let error = TraceMark::open_in(Path::new("/nowhere")).err().unwrap();
        assert!(error.to_string().starts_with("/nowhere/trace_marker: "), "{error}");
        assert!(error.hint().is_some());
    }
}
