//! Walks the code of each module and resolves every path in it.

use super::graph::{CrateUse, Edge, Graph};
use super::resolve::{Resolver, Scope, Target};
use super::tokens;
use super::tree::{self, FileId, ModId, Space, attributes, is_test, public};
use super::written::{Leaf, Written, leaves};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::HashSet;
use syn::visit::{self, Visit};
use syn::{Expr, Item, Pat, Stmt};

/// What of a name's definitions a place can mean.
#[derive(Clone, Copy, PartialEq)]
enum Want {
    Any,
    Type,
    Value,
}

/// Collects the edges and crate uses of one module.
pub(super) struct Collector<'a> {
    resolver: &'a Resolver<'a>,
    crates: &'a [String],
    module: ModId,
    file: FileId,
    scopes: Vec<Scope>,
    /// Lower-case names that patterns of the function bind.
    variables: HashSet<String>,
    in_function: bool,
    /// Names used alone.
    singles: HashSet<String>,
    /// Imports that name a module and something else: an edge if the name is used alone.
    ambiguous: Vec<(String, Edge)>,
    graph: &'a mut Graph,
}

impl<'a> Collector<'a> {
    /// Adds to `graph` what the code of `module` refers to; `crates` are the names in paths of
    /// the workspace's other crates.
    pub(super) fn run(
        resolver: &'a Resolver<'a>,
        crates: &'a [String],
        module: ModId,
        graph: &'a mut Graph,
    ) {
        let this = &resolver.tree.modules[module];
        let mut collector = Collector {
            resolver,
            crates,
            module,
            file: this.file,
            scopes: Vec::new(),
            variables: HashSet::new(),
            in_function: false,
            singles: HashSet::new(),
            ambiguous: Vec::new(),
            graph,
        };
        for item in this.items {
            collector.visit_item(item);
        }
        let Collector { singles, ambiguous, graph, .. } = collector;
        let used = ambiguous.into_iter().filter(|(name, _)| singles.contains(name));
        graph.edges.extend(used.map(|(_, edge)| edge));
    }

    fn targets(&mut self, path: &Written) -> Vec<Target> {
        let targets = self.resolver.resolve(self.module, &self.scopes, path);
        if let Some(first) = path.segments.first()
            && self.crates.contains(first)
            && targets.contains(&Target::Foreign)
            && (path.absolute || self.resolver.is_foreign(self.module, &self.scopes, first))
        {
            let (file, line, path) = (self.file, path.line, path.text());
            self.graph.crates.push(CrateUse { name: first.clone(), file, line, path });
        }
        targets
    }

    /// A path in code.
    fn refer(&mut self, path: &Written, want: Want) {
        if let Some(name) = path.single() {
            self.singles.insert(name.to_owned());
        }
        for target in self.targets(path) {
            let Target::Item { file, space, .. } = target else { continue };
            let fits = match want {
                Want::Any => true,
                Want::Type => matches!(space, Space::Type | Space::Both),
                Want::Value => matches!(space, Space::Value | Space::Both),
            };
            if fits || path.single().is_none() {
                self.edge(file, path);
            }
        }
    }

    fn edge(&mut self, to: FileId, path: &Written) {
        if to != self.file {
            let edge = Edge { from: self.file, to, line: path.line, path: path.text() };
            self.graph.edges.push(edge);
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for found in tokens::paths(tokens) {
            match found.path.single() {
                Some(name) if !found.call && !name.starts_with(char::is_uppercase) => {}
                Some(_) if found.call => self.refer(&found.path, Want::Value),
                _ => self.refer(&found.path, Want::Any),
            }
        }
    }

    /// An import that is no re-export of a file with modules below it.
    fn import(&mut self, leaf: &Leaf) {
        let targets = self.targets(&leaf.path);
        let names_module = targets.iter().any(|t| matches!(t, Target::Module(_)));
        let mut written = leaf.path.clone();
        if leaf.glob {
            written.segments.push("*".to_owned());
        }
        for target in targets {
            match target {
                Target::Module(id) if leaf.glob => {
                    for file in self.resolver.glob_traits(id, self.module) {
                        self.edge(file, &written);
                    }
                }
                Target::Item { file, .. } if names_module && file != self.file => {
                    let (from, line, path) = (self.file, written.line, written.text());
                    let name = leaf.name.clone().unwrap_or_default();
                    self.ambiguous.push((name, Edge { from, to: file, line, path }));
                }
                Target::Item { file, .. } => self.edge(file, &written),
                Target::Module(_) | Target::Foreign => {}
            }
        }
    }

    /// Enters a block: what its items bring into scope, one after the other.
    fn enter(&mut self, block: &syn::Block) {
        self.scopes.push(Scope::default());
        for statement in &block.stmts {
            let Stmt::Item(item) = statement else { continue };
            if is_test(attributes(item)) {
                continue;
            }
            if let Item::Use(item) = item {
                for leaf in leaves(item) {
                    self.import(&leaf);
                    let targets = self.resolver.resolve(self.module, &self.scopes, &leaf.path);
                    let Some(scope) = self.scopes.last_mut() else { return };
                    if let Some(name) = leaf.name {
                        scope.names.entry(name).or_default().extend(targets);
                    } else if leaf.glob {
                        scope.globs.extend(targets.iter().filter_map(|t| match t {
                            Target::Module(id) => Some(*id),
                            _ => None,
                        }));
                    }
                }
            } else if let Some((name, space, _)) = tree::defined(item)
                && let Some(scope) = self.scopes.last_mut()
            {
                let target = Target::Item { file: self.file, space, is_trait: false };
                scope.names.entry(name).or_default().push(target);
            }
        }
    }

    /// Visits a function with the variables that it binds.
    fn function(&mut self, bind: impl FnOnce(&mut Variables), walk: impl FnOnce(&mut Self)) {
        if self.in_function {
            return walk(self);
        }
        let mut variables = Variables::default();
        bind(&mut variables);
        self.variables = variables.0;
        self.in_function = true;
        walk(self);
        self.in_function = false;
        self.variables.clear();
    }
}

/// Lower-case names bound by patterns.
#[derive(Default)]
struct Variables(HashSet<String>);

impl<'ast> Visit<'ast> for Variables {
    fn visit_pat_ident(&mut self, pat: &'ast syn::PatIdent) {
        let name = pat.ident.to_string();
        if !name.starts_with(char::is_uppercase) {
            self.0.insert(name);
        }
        visit::visit_pat_ident(self, pat);
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    // Modules are nodes of their own.
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !self.scopes.is_empty() {
            // The block has entered it.
            return;
        }
        let facade = public(&item.vis) && self.resolver.tree.has_children[self.file];
        for leaf in leaves(item) {
            if facade {
                self.targets(&leaf.path);
            } else {
                self.import(&leaf);
            }
        }
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        let (segments, line) = (vec![item.ident.to_string()], item.ident.span().start().line);
        self.targets(&Written { absolute: true, segments, line });
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(|v| v.visit_item_fn(item), |this| visit::visit_item_fn(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(|v| v.visit_impl_item_fn(item), |t| visit::visit_impl_item_fn(t, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(|v| v.visit_trait_item_fn(item), |t| visit::visit_trait_item_fn(t, item));
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let test = match item {
            syn::ImplItem::Const(i) => is_test(&i.attrs),
            syn::ImplItem::Fn(i) => is_test(&i.attrs),
            syn::ImplItem::Type(i) => is_test(&i.attrs),
            syn::ImplItem::Macro(i) => is_test(&i.attrs),
            _ => false,
        };
        if !test {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_test(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if !is_test(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !is_test(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_test(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_field_value(&mut self, value: &'ast syn::FieldValue) {
        if !is_test(&value.attrs) {
            visit::visit_field_value(self, value);
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.enter(block);
        visit::visit_block(self, block);
        self.scopes.pop();
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    /// Of attributes, only the paths in strings of serde and schemars refer to code.
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let syn::Meta::List(list) = &attribute.meta else { return };
        if !(list.path.is_ident("serde") || list.path.is_ident("schemars")) {
            return;
        }
        for token in list.tokens.clone() {
            let TokenTree::Literal(literal) = token else { continue };
            let text = literal.to_string();
            let text = text.trim_matches('"');
            let word =
                |s: &str| !s.is_empty() && s.chars().all(|c| c == '_' || c.is_alphanumeric());
            if text.contains("::") && text.split("::").all(word) {
                let segments = text.split("::").map(str::to_owned).collect();
                let line = literal.span().start().line;
                self.refer(&Written { absolute: false, segments, line }, Want::Any);
            }
        }
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        let path = Written::of_path(&invocation.path);
        if path.single().is_none() {
            self.refer(&path, Want::Any);
        }
        self.tokens(invocation.tokens.clone());
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(function) = &*call.func
            && let path = Written::of_path(&function.path)
            && path.single().is_some()
        {
            self.refer(&path, Want::Value);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_path(&mut self, expression: &'ast syn::ExprPath) {
        let path = Written::of_path(&expression.path);
        match path.single() {
            Some(name) if self.variables.contains(name) => {
                visit::visit_path_arguments(self, &expression.path.segments[0].arguments);
            }
            Some(_) => {
                self.refer(&path, Want::Value);
                visit::visit_path_arguments(self, &expression.path.segments[0].arguments);
            }
            None => visit::visit_expr_path(self, expression),
        }
    }

    fn visit_pat(&mut self, pat: &'ast Pat) {
        if let Pat::Ident(ident) = pat
            && ident.ident.to_string().starts_with(char::is_uppercase)
        {
            let (segments, line) = (vec![ident.ident.to_string()], ident.ident.span().start().line);
            self.refer(&Written { absolute: false, segments, line }, Want::Value);
        }
        visit::visit_pat(self, pat);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.refer(&Written::of_path(path), Want::Type);
        visit::visit_path(self, path);
    }
}
