//! Options that lmbench's programs have in common.

use super::spelling::Means::{Ignored, IgnoredUnless};
use super::spelling::Takes::Value;
use super::spelling::{Spelling, spelling};

pub(super) const OPTIONS: &[Spelling] = &[
    spelling("P", Value, IgnoredUnless(&["1"], "one process measures at a time")),
    spelling("W", Value, Ignored("each trial warms up before its first batch")),
    spelling("N", Value, Ignored("trials are repeated until the result is precise enough")),
];
