//! Why a file of another tool cannot be read.

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A summary value is not a number.
    #[error("a value is not a number")]
    Value,
    /// A row does not begin with a number.
    #[error("a row does not begin with a number")]
    Bucket,
    /// A count is not a number.
    #[error("a count is not a number")]
    Count,
    /// A row contains other text than numbers.
    #[error("a row of the histogram contains other text than numbers")]
    Row,
    /// A row ends after its first number.
    #[error("a row of the histogram is cut off")]
    Short,
    /// Rows differ in length.
    #[error("a row of the histogram has another number of columns")]
    Columns,
    /// A row of Xenomai's histogram.
    #[error("a row is not a latency and a count")]
    Pair,
    /// A line of Xenomai's output.
    #[error("the minimum, mean or maximum is not a number")]
    Line,
}

/// What is wrong with a JSON file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonDamage {
    /// Not JSON; with the parser's message.
    #[error("damaged: {0}")]
    Syntax(String),
    /// A thread without histogram.
    #[error("thread {thread} has no histogram")]
    NoHistogram {
        /// The thread.
        thread: String,
    },
    /// A bucket that is not a pair of whole numbers.
    #[error("bucket {key:?} of thread {thread} is not a count")]
    Bucket {
        /// The bucket.
        key: String,
        /// The thread.
        thread: String,
    },
}

/// Why a file is not a result of any tool that is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// No tool writes such a file.
    #[error(
        "no run of latlab, and no output of cyclictest, rtla, Xenomai's latency, jitterdebugger or lmbench"
    )]
    Unknown,
    /// A tool's file, but damaged.
    #[error("output of {tool}, but damaged at line {line}: {what}")]
    Damaged {
        /// The tool.
        tool: &'static str,
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        what: Damage,
    },
    /// More results than a tool writes: each becomes a metric with its tables.
    #[error("output of {tool} with more than {most} different results")]
    TooManyResults {
        /// The tool.
        tool: &'static str,
        /// Results that are read.
        most: usize,
    },
    /// A tool's JSON, but damaged.
    #[error("JSON of {tool}, but {what}")]
    Json {
        /// The tool.
        tool: &'static str,
        /// What is wrong.
        what: JsonDamage,
    },
    /// A histogram without values.
    #[error("output of {tool}, but its histogram is empty: nothing was measured")]
    Empty {
        /// The tool.
        tool: &'static str,
    },
    /// Counts that no measurement has.
    #[error("output of {tool}, but its histogram has more than 2^53 values")]
    TooMany {
        /// The tool.
        tool: &'static str,
    },
    /// A file of samples, but damaged.
    #[error("a file of samples, but {0}")]
    Samples(#[from] latlab_model::samples::SamplesError),
}
