//! The receiver of an agent's messages.

use latlab_wire::frame::Message;

/// Where messages to the host go.
pub trait Sink {
    /// Sends one message; blocks while the host does not read.
    fn send(&self, message: &Message) -> anyhow::Result<()>;
}
