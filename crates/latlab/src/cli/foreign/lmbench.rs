//! Options that lmbench's programs have in common.

use super::Means::{Ignored, IgnoredUnless};
use super::Takes::Value;
use super::{Spelling, spelling};

pub(super) const OPTIONS: &[Spelling] = &[
    spelling("P", Value, IgnoredUnless(&["1"], "one process measures at a time")),
    spelling("W", Value, Ignored("each trial warms up before its first batch")),
    spelling("N", Value, Ignored("trials are repeated until the result is precise enough")),
];
