//! Kernel modules in the order in which they have to be loaded, from `modules.dep`.
//!
//! Source: modules.dep(5): `path: dependency…`, paths relative to the folder;
//! a module's dependencies stand right to left in loading order.

use crate::{Result, TargetError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The modules of one kernel.
#[derive(Debug)]
pub struct ModuleTree {
    folder: PathBuf,
    /// Name (with `_`) to path and the paths that it needs.
    modules: BTreeMap<String, (String, Vec<String>)>,
    builtin: BTreeSet<String>,
}

/// `virtio-rng` and `virtio_rng` are one name, with or without `.ko[.xz]`.
fn canonical(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

impl ModuleTree {
    /// Reads `modules.dep` and `modules.builtin` in `/lib/modules/RELEASE`.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("modules.dep");
        let text = std::fs::read_to_string(&path).map_err(TargetError::file(&path))?;
        let builtin = std::fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        Ok(Self::parse(folder, &text, &builtin))
    }

    fn parse(folder: &Path, dep: &str, builtin: &str) -> Self {
        let modules = dep
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(path, needs)| {
                let needs = needs.split_whitespace().map(str::to_owned).collect();
                (canonical(path), (path.to_owned(), needs))
            })
            .collect();
        Self {
            folder: folder.to_path_buf(),
            modules,
            builtin: builtin.lines().map(canonical).collect(),
        }
    }

    /// The folder, `…/lib/modules/RELEASE`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Paths, relative to the folder, of these modules and all that they need,
    /// in loading order. What is built in needs no file.
    pub fn resolve<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<String>> {
        let mut order = Vec::new();
        for name in names {
            let name = canonical(name.as_ref());
            match self.modules.get(&name) {
                Some((path, needs)) => {
                    for path in needs.iter().rev().chain([path]) {
                        if !order.contains(path) {
                            order.push(path.clone());
                        }
                    }
                }
                None if self.builtin.contains(&name) => {}
                None => {
                    return Err(TargetError::Content {
                        path: self.folder.clone(),
                        reason: format!("this kernel has no module {name}"),
                        hint: "modules= takes names from the kernel's package, joined by +".into(),
                    });
                }
            }
        }
        Ok(order)
    }

    /// As [`Self::resolve`], leaving out the names that this kernel does not have.
    pub fn resolve_known(&self, names: &[&str]) -> Vec<String> {
        let known: Vec<&str> =
            names.iter().copied().filter(|n| self.modules.contains_key(&canonical(n))).collect();
        self.resolve(&known).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "\
kernel/drivers/net/virtio_net.ko: kernel/drivers/net/net_failover.ko kernel/net/core/failover.ko kernel/drivers/virtio/virtio.ko
kernel/net/core/failover.ko:
kernel/drivers/virtio/virtio.ko:
kernel/drivers/net/net_failover.ko: kernel/net/core/failover.ko
kernel/drivers/char/hw_random/virtio-rng.ko.xz: kernel/drivers/virtio/virtio.ko
";

    #[test]
    fn dependencies_come_first_and_once() {
        let tree =
            ModuleTree::parse(Path::new("/m"), DEP, "kernel/drivers/tty/hvc/hvc_console.ko\n");
        let order = tree.resolve(&["virtio_net", "virtio_rng", "hvc-console"]).unwrap();
        assert_eq!(
            order,
            [
                "kernel/drivers/virtio/virtio.ko",
                "kernel/net/core/failover.ko",
                "kernel/drivers/net/net_failover.ko",
                "kernel/drivers/net/virtio_net.ko",
                "kernel/drivers/char/hw_random/virtio-rng.ko.xz",
            ]
        );
    }

    #[test]
    fn an_unknown_module_is_named() {
        let tree = ModuleTree::parse(Path::new("/m"), DEP, "");
        assert!(tree.resolve(&["e1000"]).unwrap_err().to_string().contains("no module e1000"));
        assert_eq!(tree.resolve_known(&["e1000", "failover"]), ["kernel/net/core/failover.ko"]);
    }
}
