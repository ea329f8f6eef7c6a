//! `latlab set-priority`: its options.

/// Set the priority of interrupt threads, and print the commands that undo it.
#[derive(Clone, Debug, clap::Args)]
pub struct SetArgs {
    /// SCHED_FIFO priority.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=98))]
    pub priority: u32,
    /// The threads `irq/N-NAME`; all for an empty name.
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "thread",
        conflicts_with = "thread"
    )]
    pub interrupt: Option<String>,
    /// The interrupt thread of this number.
    #[arg(long, value_name = "TID")]
    pub thread: Option<u32>,
}
