//! A page of words that a measuring process shares with the peers it forks.

use super::{Calling, ProbeError};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::sync::atomic::AtomicU32;

const PAGE: usize = 4096;

/// 64 bytes, so that two words do not share a cache line.
#[repr(align(64))]
#[derive(Debug, Default)]
pub struct Line {
    /// The word.
    pub word: AtomicU32,
    /// Another one beside it.
    pub second: AtomicU32,
}

/// The page: 64 lines, zero at the start.
#[derive(Debug)]
pub struct SharedPage(*mut Line);

impl SharedPage {
    /// Maps one.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new() -> Result<Self, ProbeError> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let page = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                PAGE,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        };
        Ok(Self(page.calling("mmap")?.cast()))
    }

    /// Line `i` of 64.
    pub fn line(&self, i: usize) -> &Line {
        assert!(i < PAGE / size_of::<Line>());
        // SAFETY: the mapping is a page, zeroed by the kernel (a valid `Line`), aligned, alive
        // as long as `self`, and only ever used through atomics.
        unsafe { &*self.0.add(i) }
    }

    /// The page as bytes that the C library may use (a `sem_t`), at line `i`.
    pub(crate) fn raw(&self, i: usize) -> *mut libc::c_void {
        std::ptr::from_ref(self.line(i)).cast_mut().cast()
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; nothing borrows from it any more.
        let _ = unsafe { munmap(self.0.cast(), PAGE) };
    }
}
