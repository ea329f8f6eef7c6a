//! Memory for arrays: mapped, touched, with the pages that were asked for.

use latlab_model::cache::detail::Pages;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;

/// Bytes of a transparent huge page on nearly every machine; the kernel's own word is asked first.
const HUGE_USUAL: usize = 2 << 20;

/// Memory of our own, all of it touched.
#[derive(Debug)]
pub struct Area {
    mapped: NonNull<u8>,
    mapped_bytes: usize,
    /// Where the usable part begins: on a huge page.
    skip: usize,
    bytes: usize,
}

// SAFETY: the mapping is private to its owner and has no thread affinity.
unsafe impl Send for Area {}

impl Area {
    /// Maps and touches `bytes`; `huge` bytes a huge page, 1 where there are none.
    ///
    /// # Errors
    /// What the system says when there is not so much.
    pub fn new(bytes: usize, pages: Pages, huge: usize) -> io::Result<Self> {
        let align = huge.max(4096);
        let mapped_bytes = bytes.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapped = map(mapped_bytes)?;
        let skip = mapped.as_ptr() as usize % align;
        let skip = if skip == 0 { 0 } else { align - skip };
        let mut area = Self { mapped, mapped_bytes, skip, bytes };
        // A kernel without huge pages refuses the advice: then its pages are ordinary anyhow.
        let _ = advise(&area, pages);
        area.words().chunks_mut(4096 / size_of::<usize>()).for_each(|page| page[0] = 1);
        Ok(area)
    }

    /// Usable bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The usable part as words.
    pub fn words(&mut self) -> &mut [usize] {
        let len = self.bytes / size_of::<usize>();
        // SAFETY: mapped, readable and writable for `skip + bytes` bytes until drop, aligned to a
        // page; any bit pattern is a usize, and `&mut self` makes the borrow the only one.
        unsafe { std::slice::from_raw_parts_mut(self.mapped.as_ptr().add(self.skip).cast(), len) }
    }
}

impl Area {
    /// Takes the right to write away and gives it back: each time every CPU that has used it must forget.
    ///
    /// # Errors
    /// What the system says.
    pub fn protect_and_back(&mut self) -> io::Result<()> {
        let (at, len) = (self.mapped.as_ptr().cast(), self.mapped_bytes);
        // SAFETY: the whole of our own mapping, which `&mut self` keeps anybody from using meanwhile.
        unsafe {
            rustix::mm::mprotect(at, len, rustix::mm::MprotectFlags::READ)?;
            let both = rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE;
            rustix::mm::mprotect(at, len, both)?;
        }
        Ok(())
    }

    /// The usable part as 32-bit integers, as the loop `a[i] *= a[i]` has them.
    pub fn ints(&mut self) -> &mut [u32] {
        let len = self.bytes / size_of::<u32>();
        // SAFETY: as in `words`: mapped, aligned, borrowed once, any bit pattern is a u32.
        unsafe { std::slice::from_raw_parts_mut(self.mapped.as_ptr().add(self.skip).cast(), len) }
    }

    /// The usable part as floating numbers of 64 bits.
    pub fn doubles(&mut self) -> &mut [f64] {
        let len = self.bytes / size_of::<f64>();
        // SAFETY: as in `words`: mapped, aligned, borrowed once, any bit pattern is an f64.
        unsafe { std::slice::from_raw_parts_mut(self.mapped.as_ptr().add(self.skip).cast(), len) }
    }
}

fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new private mapping at an address of the kernel's choice aliases nothing.
    let at = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags)? };
    NonNull::new(at.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

fn advise(area: &Area, pages: Pages) -> io::Result<()> {
    let advice = match pages {
        Pages::Base => Advice::LinuxNoHugepage,
        Pages::Huge => Advice::LinuxHugepage,
    };
    // SAFETY: the whole of our own mapping; the advice changes the size of its pages, not its bytes.
    unsafe { madvise(area.mapped.as_ptr().cast(), area.mapped_bytes, advice)? };
    Ok(())
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: what `map` mapped, once; no slice of it outlives `self`.
        let _ = unsafe { munmap(self.mapped.as_ptr().cast(), self.mapped_bytes) };
    }
}

/// Bytes of a transparent huge page; `None` where there are none to be had.
pub fn huge_page_bytes() -> Option<usize> {
    let dir = "/sys/kernel/mm/transparent_hugepage";
    let enabled = std::fs::read_to_string(format!("{dir}/enabled")).ok()?;
    if enabled.contains("[never]") {
        return None;
    }
    let bytes = std::fs::read_to_string(format!("{dir}/hpage_pmd_size")).ok();
    Some(bytes.and_then(|b| b.trim().parse().ok()).unwrap_or(HUGE_USUAL))
}

/// Bytes of this process that lie in transparent huge pages now; `None` where the kernel does not say.
pub fn huge_bytes_in_use() -> Option<u64> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = rollup.lines().find_map(|l| l.strip_prefix("AnonHugePages:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_as_large_as_was_asked_and_begins_on_a_huge_page() {
        let mut area = Area::new(3 << 20, Pages::Base, HUGE_USUAL).unwrap();
        assert_eq!((area.bytes(), area.words().len()), (3 << 20, (3 << 20) / size_of::<usize>()));
        assert_eq!(area.words().as_ptr() as usize % HUGE_USUAL, 0);
        area.words()[(3 << 20) / size_of::<usize>() - 1] = 7;
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(Area::new(usize::MAX / 2, Pages::Base, 1).is_err());
        assert!(Area::new(usize::MAX, Pages::Base, 1).is_err());
    }
}
