//! A lock in a file that several processes map: with priority inheritance or without.
//!
//! ```text
//! 0..4   futex word     plain: 0 free, 1 held, 2 held and waited for (Drepper, "Futexes Are Tricky")
//!                       inheriting: thread id of the holder, as FUTEX_LOCK_PI wants it
//! 4..8   kind           0 plain, 1 priority inheritance (the kernel waits on an rtmutex)
//! ```
//! The virtual lab's faults `inversion` and `inversion-pi` hold it, a measured task waits for it.

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;
use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of the file.
const LEN: usize = 8;

/// A lock in a mapped file.
#[derive(Debug)]
pub struct SharedLock {
    at: NonNull<AtomicU32>,
    inheriting: bool,
}

// SAFETY: the mapping holds atomics only, and is unmapped when the last owner drops it.
unsafe impl Send for SharedLock {}
// SAFETY: as above.
unsafe impl Sync for SharedLock {}

impl SharedLock {
    /// Makes the file anew, free.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, inheriting: bool) -> io::Result<Self> {
        let mut bytes = [0; LEN];
        bytes[4..].copy_from_slice(&u32::from(inheriting).to_ne_bytes());
        std::fs::write(path, bytes)?;
        Self::open(path)
    }

    /// Maps a file that somebody made.
    ///
    /// # Errors
    /// What the system says; a file that is not 8 bytes long or is of no known kind.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() || meta.len() != LEN as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "this is not a lock of 8 bytes",
            ));
        }
        let mut lock = Self { at: map(&file)?, inheriting: false };
        lock.inheriting = match lock.word(1).load(Ordering::Relaxed) {
            0 => false,
            1 => true,
            _ => {
                let reason = "this is not a lock of a known kind";
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        };
        Ok(lock)
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        debug_assert!(index < 2);
        // SAFETY: the mapping is a page that lives as long as `self` and holds two aligned words.
        unsafe { self.at.add(index).as_ref() }
    }

    /// Takes the lock. False when a signal came first, or the holder has died.
    pub fn lock(&self, tid: u32) -> bool {
        let word = self.word(0);
        if self.inheriting {
            let free = word.compare_exchange(0, tid, Ordering::Acquire, Ordering::Relaxed);
            return free.is_ok() || futex::lock_pi(word, futex::Flags::empty(), None).is_ok();
        }
        if word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return true;
        }
        while word.swap(2, Ordering::Acquire) != 0 {
            match futex::wait(word, futex::Flags::empty(), 2, None) {
                Ok(()) | Err(Errno::AGAIN) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Gives it back; only the holder may.
    pub fn unlock(&self, tid: u32) {
        let word = self.word(0);
        if self.inheriting {
            if word.compare_exchange(tid, 0, Ordering::Release, Ordering::Relaxed).is_err() {
                let _ = futex::unlock_pi(word, futex::Flags::empty());
            }
        } else if word.swap(0, Ordering::Release) == 2 {
            let _ = futex::wake(word, futex::Flags::empty(), 1);
        }
    }
}

fn map(file: &File) -> io::Result<NonNull<AtomicU32>> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new shared mapping at an address of the kernel's choice aliases nothing of ours.
    let at = unsafe { mmap(std::ptr::null_mut(), LEN, prot, MapFlags::SHARED, file, 0)? };
    NonNull::new(at.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

impl Drop for SharedLock {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` mapped; no reference into it outlives `self`.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), LEN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn only_one_holds_it_of_either_kind() {
        let dir = tempfile::tempdir().unwrap();
        for inheriting in [false, true] {
            let path = dir.path().join("lock");
            SharedLock::create(&path, inheriting).unwrap();
            let (inside, total) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let lock = SharedLock::open(&path).unwrap();
                        let tid = crate::process::thread_id();
                        for _ in 0..2000 {
                            assert!(lock.lock(tid));
                            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                            total.fetch_add(1, Ordering::Relaxed);
                            inside.fetch_sub(1, Ordering::Relaxed);
                            lock.unlock(tid);
                        }
                    });
                }
            });
            assert_eq!(total.into_inner(), 6000);
        }
    }

    #[test]
    fn what_is_no_lock_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        for bytes in [&b"short"[..], &[0, 0, 0, 0, 9, 0, 0, 0]] {
            std::fs::write(&path, bytes).unwrap();
            assert!(SharedLock::open(&path).unwrap_err().to_string().contains("not a lock"));
        }
    }
}
