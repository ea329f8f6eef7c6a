//! How an option of another tool is written, and what becomes of it.

/// An option of another tool.
#[derive(Clone, Copy)]
pub(super) struct Spelling {
    /// Letters and long names, separated by spaces, without dashes.
    pub(super) names: &'static str,
    pub(super) takes: Takes,
    pub(super) means: Means,
}

pub(super) const fn spelling(names: &'static str, takes: Takes, means: Means) -> Spelling {
    Spelling { names, takes, means }
}

/// Whether the option has a value, and when it is meant rather than clap's of the same name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Value,
    /// In the same word or in the next one, if that is no option.
    Optional,
    /// In the same word only.
    #[cfg(feature = "host")]
    Glued,
    /// Meant if it has a value; otherwise the option is clap's.
    OnlyWith,
    /// Meant if no value follows; otherwise the option is clap's.
    #[cfg(feature = "host")]
    OnlyWithout,
}

/// What becomes of it.
#[derive(Clone, Copy)]
pub(super) enum Means {
    /// It is so anyway.
    Always,
    /// These words, with the value in place of `{}`.
    Words(&'static str),
    /// Nothing, for this reason.
    Ignored(&'static str),
    /// Nothing, for this reason, unless the value asks for what is done anyway.
    IgnoredUnless(&'static [&'static str], &'static str),
    /// An error with this reason.
    #[cfg(feature = "host")]
    Refused(&'static str),
}
