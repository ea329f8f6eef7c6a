use super::*;
use crate::doc::{Axis, Block, Column, Mark, Plot, Scale, Section, Series, SeriesKind, Table};
use latlab_model::finding::{Confidence, Evidence, Finding, Severity};

const EVIL: &str =
    "</script></style><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>\u{1b}[31m\u{0}";

fn plot(kind: SeriesKind, text: &str) -> Plot {
    let axis = |scale| Axis {
        label: text.into(),
        scale,
        categories: vec![text.into(), text.into()],
        bytes: false,
        tight: false,
    };
    let s = Series {
        name: text.into(),
        kind,
        points: vec![(0.0, 0.0), (1.0, 1.0)],
        intervals: vec![(0.0, 1.0), (0.5, 2.0)],
        values: vec![1.0, 2.0],
    };
    Plot {
        id: "p".into(),
        title: text.into(),
        description: text.into(),
        x: axis(Scale::Linear),
        y: axis(Scale::Category),
        series: vec![s.clone(), s],
        marks: vec![
            Mark::X(0.5, text.into()),
            Mark::Y(0.5, text.into()),
            Mark::Band(0.2, 0.4, text.into()),
        ],
    }
}

fn page(text: &str) -> String {
    let mut finding = Finding::typed(text, Severity::Problem, Confidence::Medium)
        .with(Evidence::new(text, text).from(text).of(3))
        .remedy(text);
    finding.claim = text.into();
    finding.why = text.into();
    let mut blocks = vec![
        Block::Text(text.into()),
        Block::Heading(text.into()),
        Block::Warning(text.into()),
        Block::Pairs(vec![(text.into(), text.into())]),
        Block::Table(Table {
            caption: text.into(),
            columns: vec![Column::left(text), Column::right(text)],
            rows: vec![vec![text.into(), text.into()]],
        }),
        Block::Findings(vec![finding]),
        Block::Pre(text.into()),
    ];
    for kind in [
        SeriesKind::Line,
        SeriesKind::Step,
        SeriesKind::Points,
        SeriesKind::Bars,
        SeriesKind::Heat,
        SeriesKind::Spans,
    ] {
        blocks.push(Block::Plot(Box::new(plot(kind, text))));
    }
    let section = |id: &str| Section { id: id.into(), title: text.into(), blocks: blocks.clone() };
    let doc = Doc {
        title: text.into(),
        summary: vec![text.into()],
        sections: vec![section("a"), section("b"), section("c")],
        ..Doc::default()
    };
    let mut out = Vec::new();
    render(&doc, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The page without its own script and style, which are not XML.
fn markup(page: &str) -> String {
    page.replace(&text(SCRIPT), "").replace(&text(STYLE), "")
}

fn text(asset: &[u8]) -> String {
    let mut text = Vec::new();
    inflate(asset, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn the_markup_is_well_formed() {
    for text in ["plain", EVIL, "]]>", "日本 µs"] {
        let page = markup(&page(text));
        let body = page.strip_prefix("<!DOCTYPE html>\n").unwrap();
        let body = body.replace(" hidden>", " hidden=\"\">");
        if let Err(e) = roxmltree::Document::parse(&body) {
            panic!("{text:?}: {e}");
        }
    }
}

#[test]
fn nothing_of_a_run_is_markup() {
    let evil = markup(&page(EVIL));
    let plain = markup(&page("plain"));
    let scripts = |p: &str| p.matches("<script").count();
    assert_eq!(scripts(&evil), scripts(&plain));
    assert!(!evil.contains("<img") && !evil.contains('\u{1b}') && !evil.contains('\u{0}'));
    let escaped = evil.matches("&lt;script&gt;alert(1)").count();
    assert!(escaped > 50, "{escaped}");
}

#[test]
fn no_other_file_is_asked_for() {
    let page = page("plain");
    for reference in ["src=", "href=\"http", "url(", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(reference), "{reference}");
    }
    let addresses = page.matches("http").count() - page.matches("http-equiv").count();
    let known = page.matches("http://www.w3.org/2000/svg").count()
        + page.matches("https://github.com/leeoniya/uPlot").count();
    assert_eq!(addresses, known, "only the SVG name space and uPlot's licence note");
}

#[test]
fn the_policy_allows_the_script_that_is_there() {
    use base64::Engine;
    use sha2::Digest;
    let digest = sha2::Sha256::digest(text(SCRIPT));
    let hash = base64::engine::general_purpose::STANDARD.encode(digest);
    assert_eq!(SCRIPT_HASH.trim(), format!("sha256-{hash}"));
}
