//! Options that lmbench's programs have in common.

use super::spelling::Means::{Ignored, IgnoredUnless, Refused};
use super::spelling::Takes::{Optional, Value};
use super::spelling::{Spelling, spelling};

/// Of `bench`: those of programs with a server, too.
pub(super) const BENCH: &[Spelling] = &[
    #[cfg(not(feature = "host"))]
    OPTIONS[0],
    OPTIONS[1],
    OPTIONS[2],
    spelling(
        "s",
        Optional,
        Refused("the server is latlab bench --serve ADDRESS, a size is NAME:size=4K"),
    ),
    spelling("S", Optional, Refused("Ctrl-C ends latlab bench --serve")),
    spelling("m", Value, Refused("the size of a message is NAME:size=4K")),
];

pub(super) const OPTIONS: &[Spelling] = &[
    spelling("P", Value, IgnoredUnless(&["1"], "one process measures at a time")),
    spelling("W", Value, Ignored("each trial warms up before its first batch")),
    spelling("N", Value, Ignored("trials are repeated until the result is precise enough")),
];
