//! What a `Cargo.toml` depends on.

use toml::de::{DeTable, DeValue};

/// What a dependency is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The crate itself, optional ones and those of build scripts included.
    Normal,
    /// Tests, examples and benchmarks.
    Dev,
}

/// One entry of a table of dependencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The package, also where the entry renames it.
    pub name: String,
    /// For what.
    pub kind: Kind,
    /// Line in the manifest, from 1.
    pub line: usize,
}

/// All dependencies of a manifest, those of targets included. An error is the parser's sentence.
pub(super) fn dependencies(text: &str) -> Result<Vec<Dependency>, toml::de::Error> {
    let table = DeTable::parse(text)?;
    let mut out = Vec::new();
    sections(text, table.get_ref(), &mut out);
    if let Some(DeValue::Table(targets)) = table.get_ref().get("target").map(|t| t.get_ref()) {
        for target in targets.values() {
            if let DeValue::Table(target) = target.get_ref() {
                sections(text, target, &mut out);
            }
        }
    }
    Ok(out)
}

fn sections(text: &str, table: &DeTable<'_>, out: &mut Vec<Dependency>) {
    for (section, kind) in [
        ("dependencies", Kind::Normal),
        ("build-dependencies", Kind::Normal),
        ("dev-dependencies", Kind::Dev),
    ] {
        let Some(DeValue::Table(entries)) = table.get(section).map(|s| s.get_ref()) else {
            continue;
        };
        for (key, value) in entries {
            let renamed = match value.get_ref() {
                DeValue::Table(entry) => entry.get("package").and_then(|p| p.get_ref().as_str()),
                _ => None,
            };
            let name = renamed.unwrap_or(key.get_ref()).to_owned();
            let line = text[..key.span().start].matches('\n').count() + 1;
            out.push(Dependency { name, kind, line });
        }
    }
}
