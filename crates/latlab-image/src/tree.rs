//! A file system as data: paths with owner, permissions and content.
//!
//! Packages and what QEMU gives back come in as tar archives; the initial RAM
//! disk's modules, the user's keys and our own files are put on top; `ext4`
//! makes a file system of it. Nobody has to be root for that, because owners
//! are only numbers here. Paths have no leading slash; order is by name.

use latlab_target::{Result, TargetError};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Links that are followed in one path before it is called a loop.
const LINKS_MAX: usize = 40;

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File(Arc<[u8]>),
    /// A directory.
    Folder,
    /// A symbolic link.
    Symlink(String),
    /// Another name of the file at this path.
    Hardlink(String),
}

/// One path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Permissions with set-id bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last change of the content, seconds since 1970.
    pub mtime_s: u64,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: BTreeMap<String, Node>,
}

impl Tree {
    /// Paths and what they are, sorted, parents before their children.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(p, n)| (p.as_str(), n))
    }

    /// What is at a path; its parents may be links.
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(&self.canonical(path)?)
    }

    /// The content of a file, through links.
    pub fn content(&self, path: &str) -> Option<&[u8]> {
        let mut path = self.canonical(path)?;
        for _ in 0..LINKS_MAX {
            match &self.nodes.get(&path)?.kind {
                Kind::File(data) => return Some(data),
                Kind::Hardlink(to) => path = to.clone(),
                Kind::Symlink(to) => path = self.canonical(&target(&path, to))?,
                Kind::Folder => return None,
            }
        }
        None
    }

    /// A file of root's; folders above it are made.
    pub fn put(&mut self, path: &str, mode: u32, data: impl Into<Arc<[u8]>>, mtime_s: u64) {
        self.insert(path, Node { kind: Kind::File(data.into()), mode, uid: 0, gid: 0, mtime_s });
    }

    /// A folder of root's, with those above it.
    pub fn folder(&mut self, path: &str, mode: u32, mtime_s: u64) {
        self.insert(path, Node { kind: Kind::Folder, mode, uid: 0, gid: 0, mtime_s });
    }

    /// A symbolic link.
    pub fn symlink(&mut self, path: &str, to: &str, mtime_s: u64) {
        let kind = Kind::Symlink(to.to_owned());
        self.insert(path, Node { kind, mode: 0o777, uid: 0, gid: 0, mtime_s });
    }

    /// Puts a node in its place: a path whose parents are links goes where they lead, and an
    /// existing folder, or a link to one, keeps its place when a folder comes.
    pub fn insert(&mut self, path: &str, node: Node) {
        let Some(path) = self.canonical(path).filter(|p| !p.is_empty()) else { return };
        if node.kind == Kind::Folder {
            match self.nodes.get_mut(&path) {
                Some(there) if matches!(there.kind, Kind::Symlink(_)) => return,
                Some(there) if there.kind == Kind::Folder => {
                    *there = node;
                    return;
                }
                _ => {}
            }
        }
        let mut above = path.as_str();
        while let Some((parent, _)) = above.rsplit_once('/') {
            let (mode, mtime_s) = (0o755, node.mtime_s);
            self.nodes.entry(parent.to_owned()).or_insert(Node {
                kind: Kind::Folder,
                mode,
                uid: 0,
                gid: 0,
                mtime_s,
            });
            above = parent;
        }
        self.nodes.insert(path, node);
    }

    /// Removes a path and all below it.
    pub fn remove(&mut self, path: &str) {
        let Some(path) = self.canonical(path) else { return };
        let below = format!("{path}/");
        self.nodes.retain(|p, _| *p != path && !p.starts_with(&below));
    }

    /// Keeps what `keep` says, by path.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Node) -> bool) {
        self.nodes.retain(|p, n| keep(p, n));
    }

    /// Changes every node.
    pub fn each(&mut self, mut change: impl FnMut(&str, &mut Node)) {
        self.nodes.iter_mut().for_each(|(p, n)| change(p, n));
    }

    /// Bytes of all files in whole blocks.
    pub fn bytes(&self, block: u64) -> u64 {
        let of = |node: &Node| match &node.kind {
            Kind::File(data) => (data.len() as u64).next_multiple_of(block),
            Kind::Folder => block,
            Kind::Symlink(_) | Kind::Hardlink(_) => 0,
        };
        self.nodes.values().map(of).sum()
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The path with the links among its parents followed; its last part is taken as it is.
    fn canonical(&self, path: &str) -> Option<String> {
        self.canonical_within(path, LINKS_MAX)
    }

    fn canonical_within(&self, path: &str, links: usize) -> Option<String> {
        let mut parts: Vec<&str> = Vec::new();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let mut at = String::new();
        for (i, part) in parts.iter().enumerate() {
            if !at.is_empty() {
                at.push('/');
            }
            at.push_str(part);
            if i + 1 == parts.len() {
                break;
            }
            if let Some(Node { kind: Kind::Symlink(to), .. }) = self.nodes.get(&at) {
                let rest = parts[i + 1..].join("/");
                let onward = format!("{}/{rest}", target(&at, to));
                return self.canonical_within(&onward, links.checked_sub(1)?);
            }
        }
        Some(at)
    }

    /// Adds everything of a tar archive that `keep` wants; `source` names it in errors.
    pub fn read_tar(
        &mut self,
        tar: impl Read,
        source: &Path,
        keep: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>> {
        let mut archive = tar::Archive::new(tar);
        let mut names = Vec::new();
        let failed = TargetError::file;
        for entry in archive.entries().map_err(failed(source))? {
            let mut entry = entry.map_err(failed(source))?;
            let path = String::from_utf8(entry.path_bytes().into_owned())
                .map_err(|_| content(source, "a name in it is not UTF-8"))?;
            let path = path.trim_start_matches("./").trim_matches('/').to_owned();
            if path.is_empty() || path == "." {
                continue;
            }
            if path.contains(['"', '\n']) || path.split('/').any(|p| p == "..") {
                return Err(content(source, &format!("it holds an unusable name: {path:?}")));
            }
            names.push(path.clone());
            if !keep(&path) {
                continue;
            }
            let header = entry.header();
            let failed = failed(source);
            let node = (|| {
                Ok(Node {
                    kind: Kind::Folder,
                    mode: header.mode()? & 0o7777,
                    uid: u32::try_from(header.uid()?).unwrap_or(0),
                    gid: u32::try_from(header.gid()?).unwrap_or(0),
                    mtime_s: header.mtime()?,
                })
            })()
            .map_err(failed)?;
            if let Some(kind) = self.kind_of(&mut entry, source)? {
                self.insert(&path, Node { kind, ..node });
            }
        }
        Ok(names)
    }

    /// Devices and their like are left out: the kernel makes them.
    fn kind_of(
        &self,
        entry: &mut tar::Entry<'_, impl Read>,
        source: &Path,
    ) -> Result<Option<Kind>> {
        use tar::EntryType;
        let link = |entry: &tar::Entry<'_, _>| {
            let name = entry.link_name_bytes().map(|n| n.into_owned()).unwrap_or_default();
            String::from_utf8(name).map_err(|_| content(source, "a link in it is not UTF-8"))
        };
        Ok(match entry.header().entry_type() {
            EntryType::Directory => Some(Kind::Folder),
            EntryType::Symlink => Some(Kind::Symlink(link(entry)?)),
            EntryType::Link => self.canonical(&link(entry)?).map(Kind::Hardlink),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let mut data = Vec::new();
                entry.read_to_end(&mut data).map_err(TargetError::file(source))?;
                Some(Kind::File(data.into()))
            }
            _ => None,
        })
    }

    /// Writes everything as a tar archive, in order.
    pub fn write_tar(&self, out: impl std::io::Write) -> std::io::Result<()> {
        let mut builder = tar::Builder::new(out);
        for (path, node) in self.iter() {
            let mut header = tar::Header::new_gnu();
            header.set_mode(node.mode);
            header.set_uid(node.uid.into());
            header.set_gid(node.gid.into());
            header.set_mtime(node.mtime_s);
            header.set_size(0);
            match &node.kind {
                Kind::File(data) => {
                    header.set_entry_type(tar::EntryType::Regular);
                    header.set_size(data.len() as u64);
                    builder.append_data(&mut header, path, &data[..])?;
                }
                Kind::Folder => {
                    header.set_entry_type(tar::EntryType::Directory);
                    builder.append_data(&mut header, format!("{path}/"), std::io::empty())?;
                }
                Kind::Symlink(to) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    builder.append_link(&mut header, path, to)?;
                }
                Kind::Hardlink(to) => {
                    header.set_entry_type(tar::EntryType::Link);
                    builder.append_link(&mut header, path, to)?;
                }
            }
        }
        builder.into_inner()?.flush()
    }
}

/// Where a link at `path` leads, from the root.
fn target(path: &str, to: &str) -> String {
    match (to.strip_prefix('/'), path.rsplit_once('/')) {
        (Some(absolute), _) => absolute.to_owned(),
        (None, Some((parent, _))) => format!("{parent}/{to}"),
        (None, None) => to.to_owned(),
    }
}

fn content(path: &Path, reason: &str) -> TargetError {
    TargetError::Content {
        path: path.to_path_buf(),
        reason: reason.to_owned(),
        hint: "latlab image clean, then build again".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_ships_bin_goes_where_bin_leads() {
        let mut tree = Tree::default();
        tree.symlink("bin", "usr/bin", 1);
        tree.folder("bin", 0o755, 1);
        tree.put("bin/sh", 0o755, &b"x"[..], 1);
        assert_eq!(tree.get("usr/bin/sh").unwrap().mode, 0o755);
        assert_eq!(tree.content("/bin/sh"), Some(&b"x"[..]));
        assert!(matches!(tree.get("bin").unwrap().kind, Kind::Symlink(_)));
        tree.symlink("etc/shell", "../bin/sh", 1);
        assert_eq!(tree.content("etc/shell"), Some(&b"x"[..]));
    }

    #[test]
    fn links_in_a_ring_end() {
        let mut tree = Tree::default();
        tree.symlink("a", "b", 1);
        tree.symlink("b", "a", 1);
        assert_eq!(tree.content("a"), None);
        assert_eq!(tree.content("a/x"), None);
        tree.put("a/x", 0o644, &b""[..], 1);
        assert_eq!(tree.len(), 2);
    }

    #[test]
    fn an_archive_comes_back_as_it_was() {
        let mut tree = Tree::default();
        tree.put("usr/bin/a", 0o4755, &b"program"[..], 5);
        let long = format!("usr/share/{}", "long/".repeat(40));
        tree.put(&format!("{long}name"), 0o640, &b""[..], 6);
        tree.symlink("usr/lib/b", "/etc/b", 7);
        let hard = Kind::Hardlink("usr/bin/a".into());
        let node = Node { kind: hard, mode: 0o4755, uid: 3, gid: 4, mtime_s: 5 };
        tree.insert("usr/bin/c", node);
        let mut bytes = Vec::new();
        tree.write_tar(&mut bytes).unwrap();
        let mut again = Tree::default();
        again.read_tar(&bytes[..], Path::new("x"), |_| true).unwrap();
        assert_eq!(tree.nodes, again.nodes);
        assert_eq!(again.content("usr/bin/c"), Some(&b"program"[..]));
        assert!(again.read_tar(&bytes[..700], Path::new("x"), |_| true).is_err());
    }
}
