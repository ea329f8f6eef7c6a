//! Looks at a finished image as a boot ROM and U-Boot would.
//!
//! What the AM335x's ROM wants (Technical Reference Manual SPRUH73, section
//! 26.1.8.5, "MMC / SD cards"): a master boot record with an active partition of
//! a FAT type, a FAT boot sector that describes it, `MLO` in its root folder,
//! and in MLO the configuration header's table of contents, whose first entry is
//! named `CHSETTINGS`, then the GP header: size and load address in the chip's
//! public RAM. MLO is first and in one piece, as every guide demands for ROMs
//! that cannot follow a chain.

use super::board::BootRom;
use super::mbr::{self, SECTOR};

/// One demand, and whether it is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is demanded.
    pub demand: String,
    /// What was found.
    pub found: String,
    /// Whether it is met.
    pub met: bool,
}

/// The AM335x's public RAM that a loader may take: SPRUH73, table 26-1 (GP device), 109 KiB.
const RAM_START: u32 = 0x402F_0400;
const RAM_BYTES: u32 = 109 << 10;
const FAT_TYPES: [u8; 7] = [0x01, 0x04, 0x05, 0x06, 0x0b, 0x0c, 0x0e];

/// Checks an image's beginning: the boot sector and the boot partition have to be in it.
pub fn check(image: &[u8], rom: Option<BootRom>) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut demand = |demand: &str, met: bool, found: String| {
        checks.push(Check { demand: demand.into(), found, met });
        met
    };
    let Some((signature, partitions)) = mbr::read(image) else {
        demand("a master boot record", false, "no 55 AA at byte 510".into());
        return checks;
    };
    demand("a master boot record", true, format!("signature {signature:08x}"));
    let active: Vec<_> = partitions.iter().filter(|p| p.active).collect();
    demand("one active partition", active.len() == 1, format!("{} are active", active.len()));
    let Some(boot) = partitions.first() else { return checks };
    let start = (u64::from(boot.start) * SECTOR) as usize;
    let end = start.saturating_add((u64::from(boot.sectors) * SECTOR) as usize);
    demand("the first partition is active", boot.active, format!("{}", boot.active));
    let fat = FAT_TYPES.contains(&boot.kind);
    demand("it is of a FAT type", fat, format!("type {:#04x}", boot.kind));
    let overlap = partitions
        .windows(2)
        .any(|p| u64::from(p[0].start) + u64::from(p[0].sectors) > u64::from(p[1].start));
    demand("partitions do not overlap", !overlap, format!("{} partitions", partitions.len()));
    let Some(partition) = image.get(start..end) else {
        demand("the boot partition lies in the image", false, format!("it ends at byte {end}"));
        return checks;
    };
    let Some(volume) = Volume::read(partition) else {
        demand("a FAT boot sector", false, "its numbers make no file system".into());
        return checks;
    };
    let sectors_agree = volume.sectors == boot.sectors;
    let found = format!("{} of {} sectors", volume.sectors, boot.sectors);
    demand("the FAT is as large as its partition", sectors_agree, found);
    if rom == Some(BootRom::Am335x) {
        loader(partition, &volume, &mut demand);
    }
    checks
}

/// MLO, as the ROM of the AM335x reads it.
fn loader(partition: &[u8], volume: &Volume, demand: &mut impl FnMut(&str, bool, String) -> bool) {
    let first = volume.root_entries(partition).into_iter().next();
    let Some(mlo) = first.filter(|e| e.name == *b"MLO        ") else {
        demand("MLO is the first file", false, "it is not".into());
        return;
    };
    demand("MLO is the first file", true, format!("{} bytes", mlo.bytes));
    let clusters = mlo.bytes.div_ceil(volume.cluster_bytes);
    let whole = (0..clusters.saturating_sub(1))
        .all(|i| volume.next(partition, mlo.cluster + i) == mlo.cluster + i + 1);
    demand("MLO is in one piece", whole, format!("{clusters} clusters from {}", mlo.cluster));
    let at = volume.cluster_offset(mlo.cluster);
    let data = partition.get(at..at + mlo.bytes as usize).unwrap_or_default();
    let table = data.get(..512).unwrap_or_default();
    let settings = table.get(20..30) == Some(b"CHSETTINGS");
    let name = String::from_utf8_lossy(table.get(20..30).unwrap_or_default()).into_owned();
    demand("MLO has a table of contents", settings, format!("its first entry is {name:?}"));
    let word = |at: usize| {
        let bytes = data.get(at..at + 4).and_then(|b| b.try_into().ok());
        u32::from_le_bytes(bytes.unwrap_or_default())
    };
    // The configuration header takes the first 512 bytes; the GP header follows.
    let (size, address) = (word(512), word(516));
    let fits = size > 0 && size <= RAM_BYTES && size <= mlo.bytes;
    demand("the GP header's size fits the chip's RAM", fits, format!("{size} bytes"));
    let right = address == RAM_START;
    demand("the GP header's address is the chip's RAM", right, format!("{address:#010x}"));
}

/// The numbers of a FAT32 boot sector (BIOS parameter block).
struct Volume {
    cluster_bytes: u32,
    sectors: u32,
    fat_offset: usize,
    data_offset: usize,
    root: u32,
}

/// A file in a folder, by its short name.
struct Entry {
    name: [u8; 11],
    cluster: u32,
    bytes: u32,
}

impl Volume {
    fn read(partition: &[u8]) -> Option<Self> {
        let sector = partition.get(..512)?;
        let short = |at: usize| u32::from(u16::from_le_bytes([sector[at], sector[at + 1]]));
        let long = |at: usize| short(at) | short(at + 2) << 16;
        let (bytes, cluster, reserved, fats) =
            (short(11), u32::from(sector[13]), short(14), u32::from(sector[16]));
        if sector[510..] != [0x55, 0xaa] || bytes != 512 || cluster == 0 || fats == 0 {
            return None;
        }
        let tables = fats.checked_mul(long(36))?.checked_add(reserved)?;
        Some(Self {
            cluster_bytes: cluster * 512,
            sectors: long(32),
            fat_offset: reserved as usize * 512,
            data_offset: tables as usize * 512,
            root: long(44),
        })
    }

    fn cluster_offset(&self, cluster: u32) -> usize {
        self.data_offset + cluster.saturating_sub(2) as usize * self.cluster_bytes as usize
    }

    fn next(&self, partition: &[u8], cluster: u32) -> u32 {
        let at = self.fat_offset + cluster as usize * 4;
        let bytes = partition.get(at..at + 4).and_then(|b| b.try_into().ok());
        u32::from_le_bytes(bytes.unwrap_or_default()) & 0x0fff_ffff
    }

    /// Files of the root folder's first cluster, in order: volume labels and long names passed over.
    fn root_entries(&self, partition: &[u8]) -> Vec<Entry> {
        let at = self.cluster_offset(self.root);
        let folder = partition.get(at..at + self.cluster_bytes as usize).unwrap_or_default();
        let entries = folder.chunks_exact(32).take_while(|e| e[0] != 0);
        entries
            .filter(|e| e[0] != 0xe5 && e[11] & 0x08 == 0)
            .map(|e| {
                let half = |at: usize| u32::from(u16::from_le_bytes([e[at], e[at + 1]]));
                let mut name = [0; 11];
                name.copy_from_slice(&e[..11]);
                Entry { name, cluster: half(20) << 16 | half(26), bytes: half(28) | half(30) << 16 }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fat;
    use crate::fat::BootEntry;
    use crate::mbr::{Partition, TYPE_FAT32};

    /// An MLO as mkimage makes it for this chip: table of contents, GP header, code.
    fn mlo() -> Vec<u8> {
        let mut data = vec![0; 512];
        data[..4].copy_from_slice(&0x40u32.to_le_bytes());
        data[20..30].copy_from_slice(b"CHSETTINGS");
        data.extend(100_000u32.to_le_bytes());
        data.extend(RAM_START.to_le_bytes());
        data.resize(512 + 100_000, 1);
        data
    }

    fn image(files: &[(&str, Vec<u8>)], active: bool, kind: u8) -> Vec<u8> {
        let files: Vec<BootEntry> = files
            .iter()
            .map(|(to, data)| BootEntry { to: (*to).into(), data: data.clone() })
            .collect();
        let boot = Partition { active, kind, start: 2048, sectors: 40 << 11 };
        let mut image = mbr::write(1, &[boot]).to_vec();
        image.resize(2048 * 512, 0);
        image.extend(fat::make(40, "BOOT", 1, &files).unwrap());
        image
    }

    fn unmet(image: &[u8]) -> Vec<String> {
        let checks = check(image, Some(BootRom::Am335x));
        checks.into_iter().filter(|c| !c.met).map(|c| c.demand).collect()
    }

    #[test]
    fn each_demand_of_the_boot_rom_is_looked_at() {
        let right = [("MLO", mlo()), ("u-boot.img", vec![2; 9000])];
        assert_eq!(unmet(&image(&right, true, TYPE_FAT32)), Vec::<String>::new());
        assert_eq!(
            unmet(&image(&right, false, TYPE_FAT32)),
            ["one active partition", "the first partition is active"]
        );
        assert_eq!(unmet(&image(&right, true, 0x83)), ["it is of a FAT type"]);
        let late = [("u-boot.img", vec![2; 9000]), ("MLO", mlo())];
        assert_eq!(unmet(&image(&late, true, TYPE_FAT32)), ["MLO is the first file"]);
        let mut elsewhere = mlo();
        elsewhere[516..520].copy_from_slice(&0x8000_0000u32.to_le_bytes());
        assert_eq!(
            unmet(&image(&[("MLO", elsewhere)], true, TYPE_FAT32)),
            ["the GP header's address is the chip's RAM"]
        );
        assert_eq!(
            unmet(&image(&[("MLO", vec![0; 600])], true, TYPE_FAT32)).len(),
            3,
            "no table, no size, no address"
        );
    }

    #[test]
    fn a_broken_chain_and_broken_bytes_are_told() {
        let mut broken = image(&[("MLO", mlo())], true, TYPE_FAT32);
        let volume = Volume::read(&broken[1 << 20..]).unwrap();
        let cluster = volume.root_entries(&broken[1 << 20..])[0].cluster;
        let at = (1 << 20) + volume.fat_offset + (cluster as usize + 5) * 4;
        broken[at] ^= 0x40;
        assert_eq!(unmet(&broken), ["MLO is in one piece"]);
        assert_eq!(unmet(&[0; 512]), ["a master boot record"]);
        assert_eq!(unmet(&broken[..2 << 20]), ["the boot partition lies in the image"]);
        let mut no_fat = image(&[], true, TYPE_FAT32);
        no_fat[(1 << 20) + 13] = 0;
        assert_eq!(unmet(&no_fat), ["a FAT boot sector"]);
    }
}
