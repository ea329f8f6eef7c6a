//! Choice of the program whose text is printed.

/// Whose text is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// As `trace-cmd report` does, plug-ins included.
    #[default]
    TraceCmd,
    /// As the kernel's own `trace` file does (`trace-cmd report -N`).
    Kernel,
    /// Every field as `name=value`, without its `print fmt` (`-R`).
    Fields,
}
