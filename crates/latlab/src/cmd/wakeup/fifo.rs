//! The named pipe of `--fifo`: each reader gets the figures so far, in cyclictest's lines.

use crate::outcome::HintExt;
use anyhow::{Context, anyhow};
use latlab_sys::fifo;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A pipe that this process made; it is removed at the end.
pub struct Fifo {
    path: PathBuf,
}

impl Fifo {
    /// Makes it; a pipe of this name is replaced, as cyclictest does.
    ///
    /// # Errors
    /// When there is a file that is no pipe, or none can be made.
    pub fn make(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_fifo() => {
                std::fs::remove_file(path).with_context(|| format!("-F {name}"))?;
            }
            Ok(_) => {
                return Err(anyhow!("-F {name}: a file, not a pipe"))
                    .hint("name a path that does not exist; it is removed at the end");
            }
            Err(_) => {}
        }
        fifo::make(path)
            .with_context(|| format!("-F {name}: the pipe cannot be created"))
            .hint("name a path in a directory that this user may write to")?;
        Ok(Self { path: path.to_owned() })
    }

    /// Gives the figures to whoever reads. One who leaves early misses the rest.
    pub fn serve(&self, figures: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) {
        let Ok(mut reader) = fifo::writer(&self.path) else { return };
        let mut text = Vec::new();
        // Writing into memory cannot fail, and a reader that has left is no error.
        let _ = figures(&mut text).and_then(|()| reader.write_all(&text));
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;

    #[test]
    fn a_reader_gets_the_figures_and_the_pipe_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let fifo = Fifo::make(&path).unwrap();
        fifo.serve(|_| panic!("nobody reads"));
        let reading = path.clone();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            File::open(reading).unwrap().read_to_string(&mut text).unwrap();
            text
        });
        while !reader.is_finished() {
            fifo.serve(|out| out.write_all(b"figures"));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(reader.join().unwrap().starts_with("figures"));
        drop(fifo);
        assert!(!path.exists());
        std::fs::write(&path, "mine").unwrap();
        assert!(Fifo::make(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }
}
