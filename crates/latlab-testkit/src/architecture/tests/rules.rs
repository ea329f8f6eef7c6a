//! What the blocks of `ARCHITECTURE.md` allow.

use super::super::{Package, Source, check};

const WORKSPACE: [&str; 3] = ["latlab-a", "latlab-b", "latlab-testkit"];

fn package(name: &str, manifest: &str, files: &[(&str, &str)]) -> Package {
    let source = |(path, text): &(&str, &str)| Source {
        path: format!("src/{path}"),
        text: (*text).to_owned(),
    };
    let sources: Vec<Source> = files.iter().map(source).collect();
    Package::new(name, manifest, &sources, &WORKSPACE.map(str::to_owned)).unwrap()
}

fn blocks(arrows: &str, cycles: &str) -> String {
    format!("# A\n```arrows\n{arrows}\n```\n\n```cycles\n{cycles}\n```\n")
}

const A_ON_B: &str = "[package]\nname = \"latlab-a\"\n[dependencies]\nlatlab-b.workspace = true\n";

#[test]
fn the_structure_as_written_has_no_departures() {
    let a = package("latlab-a", A_ON_B, &[("lib.rs", "use latlab_b::X;")]);
    let b = package("latlab-b", "", &[("lib.rs", "pub struct X;")]);
    let none: [&str; 0] = [];
    assert_eq!(check(&blocks("latlab-a -> latlab-b\nlatlab-b ->", ""), &[a, b]), none);
}

#[test]
fn arrows_that_are_not_allowed_are_told_with_their_place() {
    let a = package("latlab-a", A_ON_B, &[("lib.rs", "\nuse latlab_b::X;")]);
    let optional = "[target.'cfg(unix)'.dependencies]\nold = { package = \"latlab-a\", optional = true, path = \"x\" }";
    let b = package("latlab-b", optional, &[("lib.rs", "")]);
    assert_eq!(
        check(&blocks("latlab-a ->\nlatlab-b ->", ""), &[a, b]),
        [
            "crates/latlab-a/Cargo.toml:4: latlab-a depends on latlab-b, which ARCHITECTURE.md:3 does not allow",
            "crates/latlab-a/src/lib.rs:2: latlab-a uses `latlab_b::X`, which ARCHITECTURE.md:3 does not allow",
            "crates/latlab-b/Cargo.toml:2: latlab-b depends on latlab-a, which ARCHITECTURE.md:4 does not allow",
        ]
    );
}

#[test]
fn crates_and_arrows_must_be_there_on_both_sides() {
    let a = package("latlab-a", "", &[("lib.rs", "")]);
    let b = package("latlab-b", "", &[("lib.rs", "")]);
    assert_eq!(
        check(&blocks("latlab-a -> latlab-b\nlatlab-old ->", "latlab-older: 2"), &[a, b]),
        [
            "ARCHITECTURE.md:3: latlab-a -> latlab-b is allowed, but crates/latlab-a/Cargo.toml does not depend on it",
            "crates/latlab-b/Cargo.toml:1: latlab-b has no line in block arrows of ARCHITECTURE.md",
            "ARCHITECTURE.md:4: there is no crate latlab-old",
            "ARCHITECTURE.md:8: there is no crate latlab-older",
        ]
    );
}

#[test]
fn a_dev_dependency_makes_no_loop_except_on_the_testkit() {
    let a = package("latlab-a", A_ON_B, &[("lib.rs", "")]);
    let dev = "[dev-dependencies]\nlatlab-testkit = { path = \"t\" }\nlatlab-a = { path = \"a\" }";
    let b = package("latlab-b", dev, &[("lib.rs", "#[cfg(test)] mod tests { use latlab_a::X; }")]);
    let testkit = "[dependencies]\nlatlab-a.workspace = true";
    let testkit = package("latlab-testkit", testkit, &[("lib.rs", "")]);
    let arrows = "latlab-a -> latlab-b\nlatlab-b ->\nlatlab-testkit -> latlab-a";
    assert_eq!(
        check(&blocks(arrows, ""), &[a, b, testkit]),
        [
            "crates/latlab-b/Cargo.toml:3: tests of latlab-b depend on latlab-a, which depends on latlab-b"
        ]
    );
}

#[test]
fn cycles_are_neither_more_nor_fewer_than_written() {
    let circle = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub struct A(\ncrate::b::B);"),
        ("b.rs", "use super::a::A; pub struct B;"),
    ];
    let a = [package("latlab-a", "", &circle)];
    let with = |cycles| check(&blocks("latlab-a ->", cycles), &a);
    assert_eq!(with("latlab-a: 2"), [""; 0]);
    assert_eq!(
        with(""),
        [
            "latlab-a: files in cycles 2, ARCHITECTURE.md allows none\n  a cycle of 2 files in latlab-a:\
          \n    src/a.rs:2: `crate::b::B` -> src/b.rs\n    src/b.rs:1: `super::a::A` -> src/a.rs"
        ]
    );
    for (written, sizes) in [("latlab-a: 3", "3"), ("latlab-a: 2 + 2", "2+2")] {
        assert_eq!(
            with(written),
            [format!(
                "ARCHITECTURE.md:7: latlab-a has fewer cycles than its line in block cycles says ({sizes}); write `latlab-a: 2`"
            )]
        );
    }
    let none = [package("latlab-a", "", &[("lib.rs", "")])];
    assert_eq!(
        check(&blocks("latlab-a ->", "latlab-a: 2"), &none),
        [
            "ARCHITECTURE.md:7: latlab-a has fewer cycles than its line in block cycles says (2); write no line"
        ]
    );
}

#[test]
fn blocks_that_cannot_be_read_are_told() {
    let none = |text: &str| check(text, &[]);
    assert_eq!(
        none("# A\n"),
        [
            "ARCHITECTURE.md has no block that begins with ```arrows",
            "ARCHITECTURE.md has no block that begins with ```cycles",
        ]
    );
    assert_eq!(
        none(&blocks("latlab-a", "latlab-a: 2+3")),
        [
            "ARCHITECTURE.md:3: expected `crate -> crate …`, found `latlab-a`",
            "ARCHITECTURE.md:7: expected `crate: N+M`, found `latlab-a: 2+3`",
        ]
    );
}

#[test]
fn a_file_that_cannot_be_parsed_is_told_with_its_line() {
    let source = Source { path: "src/lib.rs".into(), text: "fn f() {}\nfn {}".into() };
    let error = Package::new("latlab-a", "", &[source], &[]).unwrap_err().to_string();
    assert!(error.starts_with("crates/latlab-a/src/lib.rs:2 cannot be parsed: "), "{error}");
    let error = Package::new("latlab-a", "[", &[], &[]).unwrap_err().to_string();
    assert!(error.starts_with("crates/latlab-a/Cargo.toml cannot be read: "), "{error}");
}
