//! What an analysis of scheduling came to. Times are ns of the trace's clock; `*_at_ns` count from its first event.

use latlab_model::sched::expectation::Check;
use latlab_model::sched::task::Task;
use latlab_model::sched::experiment::Cell;
use latlab_stats::histogram::Histogram;
use latlab_model::units::{Nanos, TraceNs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};








































