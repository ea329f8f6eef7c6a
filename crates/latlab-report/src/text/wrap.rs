//! Words of a paragraph in lines of a width.

use std::borrow::Cow;

/// `text` in lines of at most `width` columns, words left whole; `first` and `rest` are indents.
pub(super) fn wrap<'t>(
    text: &'t str,
    width: usize,
    first: &'t str,
    rest: &'t str,
) -> Vec<Cow<'t, str>> {
    let options = textwrap::Options::new(width)
        .initial_indent(first)
        .subsequent_indent(rest)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options)
}
