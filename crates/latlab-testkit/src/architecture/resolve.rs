//! From a path to the files that define what it names.

use super::tree::{Binding, FileId, ModId, Space, Tree};
use super::written::Written;
use std::collections::HashMap;

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Module(ModId),
    Item {
        file: FileId,
        space: Space,
        is_trait: bool,
    },
    /// Another crate, the language, a generic parameter or a variable.
    Foreign,
}

impl Target {
    /// A path can go on behind it.
    fn leads_on(&self) -> bool {
        !matches!(self, Target::Item { space: Space::Value | Space::Macro, .. })
    }
}

/// Names of a block: what its `use` and its items bring into scope.
#[derive(Default)]
pub(super) struct Scope {
    pub names: HashMap<String, Vec<Target>>,
    /// Modules of which a glob brings all names.
    pub globs: Vec<ModId>,
}

/// Resolves paths of one crate.
pub(super) struct Resolver<'a> {
    pub tree: &'a Tree<'a>,
    /// The crate's own name in a path: what a program calls its library.
    pub own_name: &'a str,
}

impl Resolver<'_> {
    /// What `path`, written in `module` inside `scopes` (innermost last), leads to.
    pub(super) fn resolve(&self, module: ModId, scopes: &[Scope], path: &Written) -> Vec<Target> {
        self.path(module, scopes, path, &mut Vec::new())
    }

    /// The first segment `name` of a longer path is another crate.
    pub(super) fn is_foreign(&self, module: ModId, scopes: &[Scope], name: &str) -> bool {
        let found = self.lexical(module, scopes, name, &mut Vec::new());
        found.iter().filter(|t| t.leads_on()).all(|t| *t == Target::Foreign)
    }

    fn path(
        &self,
        module: ModId,
        scopes: &[Scope],
        path: &Written,
        busy: &mut Vec<usize>,
    ) -> Vec<Target> {
        let Some((first, rest)) = path.segments.split_first() else { return Vec::new() };
        let mut at = match first.as_str() {
            _ if path.absolute => vec![self.foreign(first)],
            "crate" => vec![Target::Module(self.tree.modules[module].root)],
            "self" => vec![Target::Module(module)],
            "super" => self.parent(module),
            name => self.lexical(module, scopes, name, busy),
        };
        if !rest.is_empty() {
            // No path goes through a function: the name is another crate's.
            at.retain(Target::leads_on);
            if at.is_empty() && first != "super" {
                at.push(self.foreign(first));
            }
        }
        for segment in rest {
            at = at.into_iter().flat_map(|t| self.step(t, segment, busy)).collect();
        }
        at
    }

    fn parent(&self, module: ModId) -> Vec<Target> {
        self.tree.modules[module].parent.map(Target::Module).into_iter().collect()
    }

    fn foreign(&self, name: &str) -> Target {
        match self.tree.library {
            Some(library) if name == self.own_name => Target::Module(library),
            _ => Target::Foreign,
        }
    }

    /// One segment further. What is behind an item belongs to the item.
    fn step(&self, at: Target, name: &str, busy: &mut Vec<usize>) -> Vec<Target> {
        match at {
            Target::Module(id) if name == "super" => self.parent(id),
            Target::Module(id) => {
                let found = self.lookup(id, name, true, busy);
                if !found.is_empty() {
                    return found;
                }
                if self.has_foreign_glob(id, busy) {
                    return vec![Target::Foreign];
                }
                // A macro made it.
                let file = self.tree.modules[id].file;
                vec![Target::Item { file, space: Space::Both, is_trait: false }]
            }
            Target::Item { .. } | Target::Foreign => {
                at.leads_on().then_some(at).into_iter().collect()
            }
        }
    }

    /// A first segment: blocks from the inside, the module, other crates.
    fn lexical(
        &self,
        module: ModId,
        scopes: &[Scope],
        name: &str,
        busy: &mut Vec<usize>,
    ) -> Vec<Target> {
        for scope in scopes.iter().rev() {
            if let Some(targets) = scope.names.get(name) {
                return targets.clone();
            }
            for &glob in &scope.globs {
                let found = self.lookup(glob, name, self.tree.contains(glob, module), busy);
                if !found.is_empty() {
                    return found;
                }
            }
        }
        let found = self.lookup(module, name, true, busy);
        if found.is_empty() { vec![self.foreign(name)] } else { found }
    }

    /// What `name` stands for in a module; with `private`, as its own code sees it. `busy` are
    /// the imports that are being followed: each is followed once.
    fn lookup(
        &self,
        module: ModId,
        name: &str,
        private: bool,
        busy: &mut Vec<usize>,
    ) -> Vec<Target> {
        let this = &self.tree.modules[module];
        let mut out = Vec::new();
        for (binding, visible) in this.names.get(name).into_iter().flatten() {
            match binding {
                _ if !private && !visible => {}
                Binding::Module(id) => out.push(Target::Module(*id)),
                Binding::Item { space, is_trait } => {
                    let (file, space, is_trait) = (this.file, *space, *is_trait);
                    out.push(Target::Item { file, space, is_trait });
                }
                Binding::Import(number) => out.extend(self.follow(*number, busy)),
            }
        }
        if !out.is_empty() {
            return out;
        }
        for &(number, visible) in &this.globs {
            if (!private && !visible) || busy.contains(&number) {
                continue;
            }
            busy.push(number);
            let import = &self.tree.imports[number];
            for target in self.path(import.module, &[], &import.leaf.path, busy) {
                if let Target::Module(id) = target {
                    let inside = self.tree.contains(id, module);
                    out.extend(self.lookup(id, name, inside, busy));
                }
            }
            busy.pop();
        }
        out
    }

    fn follow(&self, number: usize, busy: &mut Vec<usize>) -> Vec<Target> {
        if busy.contains(&number) {
            return Vec::new();
        }
        busy.push(number);
        let import = &self.tree.imports[number];
        let out = self.path(import.module, &[], &import.leaf.path, busy);
        busy.pop();
        out
    }

    fn has_foreign_glob(&self, module: ModId, busy: &mut Vec<usize>) -> bool {
        self.tree.modules[module]
            .globs
            .iter()
            .any(|&(number, _)| self.follow(number, busy).contains(&Target::Foreign))
    }

    /// Files of the traits that a glob of `glob` brings into `module`: their methods are called
    /// without a name.
    pub(super) fn glob_traits(&self, glob: ModId, module: ModId) -> Vec<FileId> {
        let mut out = Vec::new();
        self.traits(glob, module, &mut Vec::new(), &mut out);
        out
    }

    fn traits(&self, glob: ModId, module: ModId, seen: &mut Vec<ModId>, out: &mut Vec<FileId>) {
        if seen.contains(&glob) {
            return;
        }
        seen.push(glob);
        let inside = self.tree.contains(glob, module);
        let this = &self.tree.modules[glob];
        for name in this.names.keys() {
            for target in self.lookup(glob, name, inside, &mut Vec::new()) {
                if let Target::Item { file, is_trait: true, .. } = target {
                    out.push(file);
                }
            }
        }
        for &(number, _) in this.globs.iter().filter(|(_, visible)| inside || *visible) {
            for target in self.follow(number, &mut Vec::new()) {
                if let Target::Module(id) = target {
                    self.traits(id, module, seen, out);
                }
            }
        }
    }
}
