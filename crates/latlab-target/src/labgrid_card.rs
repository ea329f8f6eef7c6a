//! Cards of boards that labgrid lends: an image is written to what the laboratory's host sees of the card.
//!
//! ```text
//! power off ─▶ sd-mux host ─▶ write-image ─▶ read back, checksum ─▶ sd-mux dut ─▶ power on
//! ```
//! A multiplexer is switched where the place has one (USB-SD-Mux, SDWire); a card reader or a board that offers its
//! storage over USB (`USBMassStorage`) is written as it is. labgrid copies and writes; what was written is read by
//! the same host's ssh, past its caches. After an error the board stays off: its card may be written in part.

use crate::labgrid::{Place, keys_of};
use crate::spec::SshTarget;
use crate::ssh::{Connection, Script, quoted};
use crate::{Result, TargetError};
use std::path::Path;
use std::time::Duration;

/// Resources that are multiplexers of cards.
const MULTIPLEXERS: [&str; 3] =
    ["NetworkUSBSDMuxDevice", "NetworkUSBSDWireDevice", "NetworkUSBSDWire3Device"];
/// Resources that are storage alone.
const STORAGE: [&str; 1] = ["NetworkUSBMassStorage"];

/// For a card: a fixed part, and what it takes at [`SLOWEST`].
const CARD_TIME: Duration = Duration::from_secs(600);
/// Bytes a second of the slowest card, with what copies to it.
const SLOWEST: u64 = 256 << 10;

fn time_for(bytes: u64) -> Duration {
    CARD_TIME + Duration::from_secs(bytes / SLOWEST)
}

/// An image, as it was checked.
#[derive(Debug)]
pub struct Image<'a> {
    /// Its file.
    pub path: &'a Path,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its SHA-256 in hexadecimal digits.
    pub sha256: &'a str,
}

/// Writes an image to the card of a place that is ours, with the board off, reads it back, and switches the board on.
///
/// # Errors
/// When the place has no storage, a step of labgrid's fails, or what is read back is not the image.
pub fn write(
    place: &Place,
    image: &Image<'_>,
    scratch: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    let env = place.environment()?;
    let has_multiplexer = MULTIPLEXERS.iter().any(|class| keys_of(&env, class).is_some());
    if !has_multiplexer && STORAGE.iter().all(|class| keys_of(&env, class).is_none()) {
        return Err(TargetError::Ssh {
            host: place.to_string(),
            message: "the place has no card that its host can write".into(),
            hint: "the exporter's configuration needs USBSDMuxDevice, USBSDWireDevice, USBSDWire3Device or USBMassStorage"
                .into(),
        });
    }
    let stopped = place.stopped();
    let check = || if stopped() { Err(TargetError::Stopped) } else { Ok(()) };
    // The terminal's signal ends the client too.
    let run = |words: &[&str]| place.run(words).or_else(|error| check().and(Err(error)));
    say(&format!("{place}: power off"));
    run(&["power", "off"])?;
    if has_multiplexer {
        run(&["sd-mux", "host"])?;
    }
    check()?;
    say(&format!("{place}: writing {} ({} MiB)", image.path.display(), image.bytes >> 20));
    let write = ["write-image", &image.path.display().to_string()];
    let time = time_for(image.bytes);
    place.run_for(&write, time).or_else(|error| check().and(Err(error)))?;
    check()?;
    say(&format!("{place}: reading back"));
    verify(place, image, scratch)?;
    check()?;
    if has_multiplexer {
        run(&["sd-mux", "dut"])?;
    }
    say(&format!("{place}: power on"));
    run(&["power", "on"])
}

/// Compares the card with the image.
fn verify(place: &Place, image: &Image<'_>, scratch: &Path) -> Result<()> {
    // A card has its device only while it is at the host.
    let env = place.environment()?;
    let all = MULTIPLEXERS.iter().chain(&STORAGE);
    let found = all.filter_map(|class| keys_of(&env, class)).find_map(|keys| {
        let value = |name: &str| keys.iter().find(|(key, _)| key == name).map(|(_, v)| v.clone());
        let (host, path) = (value("host")?, value("path")?);
        let is_plain = !host.is_empty() && !host.starts_with('-') && path.starts_with("/dev/");
        (is_plain && !host.contains(char::is_whitespace)).then_some((host, path))
    });
    let (host, path) = found.ok_or_else(|| TargetError::Ssh {
        host: place.to_string(),
        message: "labgrid names no host and device of the card, so that it cannot be read back"
            .into(),
        hint: format!("labgrid-client -p {} show", place.name()),
    })?;
    let connection =
        Connection::new(&SshTarget { destination: host, port: None }, scratch, place.stopped())?;
    let (blocks, path) = (image.bytes.div_ceil(4 << 20), quoted(&path));
    let script = format!(
        "dd if={path} iflag=direct bs=4M count={blocks} 2>/dev/null | head -c {} | sha256sum",
        image.bytes
    );
    let what = "reading the card back";
    let script = Script { text: &script, input: &[], what, time: time_for(image.bytes) };
    let printed = connection.ask(&script, &place.stopped())?;
    let printed = String::from_utf8_lossy(&printed);
    if printed.split_whitespace().next() == Some(image.sha256) {
        return Ok(());
    }
    Err(TargetError::Content {
        path: image.path.to_path_buf(),
        reason: format!("{place}: the card does not have it after writing"),
        hint: "the card is worn out or too small; the board stays off".into(),
    })
}
