//! What can go wrong between here and a target, each with what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// An error of this crate. [`TargetError::hint`] says what can be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// A target that cannot be understood.
    #[error("target {spec:?}: {reason}")]
    Spec {
        /// As typed.
        spec: String,
        /// What is wrong.
        reason: String,
        /// What would be right.
        hint: String,
    },
    /// A program that has to be installed.
    #[error("{program} is not installed, and {purpose} needs it")]
    NoProgram {
        /// Its name.
        program: String,
        /// What for.
        purpose: String,
        /// Debian's package.
        package: String,
    },
    /// Programs that have to be installed.
    #[error("{purpose} needs {}, which {} missing", .programs.join(", "), are(.programs))]
    NoPrograms {
        /// Their names.
        programs: Vec<String>,
        /// What for.
        purpose: String,
        /// Debian's packages.
        packages: String,
    },
    /// All that a machine lacks.
    #[error("the virtual machine {vm} needs {}, which {} missing", .names.join(", "), are(.names))]
    Missing {
        /// Name of the machine.
        vm: String,
        /// Programs and builds.
        names: Vec<String>,
        /// Commands that install or build them.
        remedies: Vec<String>,
    },
    /// A program that ended badly.
    #[error("{program} failed: {message}")]
    Program {
        /// Its name.
        program: String,
        /// Its last line.
        message: String,
        /// What to try.
        hint: String,
    },
    /// A package that cannot be had.
    #[error("package {package} for {arch} cannot be fetched: {message}")]
    Fetch {
        /// Name of the package.
        package: String,
        /// Debian's architecture.
        arch: String,
        /// apt's reason.
        message: String,
    },
    /// `apt-get update` did not read every list.
    #[error("apt-get update did not read every package list for {arch}: {message}; {}", age(.age_days))]
    StaleLists {
        /// Debian's architecture.
        arch: String,
        /// apt's reason.
        message: String,
        /// Age of the lists in the cache, days; `None` without lists.
        age_days: Option<u64>,
    },
    /// A file.
    #[error("{path}: {reason}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The reason.
        reason: io::Error,
    },
    /// A file whose content is not as it should be.
    #[error("{path}: {reason}")]
    Content {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// No latlab for the target's processor.
    #[error("no latlab for {arch} is built")]
    NoBoardBuild {
        /// The architecture.
        arch: String,
        /// Where it was looked for.
        looked: String,
    },
    /// A machine that did not come up, or went down.
    #[error("{vm}: {what}")]
    Machine {
        /// Name of the machine.
        vm: String,
        /// What happened.
        what: String,
        /// The last lines of its console: [`TargetError::console`].
        console: String,
        /// What to try.
        hint: String,
    },
    /// The connection to a board.
    #[error("{host}: {message}")]
    Ssh {
        /// As typed.
        host: String,
        /// What ssh or the board said.
        message: String,
        /// What to try.
        hint: String,
    },
    /// A board that does not answer, or whose connection was lost: a later try may succeed.
    #[error("{host}: {message}")]
    Unreachable {
        /// As typed.
        host: String,
        /// What ssh said.
        message: String,
        /// What to try.
        hint: String,
    },
    /// The user asked to stop.
    #[error("stopped before it was finished")]
    Stopped,
    /// Writing what the command printed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn are(names: &[String]) -> &'static str {
    if names.len() == 1 { "is" } else { "are" }
}

fn age(days: &Option<u64>) -> String {
    match days {
        Some(1) => "those in the cache are 1 day old".into(),
        Some(days) => format!("those in the cache are {days} days old"),
        None => "the cache has none".into(),
    }
}

impl TargetError {
    /// The end of the machine's console, which explains the error: lines without control characters.
    pub fn console(&self) -> Option<&str> {
        match self {
            Self::Machine { console, .. } if !console.is_empty() => Some(console),
            _ => None,
        }
    }

    /// An I/O error with the file it happened to.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |reason| Self::File { path, reason }
    }

    /// What the user can do.
    pub fn hint(&self) -> Option<String> {
        Some(self.advice()).filter(|hint| !hint.is_empty())
    }

    fn advice(&self) -> String {
        match self {
            Self::Spec { hint, .. }
            | Self::Program { hint, .. }
            | Self::Content { hint, .. }
            | Self::Machine { hint, .. }
            | Self::Unreachable { hint, .. }
            | Self::Ssh { hint, .. } => hint.clone(),
            Self::NoProgram { package, .. } | Self::NoPrograms { packages: package, .. } => {
                format!("on Debian: apt-get install {package}")
            }
            Self::Missing { remedies, .. } => remedies.join("; "),
            Self::Fetch { message, .. } if message.contains("Hash Sum mismatch") => {
                "nothing of it was unpacked: it is not the file that Debian signed; try again, or \
                 another mirror"
                    .into()
            }
            Self::StaleLists { age_days: Some(_), .. } => "check the network, the clock and apt's \
                sources; `latlab image --offline` takes the lists and packages of the cache, and a \
                machine that was fetched before works without lists (latlab vm list)"
                .into(),
            Self::StaleLists { .. } => "check the network, the clock and apt's sources".into(),
            Self::Fetch { .. } => "check the network and apt's sources; a machine that was \
                fetched before works without a network (latlab vm list)"
                .into(),
            Self::File { reason, .. } | Self::Io(reason) => match reason.kind() {
                io::ErrorKind::StorageFull => {
                    "free some space, or set XDG_CACHE_HOME to a larger disk".into()
                }
                io::ErrorKind::PermissionDenied => {
                    "the cache is XDG_CACHE_HOME/latlab or ~/.cache/latlab".into()
                }
                _ => String::new(),
            },
            Self::Stopped => {
                "what was fetched and configured is kept; the same command goes on from there"
                    .into()
            }
            Self::NoBoardBuild { looked, .. } => {
                format!(
                    "make boards builds them, the Debian package for amd64 has them; looked in {looked}; LATLAB_BOARDS names another folder"
                )
            }
        }
    }
}
