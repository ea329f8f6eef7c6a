//! Asks a running watch for its state.

use super::server::SOCKET;
use crate::outcome::HintExt;
use anyhow::{Context, anyhow};
use latlab_model::watch::Status;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// An answer is at most so long, bytes.
const ANSWER: u64 = 64 << 20;

/// The state of the watch with this folder.
///
/// # Errors
/// When none runs, or its answer is not one.
pub(super) fn status(dir: &Path) -> anyhow::Result<Status> {
    let socket = dir.join(SOCKET);
    let name = || socket.display().to_string();
    let mut stream = UnixStream::connect(&socket)
        .with_context(|| format!("{}: no watch answers", dir.display()))
        .hint("start one with latlab watch TASK; --dir is the folder that it was given")?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).with_context(name)?;
    stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n").with_context(name)?;
    let mut text = String::new();
    (&mut stream).take(ANSWER).read_to_string(&mut text).with_context(name)?;
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
    let body = body.ok_or_else(|| anyhow!("{}: no answer", name()))?;
    serde_json::from_str(body).with_context(name)
}
