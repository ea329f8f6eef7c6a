//! What ends a wait of the measuring loop: a timer, or another thread's call.

mod brought;
mod channel;
mod echo;
mod gpio;
mod pi;
mod posix_timer;
mod run;
mod sender;
mod shared;
mod source;
mod turn;
mod uring;

pub use run::run;
pub use source::Source;
