//! The kernel: version, preemption model, configuration, lockdown.

use crate::files::{Root, chosen};
use flate2::read::DeflateDecoder;
use latlab_model::kconfig;
use latlab_model::machine::Kernel;
use std::collections::BTreeMap;
use std::io::Read;

/// More than any configuration has; what expands beyond it is not read.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

pub fn read(root: &Root, release: &str, version: &str) -> Kernel {
    let config = configuration(root, release);
    let all = config.as_ref().map(|(_, all)| all);
    let command_line = root.text("proc/cmdline");
    Kernel {
        release: release.to_owned(),
        version: version.to_owned(),
        preemption: preemption(root, version, command_line.as_deref(), all),
        hz: all.and_then(|c| c.get("CONFIG_HZ")?.parse().ok()),
        config: all.map(kconfig::of_interest).unwrap_or_default(),
        config_source: config.map(|(source, _)| source),
        lockdown: lockdown(root),
        command_line,
    }
}

/// The whole configuration and where it was found.
pub fn configuration(root: &Root, release: &str) -> Option<(String, BTreeMap<String, String>)> {
    let places = [
        "/proc/config.gz".to_owned(),
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
        format!("/usr/lib/modules/{release}/config"),
        format!("/lib/modules/{release}/build/.config"),
        format!("/usr/src/linux-headers-{release}/.config"),
        "/boot/config".to_owned(),
    ];
    places.into_iter().find_map(|place| {
        let all = kconfig::parse(&unpacked(root.bytes(&place)?)?);
        (!all.is_empty()).then_some((place, all))
    })
}

/// The text of a configuration, packed by gzip or not.
pub fn unpacked(bytes: Vec<u8>) -> Option<String> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return String::from_utf8(bytes).ok();
    }
    let mut text = String::new();
    DeflateDecoder::new(deflated(&bytes)?).take(CONFIG_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// What follows the head of a gzip file (RFC 1952). Its checksum is not looked at: the table for it has 16 KiB, which a
/// board build has no other use for.
fn deflated(file: &[u8]) -> Option<&[u8]> {
    let [head_crc, extra, name, comment] = [2, 4, 8, 16];
    let flags = *file.get(3)?;
    let mut rest = file.get(10..)?;
    if flags & extra != 0 {
        let (length, after) = rest.split_at_checked(2)?;
        rest = after.get(usize::from(u16::from_le_bytes([length[0], length[1]]))..)?;
    }
    for text in [name, comment] {
        if flags & text != 0 {
            let end = rest.iter().position(|b| *b == 0)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & head_crc != 0 { rest.get(2..) } else { Some(rest) }
}

/// `rt`, `full`, `lazy`, `voluntary`, `none`. A dynamic kernel's choice is
/// in debugfs (root), on the command line, or the one it was configured with.
fn preemption(
    root: &Root,
    version: &str,
    command_line: Option<&str>,
    config: Option<&BTreeMap<String, String>>,
) -> Option<String> {
    let words: Vec<&str> = version.split_whitespace().collect();
    let realtime = root.text("sys/kernel/realtime").is_some_and(|t| t == "1");
    if realtime || words.contains(&"PREEMPT_RT") || words.contains(&"PREEMPT_RT_FULL") {
        return Some("rt".into());
    }
    let debugfs = root.text("sys/kernel/debug/sched/preempt").and_then(|t| chosen(&t));
    let asked = || {
        let mut last_first = command_line?.split_whitespace().rev();
        last_first.find_map(|w| w.strip_prefix("preempt=")).map(str::to_owned)
    };
    let built = || {
        let config = config?;
        let on = |name: &str| config.get(name).is_some_and(|v| v == "y");
        let models = [
            ("CONFIG_PREEMPT_RT", "rt"),
            ("CONFIG_PREEMPT_LAZY", "lazy"),
            ("CONFIG_PREEMPT", "full"),
            ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
            ("CONFIG_PREEMPT_NONE", "none"),
        ];
        models.iter().find(|(option, _)| on(option)).map(|(_, model)| (*model).to_owned())
    };
    // `PREEMPT` in the version is what a fully preemptible kernel without the dynamic switch writes.
    let written = || words.contains(&"PREEMPT").then(|| "full".to_owned());
    debugfs.or_else(asked).or_else(built).or_else(written)
}

/// Securityfs says it where it is mounted; a kernel that was not built with lockdown has none.
fn lockdown(root: &Root) -> Option<String> {
    root.text("sys/kernel/security/lockdown").and_then(|t| chosen(&t))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(option: &str) -> BTreeMap<String, String> {
        [(option.to_owned(), "y".to_owned())].into()
    }

    #[test]
    fn the_preemption_model_in_force() {
        let none = Root::at("/nonexistent");
        let p = |v: &str, line: Option<&str>, c: Option<&str>| {
            preemption(&none, v, line, c.map(built).as_ref())
        };
        let rt = p("#1 SMP PREEMPT_RT Debian 6.1.1", None, None);
        assert_eq!(rt.as_deref(), Some("rt"));
        let rt = p("#1 SMP PREEMPT RT", None, Some("CONFIG_PREEMPT_RT"));
        assert_eq!(rt.as_deref(), Some("rt"));
        let asked =
            p("#1 SMP PREEMPT_DYNAMIC", Some("quiet preempt=full"), Some("CONFIG_PREEMPT_NONE"));
        assert_eq!(asked.as_deref(), Some("full"));
        let built = p("#1 SMP PREEMPT_DYNAMIC", Some("quiet"), Some("CONFIG_PREEMPT_VOLUNTARY"));
        assert_eq!(built.as_deref(), Some("voluntary"));
        assert_eq!(p("#1 PREEMPT", None, None).as_deref(), Some("full"));
        assert_eq!(p("#1 SMP PREEMPT_DYNAMIC", None, None), None);
    }

    #[test]
    fn a_packed_configuration_is_read_whatever_its_head_has() {
        use std::io::Write;
        let text = "CONFIG_HZ=250\nCONFIG_PREEMPT_RT=y\n".repeat(200);
        let builders = [
            flate2::GzBuilder::new(),
            flate2::GzBuilder::new().filename("config").comment("of 6.1"),
            flate2::GzBuilder::new().extra(vec![7; 300]).filename("config"),
        ];
        for builder in builders {
            let mut packed = builder.write(Vec::new(), flate2::Compression::best());
            packed.write_all(text.as_bytes()).unwrap();
            let mut packed = packed.finish().unwrap();
            assert_eq!(unpacked(packed.clone()).as_deref(), Some(text.as_str()));
            for end in [3, 10, 14, packed.len() / 2] {
                assert_eq!(unpacked(packed[..end].to_vec()), None, "{end}");
            }
            // The head's own checksum (its flag is bit 1) has two bytes before the data.
            if packed[3] == 0 {
                packed[3] = 2;
                packed.splice(10..10, [0, 0]);
                assert_eq!(unpacked(packed).as_deref(), Some(text.as_str()));
            }
        }
        assert_eq!(unpacked(text.clone().into_bytes()), Some(text));
    }
}
