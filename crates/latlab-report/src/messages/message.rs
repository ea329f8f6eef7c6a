//! The types of a wording.

use super::args::Args;

/// The wording of one identifier.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Identifier of the finding, note or remedy.
    pub id: &'static str,
    /// From values to sentences.
    pub text: fn(&Args<'_>) -> Text,
}

/// What is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// What is the case, in one sentence without a full stop.
    pub claim: String,
    /// Why it matters; empty where the claim says it.
    pub why: String,
}

impl Text {
    /// A claim that needs no explanation.
    pub fn claim(claim: impl Into<String>) -> Self {
        Self::of(claim.into(), String::new())
    }
    // Not inlined: the board build is small.
    #[inline(never)]
    fn of(claim: String, why: String) -> Self {
        Self { claim, why }
    }
    /// The same with an explanation.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }
}

/// A wording of an identifier.
pub(super) const fn message(id: &'static str, text: fn(&Args<'_>) -> Text) -> Message {
    Message { id, text }
}

/// A wording without values.
macro_rules! fixed {
    ($id:literal, $claim:literal) => {
        $crate::messages::message::message($id, |_| $crate::messages::message::Text::claim($claim))
    };
}
pub(super) use fixed;
