//! Two processes that hand something to each other and back: the frame of all
//! context-switch pairs and message round trips.
//!
//! What goes there and back is a [`Channel`]. As a *round trip* a channel's figure is
//! the whole way there and back, nothing subtracted. As a *switch* it is half of
//! that, less what the channel's own calls cost when they do not block
//! ([`Channel::alone`]), which is timed beside every batch.

use super::peer::{Peer, Placement};
use super::{Probe, ProbeError, Setting};
use latlab_model::finding::Note;

/// Something that can be handed over.
pub trait Channel {
    /// Sends, and waits for the answer.
    ///
    /// # Errors
    /// When a call fails.
    fn ping(&mut self) -> Result<(), ProbeError>;

    /// Waits, and answers. The peer calls it until it fails.
    ///
    /// # Errors
    /// When a call fails or the other side is gone.
    fn serve(&mut self) -> Result<(), ProbeError>;

    /// The calls of both sides of one round, without anybody to wait for.
    ///
    /// # Errors
    /// When a call fails.
    fn alone(&mut self) -> Result<(), ProbeError>;
}

/// A channel with a peer at its other end.
struct Pair<W> {
    channel: W,
    peer: Peer,
    switch: bool,
    placement: Placement,
    notes: Vec<Note>,
}

impl<W: Channel> Probe for Pair<W> {
    fn run(&mut self, n: u64) -> Result<(), ProbeError> {
        for _ in 0..n {
            self.channel.ping()?;
        }
        Ok(())
    }

    fn baseline(&mut self, n: u64) -> Result<bool, ProbeError> {
        if self.switch {
            for _ in 0..n {
                self.channel.alone()?;
            }
        }
        Ok(self.switch)
    }

    fn per_turn(&self) -> f64 {
        if self.switch { 2.0 } else { 1.0 }
    }

    fn peer_switches(&mut self) -> Option<u64> {
        self.peer.switches()
    }

    fn partner(&self) -> Option<i32> {
        (self.switch && self.placement.one_cpu).then(|| self.peer.pid())
    }

    fn switches_expected(&self) -> f64 {
        if self.switch { 1.0 } else { 2.0 }
    }

    fn switches_must_match(&self) -> bool {
        self.switch && self.placement.one_cpu
    }

    fn is_fifo(&self) -> bool {
        self.placement.fifo
    }

    fn notes(&self) -> Vec<Note> {
        self.notes.clone()
    }
}

fn pair<W: Channel + 'static>(
    setting: &Setting,
    make: impl FnOnce(&Setting) -> Result<W, ProbeError>,
    switch: bool,
) -> Result<Box<dyn Probe>, ProbeError> {
    let placement = Placement::take(setting)?;
    let mut channel = make(setting)?;
    let peer = Peer::fork(&placement, || while channel.serve().is_ok() {})?;
    let notes = placement.note().into_iter().collect();
    Ok(Box::new(Pair { channel, peer, switch, placement, notes }))
}

/// One hand-over, net of the channel's own calls.
///
/// # Errors
/// When the channel cannot be made or the peer cannot be seated.
pub fn switch<W: Channel + 'static>(
    setting: &Setting,
    make: impl FnOnce(&Setting) -> Result<W, ProbeError>,
) -> Result<Box<dyn Probe>, ProbeError> {
    pair(setting, make, true)
}

/// There and back.
///
/// # Errors
/// As [`switch`].
pub fn round_trip<W: Channel + 'static>(
    setting: &Setting,
    make: impl FnOnce(&Setting) -> Result<W, ProbeError>,
) -> Result<Box<dyn Probe>, ProbeError> {
    pair(setting, make, false)
}
