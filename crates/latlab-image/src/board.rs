//! Boards as data: what is on the boot partition, in which order, and what the kernel needs.
//!
//! A board is a small TOML file; ours are compiled in, a user's is named by its path.

use latlab_target::{Arch, Result, TargetError};
use serde::Deserialize;
use std::path::Path;

/// A board.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// What the user types, and the machine's host name.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Processor architecture: `armv7`, `aarch64`.
    #[serde(deserialize_with = "arch")]
    pub arch: Arch,
    /// Serial console in the kernel's words.
    pub console: String,
    /// More words for the kernel's command line.
    #[serde(default)]
    pub append: String,
    /// Kernel modules that the initial RAM disk loads; those that a kernel has built in or lacks are passed over.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Kernel modules of its network, which the RAM disk loads beside those when it boots from there.
    #[serde(default)]
    pub network_modules: Vec<String>,
    /// Folders below `kernel/` of the modules that the root file system does without.
    #[serde(default)]
    pub leave_out: Vec<String>,
    /// Device trees of the kernel's package that go beside the kernel; `*` stands for any text.
    #[serde(default)]
    pub device_trees: Vec<String>,
    /// Options of a kernel that is built from source, as lines of its configuration.
    #[serde(default)]
    pub kernel_options: Vec<String>,
    /// More packages for the root file system.
    #[serde(default)]
    pub packages: Vec<String>,
    /// The boot ROM whose demands the image is checked against: `am335x`, or none.
    pub boot_rom: Option<BootRom>,
    /// How its U-Boot is built from source.
    pub u_boot: Option<UBoot>,
    /// The boot partition.
    pub boot: Boot,
}

/// U-Boot from Debian's source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UBoot {
    /// Debian's package of it, whose files are built instead.
    pub package: String,
    /// Its configuration: a file in `configs/`.
    pub config: String,
}

/// Boot ROMs whose demands we know.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum BootRom {
    /// TI AM335x (SPRUH73).
    Am335x,
}

/// The boot partition, and bytes outside of any.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// Its size.
    pub mib: u32,
    /// Its label.
    pub label: String,
    /// Files of packages, in this order, before the kernel.
    #[serde(default)]
    pub file: Vec<BootFile>,
    /// Texts; `{kernel}`, `{initrd}`, `{cmdline}` are filled in.
    #[serde(default)]
    pub text: Vec<BootText>,
    /// Bytes before the first partition.
    #[serde(default)]
    pub raw: Vec<Raw>,
}

/// A file of a package on the boot partition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootFile {
    /// Where it goes.
    pub to: String,
    /// Debian's package of the board's architecture.
    pub package: String,
    /// Where it is in the package.
    pub path: String,
}

/// A text on the boot partition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootText {
    /// Where it goes.
    pub to: String,
    /// What it says.
    pub text: String,
}

/// A file of a package at an offset of the card.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    /// Bytes from the card's beginning: behind the table, before 1 MiB.
    pub offset: u64,
    /// Debian's package.
    pub package: String,
    /// Where it is in the package.
    pub path: String,
}

const OURS: [(&str, &str); 6] = [
    ("beaglebone-black", include_str!("boards/beaglebone-black.toml")),
    ("orange-pi-plus", include_str!("boards/orange-pi-plus.toml")),
    ("raspberry-pi-3", include_str!("boards/raspberry-pi-3.toml")),
    ("pine64", include_str!("boards/pine64.toml")),
    ("generic-armv7", include_str!("boards/generic-armv7.toml")),
    ("generic-aarch64", include_str!("boards/generic-aarch64.toml")),
];

fn arch<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Arch, D::Error> {
    let name = String::deserialize(deserializer)?;
    [Arch::Armv7, Arch::Aarch64].into_iter().find(|a| a.name() == name).ok_or_else(|| {
        serde::de::Error::custom(format!("the architecture is armv7 or aarch64, not {name:?}"))
    })
}

/// The boards that are compiled in.
pub fn ours() -> Vec<Board> {
    OURS.iter().filter_map(|(_, text)| toml::from_str(text).ok()).collect()
}

/// The text of a board that is compiled in, to begin a new one from.
pub fn source(name: &str) -> Option<&'static str> {
    OURS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// A board by name, or by the path of its file (which holds a slash or ends in `.toml`).
pub fn find(name: &str) -> Result<Board> {
    if !name.contains('/') && !name.ends_with(".toml") {
        let board = ours().into_iter().find(|b| b.name == name);
        return board.ok_or_else(|| TargetError::Content {
            path: name.into(),
            reason: "there is no such board".into(),
            hint: format!(
                "there are {}; a board of your own is a file: --board ./my-board.toml",
                OURS.map(|(n, _)| n).join(", ")
            ),
        });
    }
    let path = Path::new(name);
    let text = std::fs::read_to_string(path).map_err(TargetError::file(path))?;
    read(path, &text)
}

/// Reads and checks a board's file.
pub fn read(path: &Path, text: &str) -> Result<Board> {
    let wrong = |reason: String| {
        TargetError::Content {
        path: path.to_path_buf(),
        reason,
        hint: "docs/reference/image.md says what a board's file holds; latlab image --board NAME --show prints ours".into(),
    }
    };
    let board: Board = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |s| text[..s.start.min(text.len())].lines().count().max(1));
        wrong(format!("line {line}: {}", e.message()))
    })?;
    let name_char = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if board.name.is_empty() || board.name.len() > 63 || !board.name.chars().all(name_char) {
        return Err(wrong(format!(
            "name {:?} is not a host name (letters, digits, -)",
            board.name
        )));
    }
    if !(40..=1024).contains(&board.boot.mib) {
        return Err(wrong(format!(
            "boot.mib is {}; FAT32 needs at least 40, and more than 1024 is not a boot partition",
            board.boot.mib
        )));
    }
    if board.boot.label.len() > 11 || !board.boot.label.chars().all(name_char) {
        return Err(wrong(format!("boot.label {:?} is longer than 11 letters", board.boot.label)));
    }
    if let Some(boot) = &board.u_boot
        && !boot.config.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    {
        return Err(wrong(format!("u_boot.config {:?} is no file of configs/", boot.config)));
    }
    let inside = |p: &str| !p.is_empty() && !p.starts_with('/') && p.split('/').all(|p| p != "..");
    let files = board.boot.file.iter().flat_map(|f| [&f.to, &f.path]);
    let texts = board.boot.text.iter().map(|t| &t.to);
    let raws = board.boot.raw.iter().map(|r| &r.path);
    if let Some(bad) = files.chain(texts).chain(raws).find(|p| !inside(p)) {
        return Err(wrong(format!("{bad:?} has to be a path without a leading / and without ..")));
    }
    if let Some(raw) = board.boot.raw.iter().find(|r| !(512..1 << 20).contains(&r.offset)) {
        return Err(wrong(format!(
            "raw offset {} is not behind the partition table (512) and before the first partition (1048576)",
            raw.offset
        )));
    }
    Ok(board)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_ours_can_be_read() {
        for (name, text) in OURS {
            assert_eq!(read(Path::new(name), text).unwrap().name, name);
        }
        assert_eq!(ours().len(), OURS.len());
        let bone = find("beaglebone-black").unwrap();
        assert_eq!((bone.arch, bone.boot_rom), (Arch::Armv7, Some(BootRom::Am335x)));
        assert_eq!(bone.boot.file[0].to, "MLO");
    }

    #[test]
    fn what_is_wrong_with_a_board_is_said_with_its_line() {
        let text = source("beaglebone-black").unwrap();
        let said = |from: &str, to: &str| {
            read(Path::new("b.toml"), &text.replace(from, to)).unwrap_err().to_string()
        };
        let unknown = said("console =", "consoles =");
        assert!(unknown.starts_with("b.toml: line ") && unknown.contains("consoles"), "{unknown}");
        assert!(said("\"armv7\"", "\"mips\"").contains("armv7 or aarch64, not \"mips\""));
        assert!(said("mib = 64", "mib = 8").contains("FAT32 needs at least 40"));
        assert!(said("to = \"MLO\"", "to = \"../MLO\"").contains("\"../MLO\" has to be a path"));
        assert!(said("\"am335x\"", "\"rk3399\"").contains("rk3399"));
        let error = find("beaglebone").unwrap_err();
        assert!(error.to_string().contains("there is no such board"));
        assert!(error.hint().unwrap().contains("generic-aarch64"));
        assert!(find("./no/such.toml").unwrap_err().to_string().starts_with("./no/such.toml: "));
    }
}
