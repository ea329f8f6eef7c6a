//! The modules of one crate and the names in each.

use super::tokens;
use super::written::{Leaf, leaves};
use std::collections::HashMap;
use syn::{Attribute, Item, Visibility};

/// Number of a module in its [`Tree`].
pub(super) type ModId = usize;
/// Number of a file in the list of sources.
pub(super) type FileId = usize;

/// A source file: path below the crate's directory (`src/lib.rs`) and text.
#[derive(Debug, Clone)]
pub struct Source {
    /// With `/`, relative to the directory of `Cargo.toml`.
    pub path: String,
    /// The whole text.
    pub text: String,
}

/// Where a name can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Type,
    Value,
    /// A struct: its type and, for some, its constructor.
    Both,
    Macro,
}

/// What a name in a module stands for.
pub(super) enum Binding {
    Module(ModId),
    Item {
        space: Space,
        is_trait: bool,
    },
    /// Number in [`Tree::imports`].
    Import(usize),
}

/// A name or glob brought into a module by `use`.
pub(super) struct Import {
    pub leaf: Leaf,
    pub module: ModId,
}

/// A module: a file, or `mod name { … }` in one.
pub(super) struct Module<'a> {
    pub parent: Option<ModId>,
    pub root: ModId,
    pub file: FileId,
    pub items: &'a [Item],
    /// Each with whether it is visible outside.
    pub names: HashMap<String, Vec<(Binding, bool)>>,
    /// Numbers in [`Tree::imports`], each with whether it is re-exported.
    pub globs: Vec<(usize, bool)>,
}

/// The module trees of a crate's library and programs, without tests.
#[derive(Default)]
pub(super) struct Tree<'a> {
    pub modules: Vec<Module<'a>>,
    pub imports: Vec<Import>,
    pub library: Option<ModId>,
    /// By file: it declares modules in files of their own.
    pub has_children: Vec<bool>,
    /// Sentences about modules that have no file.
    pub problems: Vec<String>,
}

/// What building a tree reads.
pub(super) struct Parsed<'a> {
    pub sources: &'a [Source],
    pub files: &'a [syn::File],
    by_path: HashMap<&'a str, FileId>,
}

impl<'a> Parsed<'a> {
    pub(super) fn new(sources: &'a [Source], files: &'a [syn::File]) -> Parsed<'a> {
        let by_path = sources.iter().enumerate().map(|(i, s)| (s.path.as_str(), i)).collect();
        Parsed { sources, files, by_path }
    }
}

impl<'a> Tree<'a> {
    pub(super) fn build(parsed: &Parsed<'a>) -> Tree<'a> {
        let mut tree = Tree { has_children: vec![false; parsed.files.len()], ..Tree::default() };
        for (file, source) in parsed.sources.iter().enumerate() {
            if is_root(&source.path) {
                let root = tree.modules.len();
                let dir = parent_dir(&source.path).to_owned();
                tree.add(parsed, None, file, &parsed.files[file].items, &dir);
                if source.path == "src/lib.rs" {
                    tree.library = Some(root);
                }
            }
        }
        tree
    }

    /// Adds a module and all below it; `dir` is where files of its children are.
    fn add(
        &mut self,
        parsed: &Parsed<'a>,
        parent: Option<ModId>,
        file: FileId,
        items: &'a [Item],
        dir: &str,
    ) -> ModId {
        let id = self.modules.len();
        let root = parent.map_or(id, |p| self.modules[p].root);
        let names = HashMap::new();
        self.modules.push(Module { parent, root, file, items, names, globs: Vec::new() });
        for item in items {
            if is_test(attributes(item)) {
                continue;
            }
            match item {
                Item::Mod(module) => self.child(parsed, id, module, dir),
                Item::Use(item) => self.import(id, item),
                Item::ForeignMod(block) => {
                    for item in &block.items {
                        if let syn::ForeignItem::Fn(f) = item {
                            let space = Space::Value;
                            let binding = Binding::Item { space, is_trait: false };
                            self.bind(id, f.sig.ident.to_string(), binding, public(&f.vis));
                        }
                    }
                }
                _ => {
                    if let Some((name, space, visible)) = defined(item) {
                        let is_trait = matches!(item, Item::Trait(_) | Item::TraitAlias(_));
                        self.bind(id, name, Binding::Item { space, is_trait }, visible);
                    }
                }
            }
        }
        id
    }

    fn bind(&mut self, module: ModId, name: String, binding: Binding, visible: bool) {
        self.modules[module].names.entry(name).or_default().push((binding, visible));
    }

    fn child(&mut self, parsed: &Parsed<'a>, id: ModId, module: &'a syn::ItemMod, dir: &str) {
        let name = module.ident.to_string();
        let name = name.strip_prefix("r#").unwrap_or(&name);
        let file = self.modules[id].file;
        let below = format!("{dir}/{name}");
        let child = if let Some((_, items)) = &module.content {
            self.add(parsed, Some(id), file, items, &below)
        } else {
            let named = path_attribute(&module.attrs);
            let candidates = match &named {
                Some(path) => vec![join(parent_dir(&parsed.sources[file].path), path)],
                None => vec![format!("{below}.rs"), format!("{below}/mod.rs")],
            };
            let found = candidates.iter().find_map(|c| parsed.by_path.get(c.as_str()).copied());
            let Some(child) = found else {
                let line = module.ident.span().start().line;
                let here = &parsed.sources[file].path;
                self.problems.push(format!("{here}:{line}: `mod {name};` has no file"));
                return;
            };
            self.has_children[file] = true;
            if is_test(&parsed.files[child].attrs) {
                return;
            }
            let path = parsed.sources[child].path.as_str();
            let dir = if named.is_some() { parent_dir(path) } else { &below };
            self.add(parsed, Some(id), child, &parsed.files[child].items, dir)
        };
        self.bind(id, name.to_owned(), Binding::Module(child), public(&module.vis));
    }

    fn import(&mut self, module: ModId, item: &syn::ItemUse) {
        let visible = public(&item.vis);
        for leaf in leaves(item) {
            let number = self.imports.len();
            if leaf.glob {
                self.modules[module].globs.push((number, visible));
            } else if let Some(name) = leaf.name.clone() {
                self.bind(module, name, Binding::Import(number), visible);
            }
            self.imports.push(Import { leaf, module });
        }
    }

    /// `outer` is `inner` or a module around it.
    pub(super) fn contains(&self, outer: ModId, inner: ModId) -> bool {
        let mut at = Some(inner);
        while let Some(id) = at {
            if id == outer {
                return true;
            }
            at = self.modules[id].parent;
        }
        false
    }
}

/// `pub` in any form.
pub(super) fn public(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}

fn is_root(path: &str) -> bool {
    match path.strip_prefix("src/bin/") {
        Some(rest) => !rest.contains('/') || rest.ends_with("/main.rs"),
        None => path == "src/lib.rs" || path == "src/main.rs",
    }
}

fn parent_dir(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

fn join(dir: &str, path: &str) -> String {
    let mut parts: Vec<&str> = dir.split('/').collect();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// The attributes say that this is compiled for tests only.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => {
            list.path.is_ident("cfg") && tokens::needs_test(list.tokens.clone())
        }
        syn::Meta::NameValue(_) => false,
    })
}

/// The attributes of an item; none of what syn does not know.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::TraitAlias(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// Name, space and visibility of what an item other than a module or import defines.
pub(super) fn defined(item: &Item) -> Option<(String, Space, bool)> {
    let (ident, space, visibility) = match item {
        Item::Const(i) => (&i.ident, Space::Value, &i.vis),
        Item::Static(i) => (&i.ident, Space::Value, &i.vis),
        Item::Fn(i) => (&i.sig.ident, Space::Value, &i.vis),
        Item::Enum(i) => (&i.ident, Space::Type, &i.vis),
        Item::Trait(i) => (&i.ident, Space::Type, &i.vis),
        Item::TraitAlias(i) => (&i.ident, Space::Type, &i.vis),
        Item::Type(i) => (&i.ident, Space::Type, &i.vis),
        Item::Union(i) => (&i.ident, Space::Type, &i.vis),
        Item::Struct(i) => (&i.ident, Space::Both, &i.vis),
        Item::Macro(i) => {
            let name = i.ident.as_ref()?.to_string();
            return Some((name, Space::Macro, false));
        }
        _ => return None,
    };
    Some((ident.to_string(), space, public(visibility)))
}
