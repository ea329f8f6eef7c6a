//! Kernels that were built from source: `kernels/MACHINE/PURPOSE/` in the cache.
//!
//! ```text
//! package/   boot/vmlinuz-RELEASE, config-RELEASE, System.map-RELEASE; lib/modules/RELEASE; device trees
//! build/     the kernel's build folder, in which modules are built
//! build.log  output of the last build
//! BUILD.json what it was built from; written last
//! ```

use crate::cache::Cache;
use crate::spec::VmTarget;
use crate::{Result, TargetError};
use std::path::PathBuf;

/// Name of the file that a whole build has.
pub const RECORD: &str = "BUILD.json";

/// The folder of a kernel's build, by the name of its machine or board and by its purpose.
pub fn folder(cache: &Cache, machine: &str, purpose: &str) -> PathBuf {
    cache.root().join("kernels").join(machine).join(purpose)
}

/// Purposes of which there is a kernel for this machine, sorted.
pub fn purposes(cache: &Cache, machine: &str) -> Vec<String> {
    let folder = cache.root().join("kernels").join(machine);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let whole = entries.filter(|e| e.path().join(RECORD).is_file());
    let mut names: Vec<String> = whole.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The target with the kernel that `build=` names.
///
/// # Errors
/// When it is not built, or another kernel is named too.
pub fn resolve(cache: &Cache, target: &VmTarget) -> Result<VmTarget> {
    let Some(purpose) = &target.build else { return Ok(target.clone()) };
    let spec = || format!("vm:{},build={purpose}", target.name);
    if target.kernel.is_some() || target.modules_from.is_some() {
        return Err(TargetError::Spec {
            spec: spec(),
            reason: "two kernels are named".into(),
            hint: "leave out build=, or --kernel and --modules-from".into(),
        });
    }
    let folder = folder(cache, &target.name, purpose);
    if !folder.join(RECORD).is_file() {
        return Err(TargetError::Spec {
            spec: spec(),
            reason: "this kernel is not built".into(),
            hint: format!("latlab vm build {} {purpose}", target.name),
        });
    }
    Ok(VmTarget { kernel: Some(folder.join("package")), ..target.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_built_is_found_by_its_purpose() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        for name in ["armv7-rt/tracers", "armv7-rt/latency", "armv7/no-smp"] {
            let folder = cache.folder(&format!("kernels/{name}")).unwrap();
            if name != "armv7-rt/latency" {
                std::fs::write(folder.join(RECORD), "{}").unwrap();
            }
        }
        assert_eq!(purposes(&cache, "armv7-rt"), ["tracers"]);
        assert_eq!(purposes(&cache, "armv7"), ["no-smp"]);
        let target = |purpose: &str| VmTarget {
            name: "armv7-rt".into(),
            build: Some(purpose.into()),
            ..VmTarget::default()
        };
        let found = resolve(&cache, &target("tracers")).unwrap().kernel.unwrap();
        assert!(found.ends_with("kernels/armv7-rt/tracers/package"));
        let missing = resolve(&cache, &target("latency")).unwrap_err();
        assert!(missing.to_string().contains("this kernel is not built"), "{missing}");
        assert_eq!(missing.hint().unwrap(), "latlab vm build armv7-rt latency");
        let two = VmTarget { kernel: Some("zImage".into()), ..target("tracers") };
        assert!(resolve(&cache, &two).unwrap_err().to_string().contains("two kernels"));
    }
}
