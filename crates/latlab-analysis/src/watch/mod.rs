//! `latlab watch`: what is counted, kept and given up, as functions of data.
//!
//! [`recent`] keeps the events of watched threads in a window that moves over an unending trace, [`follow`] finds
//! the activations in it, [`spans`] the spans between two events, each once; [`counts`] turns
//! them into slices that merge; [`lead`] tells what took the time of a late one; [`choice`]
//! decides which of them are captured, [`thinning`] decides which captures are kept; [`budget`] how much is recorded; [`clocks`] whether the machine was suspended;
//! [`tables`] has the counts as rows.

pub mod budget;
pub mod choice;
pub mod clocks;
pub mod counts;
pub mod follow;
pub mod lead;
pub mod recent;
pub mod spans;
#[cfg(feature = "host")]
pub mod tables;
pub mod thinning;
