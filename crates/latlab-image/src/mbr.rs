//! The partition table of an SD card: a master boot record.
//!
//! ```text
//! 440  disk signature, 4 bytes; Linux calls partition N SIGNATURE-0N
//! 446  4 entries of 16 bytes: active flag, first CHS, type, last CHS, first sector, sectors
//! 510  55 AA
//! ```
//! Source: the format of the IBM PC's fixed disks, as UEFI 2.10, section 5.2.1 describes it.
//! Boot ROMs read it too: the AM335x's wants an active FAT partition (its Technical Reference
//! Manual, SPRUH73, section 26.1.8.5).

/// Bytes of a sector.
pub const SECTOR: u64 = 512;
/// Partitions begin at multiples of this many sectors: 1 MiB.
pub const ALIGNMENT: u64 = 2048;
/// FAT32 with sector numbers.
pub const TYPE_FAT32: u8 = 0x0c;
/// Linux.
pub const TYPE_LINUX: u8 = 0x83;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Whether a boot ROM or U-Boot may start from it.
    pub active: bool,
    /// What it holds.
    pub kind: u8,
    /// First sector.
    pub start: u32,
    /// Number of sectors.
    pub sectors: u32,
}

/// Cylinder, head, sector as three bytes: 255 heads, 63 sectors, and the largest value where it does not fit.
fn chs(sector: u32) -> [u8; 3] {
    let (cylinder, rest) = (sector / (255 * 63), sector % (255 * 63));
    if cylinder > 1023 {
        return [0xfe, 0xff, 0xff];
    }
    let (head, sector) = (rest / 63, rest % 63 + 1);
    [head as u8, (sector as u8) | ((cylinder >> 2) & 0xc0) as u8, (cylinder & 0xff) as u8]
}

/// The first sector of a card.
pub fn write(signature: u32, partitions: &[Partition]) -> [u8; 512] {
    let mut sector = [0; 512];
    sector[440..444].copy_from_slice(&signature.to_le_bytes());
    for (entry, p) in sector[446..510].chunks_exact_mut(16).zip(partitions) {
        entry[0] = if p.active { 0x80 } else { 0 };
        entry[1..4].copy_from_slice(&chs(p.start));
        entry[4] = p.kind;
        entry[5..8].copy_from_slice(&chs(p.start.saturating_add(p.sectors).saturating_sub(1)));
        entry[8..12].copy_from_slice(&p.start.to_le_bytes());
        entry[12..16].copy_from_slice(&p.sectors.to_le_bytes());
    }
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// The partitions of a card in order; `None` where there is no such table.
pub fn read(sector: &[u8]) -> Option<(u32, Vec<Partition>)> {
    if sector.len() < 512 || sector[510..512] != [0x55, 0xaa] {
        return None;
    }
    let number = |at: usize| {
        u32::from_le_bytes([sector[at], sector[at + 1], sector[at + 2], sector[at + 3]])
    };
    let partitions = (0..4)
        .map(|i| 446 + 16 * i)
        .filter(|&at| sector[at + 4] != 0)
        .map(|at| Partition {
            active: sector[at] == 0x80,
            kind: sector[at + 4],
            start: number(at + 8),
            sectors: number(at + 12),
        })
        .collect();
    Some((number(440), partitions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let boot = Partition { active: true, kind: TYPE_FAT32, start: 2048, sectors: 131_072 };
        let root = Partition { active: false, kind: TYPE_LINUX, start: 133_120, sectors: 700_000 };
        let sector = write(0x1234_5678, &[boot, root]);
        assert_eq!(read(&sector), Some((0x1234_5678, vec![boot, root])));
        // As sfdisk writes it: sector 2048 is cylinder 0, head 32, sector 33.
        assert_eq!(sector[446..454], [0x80, 32, 33, 0, 0x0c, 73, 1, 8]);
        assert_eq!(read(&[0; 512]), None);
        assert_eq!(read(&sector[..100]), None);
    }

    #[test]
    fn beyond_eight_gigabytes_cylinders_are_full() {
        assert_eq!(chs(1024 * 255 * 63), [0xfe, 0xff, 0xff]);
        assert_eq!(chs(1023 * 255 * 63), [0, 0xc1, 0xff]);
    }
}
