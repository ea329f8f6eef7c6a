//! A path as the source text has it.

use syn::UseTree;

/// A path with its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    /// Begins with `::`.
    pub absolute: bool,
    pub segments: Vec<String>,
    /// Line of the last segment, from 1.
    pub line: usize,
}

impl Written {
    pub(super) fn of_path(path: &syn::Path) -> Written {
        Written {
            absolute: path.leading_colon.is_some(),
            segments: path.segments.iter().map(|s| s.ident.to_string()).collect(),
            line: path.segments.last().map_or(0, |s| s.ident.span().start().line),
        }
    }

    pub(super) fn text(&self) -> String {
        let start = if self.absolute { "::" } else { "" };
        format!("{start}{}", self.segments.join("::"))
    }

    /// The name when the path is a single one.
    pub(super) fn single(&self) -> Option<&str> {
        match self.segments.as_slice() {
            [name] if !self.absolute => Some(name),
            _ => None,
        }
    }
}

/// One name, or all names, that a `use` brings into scope.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    pub path: Written,
    /// The name in scope; None for a glob and for `as _`.
    pub name: Option<String>,
    pub glob: bool,
}

/// The leaves of a `use` item; `{self}` and `self as name` become the path before them.
pub(super) fn leaves(item: &syn::ItemUse) -> Vec<Leaf> {
    let mut out = Vec::new();
    flatten(&item.tree, &mut Vec::new(), item.leading_colon.is_some(), &mut out);
    out
}

fn flatten(tree: &UseTree, prefix: &mut Vec<String>, absolute: bool, out: &mut Vec<Leaf>) {
    let mut leaf = |ident: Option<&syn::Ident>, alias: Option<String>, line: usize| {
        let mut segments = prefix.clone();
        if let Some(ident) = ident
            && (ident != "self" || segments.is_empty())
        {
            segments.push(ident.to_string());
        }
        let name = alias.or_else(|| segments.last().cloned()).filter(|n| n != "_");
        let name = if ident.is_none() { None } else { name };
        out.push(Leaf { path: Written { absolute, segments, line }, name, glob: ident.is_none() });
    };
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, absolute, out);
            prefix.pop();
        }
        UseTree::Name(name) => leaf(Some(&name.ident), None, name.ident.span().start().line),
        UseTree::Rename(rename) => leaf(
            Some(&rename.ident),
            Some(rename.rename.to_string()),
            rename.ident.span().start().line,
        ),
        UseTree::Glob(glob) => leaf(None, None, glob.star_token.spans[0].start().line),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, absolute, out);
            }
        }
    }
}
