//! Kernel modules in the order in which they have to be loaded, from the text of `modules.dep`.
//!
//! Source: modules.dep(5): `path: dependency…`, paths relative to the folder;
//! a module's dependencies stand right to left in loading order.

use std::collections::{BTreeMap, BTreeSet};

/// The modules of one kernel, and what each needs.
#[derive(Clone, Debug, Default)]
pub struct Dependencies {
    /// Name (with `_`) to path and the paths that it needs.
    modules: BTreeMap<String, (String, Vec<String>)>,
    builtin: BTreeSet<String>,
}

/// A name that is neither a module of this kernel nor built in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(pub String);

/// `virtio-rng` and `virtio_rng` are one name, with or without `.ko[.xz]`.
fn canonical(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

impl Dependencies {
    /// Reads the texts of `modules.dep` (or what `depmod -n` prints, which begins with it) and
    /// `modules.builtin`.
    pub fn parse(dep: &str, builtin: &str) -> Self {
        let modules = dep
            .lines()
            .take_while(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(':'))
            .map(|(path, needs)| {
                let needs = needs.split_whitespace().map(str::to_owned).collect();
                (canonical(path), (path.to_owned(), needs))
            })
            .collect();
        Self { modules, builtin: builtin.lines().map(canonical).collect() }
    }

    /// Whether there is a module of this name; what is built in is none.
    pub fn has(&self, name: &str) -> bool {
        self.modules.contains_key(&canonical(name))
    }

    /// Paths, relative to the folder, of these modules and all that they need,
    /// in loading order. What is built in needs no file.
    pub fn resolve<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<String>, Unknown> {
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
                None => return Err(Unknown(name)),
            }
        }
        Ok(order)
    }

    /// As [`Self::resolve`], leaving out the names that this kernel does not have.
    pub fn resolve_known<S: AsRef<str>>(&self, names: &[S]) -> Vec<String> {
        let known: Vec<&str> = names.iter().map(S::as_ref).filter(|n| self.has(n)).collect();
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
# Aliases extracted from modules themselves.
alias virtio:d00000004v* virtio_rng
";

    #[test]
    fn dependencies_come_first_and_once() {
        let tree = Dependencies::parse(DEP, "kernel/drivers/tty/hvc/hvc_console.ko\n");
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
    fn an_unknown_module_is_named_and_what_is_no_module_is_none() {
        let tree = Dependencies::parse(DEP, "");
        assert_eq!(tree.resolve(&["e1000"]), Err(Unknown("e1000".into())));
        assert_eq!(tree.resolve_known(&["e1000", "failover"]), ["kernel/net/core/failover.ko"]);
        assert!(!tree.has("alias virtio"));
    }
}
