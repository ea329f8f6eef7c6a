//! What several targets do with an input.

/// As in the program; what to do about an error is for people.
pub mod outcome {
    pub trait HintExt<T> {
        fn hint(self, hint: impl Into<String>) -> anyhow::Result<T>;
    }
    impl<T, E: Into<anyhow::Error>> HintExt<T> for Result<T, E> {
        fn hint(self, _: impl Into<String>) -> anyhow::Result<T> {
            self.map_err(Into::into)
        }
    }
}

use latlab_analysis::compare;
use latlab_analysis::compare::subject::{Source, Subject};
use latlab_model::run::{Detail, Part, Run};
use latlab_report::{html, markdown, sections, text};
use std::io;

/// Bytes that the sections of one trace file may inflate to: far below the limit of the process.
pub const MEMORY: u64 = 64 << 20;

/// A part with a detail and nothing else.
pub fn part_of(name: &str, detail: Detail) -> Part {
    Part { name: name.to_owned(), detail: Some(detail), ..Part::default() }
}

/// Compares a result with itself, and renders that.
pub fn compare_with_itself(source: &Source) {
    let subject = |label: &str| Subject {
        label: label.to_owned(),
        runs: vec![source.clone()],
        published: &[],
    };
    let detail = compare::compare(&[subject("a"), subject("b")], &Default::default());
    render(&Run {
        parts: vec![part_of("compare", Detail::Compare(Box::new(detail)))],
        ..Run::default()
    });
}

/// Renders a run in every format that takes any run.
pub fn render(run: &Run) {
    let doc = sections::of_run(run);
    let options = text::TextOptions { width: 40, color: true, ..text::TextOptions::default() };
    // A sink has no errors of its own.
    let out = &mut io::sink();
    text::render(&doc, &options, out).expect("text");
    html::render(&doc, out).expect("page");
    markdown::render(&doc, out).expect("markdown");
}
