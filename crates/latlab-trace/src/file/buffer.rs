//! Ring buffers of a file: their pages' layout and where each CPU's data lie.

use crate::compress::Codec;
use crate::format::Field;
use crate::{Diagnostics, Endian};

/// No machine has more; a larger number is damage.
pub(crate) const MAX_CPUS: u32 = 1 << 16;

/// How a ring-buffer page is laid out, from `header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Bytes of a page (a sub-buffer), its head included.
    pub page_size: u32,
    /// Bytes of the kernel's `long`, 4 or 8.
    pub long_size: u8,
    /// Where the word with length and flags lies.
    pub commit_at: u32,
    /// Where the records begin.
    pub data_at: u32,
}

impl PageLayout {
    /// The layout that every known kernel has.
    pub fn new(long_size: u8, page_size: u32) -> Self {
        Self { page_size, long_size, commit_at: 8, data_at: 8 + u32::from(long_size) }
    }

    /// The layout that the text of `events/header_page` tells; what it does not tell is as in
    /// a kernel of 64 bits.
    pub fn parse(header_page: &str, page_size: u32, endian: Endian) -> Self {
        let mut layout = Self::new(8, page_size);
        for field in header_page.lines().filter_map(|l| Field::parse(l, endian)) {
            match &*field.name {
                "commit" if matches!(field.size, 4 | 8) && field.offset < 64 => {
                    layout.long_size = field.size as u8;
                    layout.commit_at = field.offset;
                }
                "data" if (12..=64).contains(&field.offset) => layout.data_at = field.offset,
                _ => {}
            }
        }
        layout.data_at = layout.data_at.max(layout.commit_at + u32::from(layout.long_size));
        layout
    }
}

/// One CPU's data within the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuData {
    /// The CPU.
    pub cpu: u32,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes, already clipped to the file.
    pub size: u64,
}

/// One ring buffer: the top one or an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Name of the instance; empty for the top buffer.
    pub name: String,
    /// Its clock (`local`, `mono`, …); empty where the file does not say.
    pub clock: String,
    /// Layout of its pages.
    pub layout: PageLayout,
    /// Whether its data are compressed, and how.
    pub codec: Codec,
    /// Its CPUs.
    pub cpus: Vec<CpuData>,
}

/// Cuts a CPU's data off where the file ends, and says so.
pub(super) fn clip(mut cpu: CpuData, len: usize, diagnostics: &mut Diagnostics) -> CpuData {
    let there = (len as u64).saturating_sub(cpu.offset).min(cpu.size);
    if there < cpu.size {
        let what =
            format!("the file ends: {there} of {} bytes of this CPU's data are there", cpu.size);
        diagnostics.push(Some(cpu.cpu), cpu.offset.saturating_add(there), what);
        cpu.size = there;
    }
    cpu
}
