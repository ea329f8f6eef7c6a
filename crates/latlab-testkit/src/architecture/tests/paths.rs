//! From paths to edges.

use super::{cycles, edges, graph};

#[test]
fn a_chain_of_re_exports_leads_to_the_definition() {
    let found = edges(&[
        ("lib.rs", "mod outer; mod user; pub use outer::Renamed;"),
        ("outer/mod.rs", "mod inner; pub use inner::Thing as Renamed;"),
        ("outer/inner.rs", "pub struct Thing;"),
        ("user.rs", "use crate::Renamed;\nfn f() { crate::outer::Renamed::new(); }"),
    ]);
    assert_eq!(
        found,
        ["user:1 crate::Renamed outer/inner", "user:2 crate::outer::Renamed::new outer/inner"]
    );
}

#[test]
fn a_glob_leads_to_each_name_used_and_to_traits() {
    let lib = ("lib.rs", "mod all; mod user;");
    let all = ("all/mod.rs", "mod a; mod b; mod c; pub use a::*; pub use b::*; pub use c::*;");
    let a = ("all/a.rs", "pub fn used() {} fn hidden() {}");
    let b = ("all/b.rs", "pub struct Unused; use crate::user::X as Result;\nfn g() -> Result {}");
    let c = ("all/c.rs", "pub trait Method { fn call(&self); }");
    let user = (
        "user.rs",
        "use crate::all::*;\npub struct X;\nfn f() -> Result<u8> { used(); hidden(); Vec::new() }",
    );
    assert_eq!(
        edges(&[lib, all, a, b, c, user]),
        [
            "all/b:1 crate::user::X user",
            "all/b:2 Result user",
            "user:3 used all/a",
            "user:1 crate::all::* all/c",
        ]
    );
}

#[test]
fn globs_in_a_circle_end() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub use crate::b::*;\nfn f() { nothing(); Thing; }"),
        ("b.rs", "pub use crate::a::*; pub struct Thing;"),
    ]);
    assert_eq!(found, ["a:2 Thing b"]);
}

#[test]
fn super_is_counted_through_inline_modules() {
    let found = edges(&[
        ("lib.rs", "mod a;\npub fn root() {}"),
        ("a/mod.rs", "mod b;\npub fn middle() {}"),
        (
            "a/b.rs",
            "fn f() { super::super::root() }\nmod inner {\n fn g() { super::super::middle() }\n \
             fn h() { super::super::super::root(); super::f() }\n}",
        ),
    ]);
    assert_eq!(
        found,
        [
            "a/b:1 super::super::root lib",
            "a/b:4 super::super::super::root lib",
            "a/b:3 super::super::middle a/mod",
        ]
    );
}

#[test]
fn an_inline_module_belongs_to_its_file() {
    let found = edges(&[
        ("lib.rs", "mod a; mod user;"),
        ("a.rs", "pub mod inner { pub struct Thing; pub mod deep; }"),
        ("a/inner/deep.rs", "use super::Thing;"),
        ("user.rs", "use crate::a::{inner::{self, Thing as _}};\nfn f() { inner::Thing; }"),
    ]);
    assert_eq!(
        found,
        [
            "a/inner/deep:1 super::Thing a",
            "user:1 crate::a::inner::Thing a",
            "user:2 inner::Thing a",
        ]
    );
}

#[test]
fn tests_are_left_out() {
    let found = edges(&[
        (
            "lib.rs",
            "mod a; mod b; #[cfg(test)] mod tests; #[cfg(all(unix, test))] use b::B;\n\
             #[cfg(any(test, unix))] use b::B as C;",
        ),
        ("tests.rs", "use crate::a::A;"),
        (
            "a.rs",
            "pub struct A { #[cfg(test)] b: crate::b::B }\n#[cfg(test)] mod tests { use crate::b::B; }\n\
             impl A { #[cfg(test)] fn f() { crate::b::B; } }\n#[test] fn t() { crate::b::B; }\n\
             fn g() { #[cfg(test)] let b = crate::b::B; #[cfg(test)] use crate::b::B; }\n\
             #[cfg(not(test))] use crate::b::B;",
        ),
        ("b.rs", "pub struct B;"),
    ]);
    assert_eq!(found, ["lib:2 b::B b", "a:6 crate::b::B b"]);
}

#[test]
fn types_of_a_mod_rs_make_a_cycle_and_its_re_exports_do_not() {
    let lib = ("lib.rs", "mod parts;");
    let child = ("parts/child.rs", "use super::Shared;\npub struct Child(Shared);");
    let facade = graph(&[
        lib,
        ("parts/mod.rs", "mod child; pub use child::Child; pub struct Shared;"),
        child,
    ]);
    assert_eq!(facade.cycles(), [[0; 0]; 0]);
    assert_eq!(facade.edges.len(), 2);

    // The same names, but the code of mod.rs uses what it re-exports.
    let used = graph(&[
        lib,
        ("parts/mod.rs", "mod child; pub use child::Child;\npub struct Shared; type T = Child;"),
        child,
    ]);
    assert_eq!(cycles(&used), [["src/parts/mod.rs", "src/parts/child.rs"]]);
    let back = used.within(&[1, 2]).next().unwrap();
    assert_eq!((back.from, back.to, back.line, back.path.as_str()), (1, 2, 2, "Child"));
}

#[test]
fn a_re_export_of_a_file_without_children_is_an_edge() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub(crate) use crate::b::B;"),
        ("b.rs", "pub struct B;"),
    ]);
    assert_eq!(found, ["a:1 crate::b::B b"]);
}

#[test]
fn paths_among_the_tokens_of_macros_are_seen() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b; mod user;"),
        ("a.rs", "pub const ONE: u8 = 1;\npub enum Kind { X }"),
        ("b/mod.rs", "pub fn two() {}"),
        (
            "user.rs",
            "use crate::b;\nfn f(x: u8) {\n\
             format!(\"{}\", crate::a::ONE);\n\
             matches!(x, super::a::Kind::X if b::two() > 1);\n\
             assert!([x].iter().all(|a| a.b == 0), \"{x}\");\n}\n\
             macro_rules! make { ($b:ident) => {\nuse $crate::a::{Kind, ONE as $b}; $b::two() } }",
        ),
    ]);
    assert_eq!(
        found,
        [
            "user:3 crate::a::ONE a",
            "user:4 super::a::Kind::X a",
            "user:8 crate::a::Kind a",
            "user:8 crate::a::ONE a",
            "user:4 b::two b/mod",
        ]
    );
}

#[test]
fn variables_fields_and_std_paths_named_like_a_module_are_none() {
    let found = edges(&[
        ("lib.rs", "mod fs; mod time; mod user;"),
        ("fs.rs", "pub fn read() {}"),
        ("time/mod.rs", "mod now; pub use now::time;"),
        ("time/now.rs", "pub fn time() {}"),
        (
            "user.rs",
            "use std::fs; use std::time::{self, Duration}; use crate::time as clock;\n\
             struct S { fs: u8, time: u8 }\n\
             fn f(clock: u8, s: S) -> u8 { fs::read(\"x\"); time::Instant::now();\n\
             std::fs::write(\"x\", \"y\"); assert!(clock > s.fs); S { fs: 1, time: clock };\n\
             ::std::time::Duration::ZERO; let fs = clock; fs }\n\
             fn generic<T: Iterator>(x: T::Item) -> Self::T {}",
        ),
    ]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_variable_named_like_a_re_exported_function_is_no_edge_and_its_call_is() {
    let files = |body: &'static str| {
        [("lib.rs", "mod a;"), ("a/mod.rs", body), ("a/budget.rs", "pub fn budget() -> u8 { 1 }")]
    };
    let variable = "mod budget; pub use budget::budget;\nfn f(budget: u8) -> u8 { budget }";
    assert_eq!(edges(&files(variable)), [""; 0]);
    let call = "mod budget; pub use budget::budget;\nfn f() { let budget = budget(); budget; }";
    assert_eq!(edges(&files(call)), ["a/mod:2 budget a/budget"]);
}

#[test]
fn an_import_of_a_module_and_a_function_counts_what_is_used() {
    let files = |user: &'static str| {
        [
            ("lib.rs", "mod a; mod user;"),
            ("a/mod.rs", "pub mod place; mod other; pub use other::place;"),
            ("a/place.rs", "pub struct P;"),
            ("a/other.rs", "pub fn place() {}"),
            ("user.rs", user),
        ]
    };
    assert_eq!(
        edges(&files("use crate::a::place;\nfn f() { place::P; }")),
        ["user:2 place::P a/place"]
    );
    assert_eq!(
        edges(&files("use crate::a::place;\nfn f() { place(); }")),
        ["user:1 crate::a::place a/other", "user:2 place a/other"]
    );
}

#[test]
fn an_import_in_a_block_is_in_scope_there_only() {
    let found = edges(&[
        ("lib.rs", "mod a; mod user;"),
        ("a.rs", "pub mod b { pub fn f() {} } pub mod same;"),
        (
            "user.rs",
            "fn f() {\n use crate::a; use a::b;\n b::f();\n}\nfn g() { b::f(); }\n\
             fn h() { use crate::a::same; use same::same;\n same() }",
        ),
        ("a/same.rs", "pub fn same() {}"),
    ]);
    assert_eq!(found, ["user:3 b::f a", "user:6 same::same a/same", "user:7 same a/same"]);
}

#[test]
fn both_files_of_a_module_that_has_two_are_followed() {
    let found = edges(&[
        (
            "lib.rs",
            "#[cfg(unix)] mod a;\n#[cfg(not(unix))] #[path = \"none.rs\"] mod a;\nfn f() { a::go() }",
        ),
        ("a.rs", "pub fn go() {}"),
        ("none.rs", "pub fn go() {}"),
    ]);
    assert_eq!(found, ["lib:3 a::go a", "lib:3 a::go none"]);
}

#[test]
fn what_a_macro_makes_is_in_its_module_and_serde_paths_are_followed() {
    let found = edges(&[
        ("lib.rs", "mod ids; mod user;"),
        ("ids.rs", "macro_rules! id { ($n:ident) => {} } pub(crate) use id; id!(Tid);"),
        (
            "user.rs",
            "use crate::ids::Tid;\n#[derive(Clone)] /// [`crate::ids::Tid`]\n\
             struct S {\n#[serde(default = \"crate::ids::tid\")]\na: u8 }\ncrate::ids::id!(X);",
        ),
    ]);
    assert_eq!(
        found,
        ["user:1 crate::ids::Tid ids", "user:4 crate::ids::tid ids", "user:6 crate::ids::id ids"]
    );
}

#[test]
fn other_crates_are_found_wherever_a_path_stands() {
    let graph = graph(&[
        ("lib.rs", "mod latlab_trace;\nuse latlab_core::{a::B, c};\nfn latlab_core() { c::d(); }"),
        ("latlab_trace.rs", "fn f() { format!(\"{}\", latlab_core::X);\n::latlab_trace::f(); }"),
        ("main.rs", "mod own;\nfn main() { latlab_trace::f(); latlab_it::f(); own::f() }"),
        ("own.rs", "pub fn f() {}"),
    ]);
    let found: Vec<_> = graph
        .crates
        .iter()
        .map(|c| format!("{}:{} {}", graph.files[c.file], c.line, c.path))
        .collect();
    assert_eq!(
        found,
        [
            "src/lib.rs:2 latlab_core::a::B",
            "src/lib.rs:2 latlab_core::c",
            "src/latlab_trace.rs:1 latlab_core::X",
            "src/latlab_trace.rs:2 ::latlab_trace::f",
            "src/main.rs:2 latlab_trace::f",
        ]
    );
    let edges: Vec<_> = graph.edges.iter().map(|e| (e.from, e.to, e.path.as_str())).collect();
    assert_eq!(edges, [(2, 0, "latlab_it::f"), (2, 3, "own::f")]);
}

#[test]
fn a_module_without_a_file_is_told() {
    let graph = graph(&[("lib.rs", "mod here;\nmod gone;"), ("here/mod.rs", "")]);
    assert_eq!(graph.problems, ["crates/latlab-it/src/lib.rs:2: `mod gone;` has no file"]);
}

#[test]
fn cycles_are_components_and_the_largest_comes_first() {
    let graph = graph(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e; fn f() { a::f(); d::f() }"),
        ("a.rs", "pub fn f() { super::b::f() }"),
        ("b.rs", "pub fn f() { super::a::f(); super::c::f() }"),
        ("c.rs", "pub fn f() { super::d::f(); super::e::f() }"),
        ("d.rs", "pub fn f() { super::e::f() }"),
        ("e.rs", "pub fn f() { super::c::f() }"),
    ]);
    assert_eq!(
        cycles(&graph),
        [vec!["src/c.rs", "src/d.rs", "src/e.rs"], vec!["src/a.rs", "src/b.rs"]]
    );
}
