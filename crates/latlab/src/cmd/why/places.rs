//! Where the functions that a result names are in the source: from debug information that the user
//! names or that lies where distributions put it, and else from the folder that a module's file is in.

use super::debug_info::{DebugInfo, Lines};
use crate::outcome::HintExt;
use crate::trace_input;
use anyhow::anyhow;
use latlab_analysis::latency::source_location::{split, wanted};
use latlab_analysis::latency::summary::kernels;
use latlab_model::latency::FunctionPlace;
use latlab_model::latency::WhyResult;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Debug information that the user named.
pub struct Places {
    given: Vec<DebugInfo>,
    root: PathBuf,
}

impl Places {
    /// Opens what `--vmlinux` names.
    ///
    /// # Errors
    /// One sentence that names the file.
    pub fn open(files: &[PathBuf]) -> anyhow::Result<Self> {
        let open = |path: &PathBuf| DebugInfo::open(path).map_err(|e| e.context("--vmlinux"));
        Ok(Self {
            given: files.iter().map(open).collect::<anyhow::Result<_>>()?,
            root: PathBuf::from("/"),
        })
    }

    /// Whether what the user named is of the kernel that runs here.
    ///
    /// # Errors
    /// One sentence: it is of another one.
    pub fn check_here(&self, release: &str) -> anyhow::Result<()> {
        for info in &self.given {
            self.check(info, &[release])?;
            let notes = match &info.module {
                Some(module) => format!("sys/module/{module}/notes/.note.gnu.build-id"),
                None => "sys/kernel/notes".into(),
            };
            let running = fs::read(self.root.join(notes)).ok();
            let running = running.as_deref().and_then(build_id);
            if let (Some(theirs), Some(ours)) = (&info.build_id, running)
                && theirs != ours
            {
                return Err(anyhow!(
                    "--vmlinux: {}: not the running kernel's build (build id {}, not {})",
                    info.path().display(),
                    hex(theirs),
                    hex(ours)
                ))
                .hint("the release was built more than once; use the file of the booted build");
            }
        }
        Ok(())
    }

    fn check(&self, info: &DebugInfo, releases: &[&str]) -> anyhow::Result<()> {
        match &info.release {
            Some(of) if !releases.is_empty() && !releases.contains(&of.as_str()) => Err(anyhow!(
                "--vmlinux: {}: kernel {of}; the captures are of kernel {}",
                info.path().display(),
                releases.join(" and ")
            ))
            .hint("use the file of the captures' kernel: lines of another kernel would be wrong"),
            _ => Ok(()),
        }
    }

    /// Looks up the functions that a result names.
    ///
    /// # Errors
    /// One sentence, when a file that the user named is of another kernel or damaged.
    pub fn tell(&self, result: &mut WhyResult) -> anyhow::Result<()> {
        let releases = kernels(&result.captures);
        for info in &self.given {
            self.check(info, &releases)?;
        }
        let names = wanted(result);
        let mut by_module: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (function, module) in names.iter().filter_map(|n| split(n)) {
            by_module.entry(module).or_default().insert(function);
        }
        // Captures of several kernels: whose functions they are is not known.
        // And a trace may say anything.
        let release = if let [one] = releases[..] { Some(one.to_owned()) } else { None };
        let release = release.filter(|release| is_release(release));
        let modules = release.as_deref().map(|r| self.modules(r)).unwrap_or_default();
        let mut places = Vec::new();
        for (module, functions) in by_module {
            let file = modules.get(module).cloned().unwrap_or_default();
            let (lines, source) = self.lines(module, &file, release.as_deref(), &functions)?;
            for name in &names {
                let Some((function, of)) = split(name) else { continue };
                let lines: Vec<String> =
                    lines.get(function).into_iter().flatten().cloned().collect();
                if of == module && !(lines.is_empty() && file.is_empty()) {
                    let source = if lines.is_empty() { String::new() } else { source.clone() };
                    let (function, module) = (name.clone(), file.clone());
                    places.push(FunctionPlace { function, lines, module, source });
                }
            }
        }
        result.places = places;
        Ok(())
    }

    /// The lines that define functions of a module (of the kernel, where that is empty), and the file
    /// that tells them.
    fn lines(
        &self,
        module: &str,
        file: &str,
        release: Option<&str>,
        functions: &BTreeSet<&str>,
    ) -> anyhow::Result<(Lines, String)> {
        let of = |info: &&DebugInfo| info.module.as_deref().unwrap_or_default() == module;
        if let Some(info) = self.given.iter().find(of) {
            return Ok((
                info.lines(functions, trace_input::memory())?,
                info.path().display().to_string(),
            ));
        }
        let Some(release) = release else { return Ok(Default::default()) };
        for path in self.usual(module, file, release) {
            // Nobody asked for these: what is stripped or damaged is passed over.
            let Ok(info) = DebugInfo::open(&path) else { continue };
            if info.release.as_deref().is_none_or(|of| of == release)
                && let Ok(lines) = info.lines(functions, trace_input::memory())
            {
                return Ok((lines, path.display().to_string()));
            }
        }
        Ok(Default::default())
    }

    /// Where distributions and the kernel's build put debug information.
    fn usual(&self, module: &str, file: &str, release: &str) -> Vec<PathBuf> {
        let debug = "usr/lib/debug";
        let names = match (module, file) {
            ("", _) => vec![
                format!("{debug}/boot/vmlinux-{release}"),
                format!("{debug}/boot/vmlinux-{release}.debug"),
                format!("{debug}/lib/modules/{release}/vmlinux"),
                format!("{debug}/usr/lib/modules/{release}/vmlinux"),
                format!("lib/modules/{release}/build/vmlinux"),
                format!("boot/vmlinux-{release}"),
            ],
            (_, "") => vec![],
            _ => {
                let plain = file.split_inclusive(".ko").next().unwrap_or(file);
                let in_folder = format!("lib/modules/{release}/{plain}");
                vec![
                    format!("{debug}/{in_folder}"),
                    format!("{debug}/{in_folder}.debug"),
                    format!("{debug}/usr/{in_folder}.debug"),
                    in_folder,
                ]
            }
        };
        names.into_iter().map(|n| self.root.join(n)).filter(|p| p.is_file()).collect()
    }

    /// The files of a kernel's modules by name (`modules.dep`).
    fn modules(&self, release: &str) -> BTreeMap<String, String> {
        let list = self.root.join("lib/modules").join(release).join("modules.dep");
        let text = fs::read_to_string(list).unwrap_or_default();
        let one = |line: &str| {
            let file = line.split(':').next()?;
            let name = Path::new(file).file_name()?.to_str()?.split(".ko").next()?;
            Some((name.replace('-', "_"), file.to_owned()))
        };
        text.lines().filter_map(one).collect()
    }
}

/// Whether a trace's kernel release can be part of a file name, as every real one can: at most 64
/// bytes (utsname), of letters, digits and `.-_+~`, and not `.` or `..`.
fn is_release(release: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".-_+~".contains(&b);
    release.len() <= 64 && release.bytes().all(plain) && release.bytes().any(|b| b.is_ascii_digit())
}

/// The build id among ELF notes: name size, content size, type 3, `GNU\0`, content.
fn build_id(notes: &[u8]) -> Option<&[u8]> {
    let at = memchr::memmem::find(notes, b"\x03\0\0\0GNU\0")
        .or_else(|| memchr::memmem::find(notes, b"\0\0\0\x03GNU\0"))?;
    let size: [u8; 4] = notes.get(at.checked_sub(4)?..at)?.try_into().ok()?;
    let size = u32::from_ne_bytes(size) as usize;
    notes.get(at + 8..at.checked_add(8)?.checked_add(size)?)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(8).map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::latency::CaptureNote;

    #[test]
    fn no_release_of_a_trace_leads_to_another_folder() {
        for release in ["6.1.0-50-rt-armmp", "5.10.0", "6.18.44+", "4.19.94-ti-r42~rc1"] {
            assert!(is_release(release), "{release}");
        }
        let long = "6".repeat(65);
        for release in ["", ".", "..", "../../tmp/1", "/tmp/1", "6.1\0", "6.1 x", &long] {
            assert!(!is_release(release), "{release}");
        }
    }

    #[test]
    fn debug_information_and_modules_are_found_where_distributions_put_them() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("usr/lib/debug/boot/vmlinux-6.1", "");
        put("lib/modules/6.1/build/vmlinux", "");
        put(
            "lib/modules/6.1/modules.dep",
            "kernel/drivers/usb/a-b.ko.xz: kernel/c.ko.xz\nextra/d.ko:\n",
        );
        put("usr/lib/debug/lib/modules/6.1/kernel/drivers/usb/a-b.ko", "");
        let places = Places { given: vec![], root: root.path().into() };
        assert_eq!(places.usual("", "", "6.1").len(), 2);
        let modules = places.modules("6.1");
        assert_eq!(modules["a_b"], "kernel/drivers/usb/a-b.ko.xz");
        assert_eq!(modules["d"], "extra/d.ko");
        let found = places.usual("a_b", &modules["a_b"], "6.1");
        let whole = root.path().join("usr/lib/debug/lib/modules/6.1/kernel/drivers/usb/a-b.ko");
        assert_eq!(found, [whole]);
        assert!(places.usual("", "", "6.2").is_empty());
    }

    #[test]
    fn a_kernel_of_another_release_is_refused() {
        let notes = [&4u32.to_ne_bytes()[..], &2u32.to_ne_bytes(), &[3, 0, 0, 0], b"GNU\0\xab\xcd"];
        assert_eq!(build_id(&notes.concat()), Some(&[0xab, 0xcd][..]));
        assert_eq!(build_id(b"\x03\0\0\0GNU\0"), None);
        assert_eq!(hex(&[0xab, 0x0c]), "ab0c");
        let mut result = WhyResult::default();
        result.captures.push(CaptureNote { kernel: Some("6.1".into()), ..CaptureNote::default() });
        let places = Places { given: vec![], root: PathBuf::from("/nowhere") };
        places.tell(&mut result).unwrap();
        assert!(result.places.is_empty());
    }
}
