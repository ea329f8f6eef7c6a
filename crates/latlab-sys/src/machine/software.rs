//! What runs below and beside the kernel: firmware, boot loader, the system on disk.

use crate::files::Root;

/// Longest text that is kept, in characters.
const LONGEST: usize = 200;

/// The BIOS (DMI), or the boot loader that left its version in the device tree: U-Boot
/// (`doc/device-tree-bindings/chosen.txt`) or that of the Raspberry Pi.
pub fn firmware(root: &Root) -> Option<String> {
    let dmi = |f: &str| root.word(&format!("sys/class/dmi/id/{f}"));
    let bios: Vec<String> =
        [dmi("bios_vendor"), dmi("bios_version"), dmi("bios_date")].into_iter().flatten().collect();
    if !bios.is_empty() {
        return plain(&bios.join(" "));
    }
    let chosen = |f: &str| {
        ["proc/device-tree", "sys/firmware/devicetree/base"]
            .iter()
            .find_map(|tree| root.word(&format!("{tree}/chosen/{f}")))
    };
    let named = |name: &str, version: String| plain(&[name, " ", &version].concat());
    chosen("u-boot,version")
        .and_then(|v| named("U-Boot", v))
        .or_else(|| chosen("bootloader/version").and_then(|v| named("bootloader", v)))
}

/// Name and version of the system, and of its image or build where that is told (os-release(5)).
pub fn os(root: &Root) -> Option<String> {
    let text = root.word("etc/os-release").or_else(|| root.word("usr/lib/os-release"))?;
    let value = |key: &str| {
        let line = text.lines().find_map(|l| l.trim().strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim().trim_matches(['"', '\'']).to_owned()).filter(|v| !v.is_empty())
    };
    let name = value("PRETTY_NAME").or_else(|| value("NAME"))?;
    let build = value("IMAGE_VERSION").or_else(|| value("BUILD_ID"));
    plain(&[Some(name), build].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// Text without control characters, of bounded length; `None` for nothing.
pub(super) fn plain(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn tree(below: &Path, name: &str, files: &[(&str, &str)]) -> Root {
        let dir = below.join(name);
        for (path, text) in files {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Root::at(dir)
    }

    #[test]
    fn a_pc_has_a_bios_and_a_board_a_boot_loader() {
        let t = tempfile::tempdir().unwrap();
        let tree = |name, files: &[_]| tree(t.path(), name, files);
        let pc = tree(
            "pc",
            &[
                ("sys/class/dmi/id/bios_vendor", "American Megatrends\n"),
                ("sys/class/dmi/id/bios_version", "F.21\n"),
                ("sys/class/dmi/id/bios_date", "03/01/2024\n"),
                (
                    "etc/os-release",
                    "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
                ),
            ],
        );
        assert_eq!(firmware(&pc).as_deref(), Some("American Megatrends F.21 03/01/2024"));
        assert_eq!(os(&pc).as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        let board = tree(
            "board",
            &[
                ("proc/device-tree/chosen/u-boot,version", "2023.10-\u{1b}[31mg1\0"),
                ("usr/lib/os-release", "NAME=Poky\nIMAGE_VERSION='42'\n"),
            ],
        );
        assert_eq!(firmware(&board).as_deref(), Some("U-Boot 2023.10-[31mg1"));
        assert_eq!(os(&board).as_deref(), Some("Poky 42"));
        let pi = tree("pi", &[("proc/device-tree/chosen/bootloader/version", "6fe0b091\0")]);
        assert_eq!(firmware(&pi).as_deref(), Some("bootloader 6fe0b091"));
        let nothing =
            tree("nothing", &[("etc/os-release", "ID=x\n"), ("sys/class/dmi/id/bios_date", "\n")]);
        assert_eq!((firmware(&nothing), os(&nothing)), (None, None));
    }
}
