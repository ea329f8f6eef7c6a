//! Any bytes from a board or a virtual machine, in pieces of any length: frames, lines of a kernel's log,
//! lists of modules.
#![no_main]

use flate2::Crc;
use latlab_wire::frame::{Decoder, Item};
use latlab_wire::log_lines::LogDecoder;
use latlab_wire::modules::Dependencies;
use libfuzzer_sys::fuzz_target;

/// Bytes of a frame without content.
const SHORTEST: usize = 13;

fuzz_target!(|data: &[u8]| {
    let Some((&piece, stream)) = data.split_first() else { return };
    let piece = usize::from(piece) + 1;
    let stream = &sealed(stream);

    let mut whole = Decoder::default();
    let at_once = whole.push(stream);
    let mut decoder = Decoder::default();
    let in_pieces: Vec<Item> = stream.chunks(piece).flat_map(|p| decoder.push(p)).collect();
    // Text may be cut differently, and what counts as checked too much depends on the cut.
    if stream.len() < 4096 {
        assert_eq!(messages(&at_once), messages(&in_pieces));
    }
    let text = |item: &Item| if let Item::Text(text) = item { text.len() } else { 0 };
    let frames = messages(&at_once).len() * SHORTEST;
    assert!(frames + at_once.iter().map(text).sum::<usize>() <= stream.len());

    let mut log = LogDecoder::default();
    for part in stream.chunks(piece) {
        log.push(part);
    }

    let text = String::from_utf8_lossy(stream);
    let (dep, builtin) = text.split_once('\0').unwrap_or((&text, ""));
    let modules = Dependencies::parse(dep, builtin);
    let names: Vec<&str> = dep.split(':').take(64).collect();
    let _ = modules.resolve(&names);
    modules.resolve_known(&names);
});

/// The same with the right checksum wherever a frame begins: a mutation does not find one.
fn sealed(stream: &[u8]) -> Vec<u8> {
    let mut out = stream.to_vec();
    let mut at = 0;
    while at + SHORTEST <= out.len() {
        let length = u32::from_le_bytes([out[at + 5], out[at + 6], out[at + 7], out[at + 8]]);
        let end = (at + SHORTEST).saturating_add(length as usize);
        if out[at..].starts_with(&[0x1f, 0x4c, 0x4c, 0x77]) && end <= out.len() {
            let mut crc = Crc::new();
            crc.update(&[out[at + 4]]);
            crc.update(&out[at + SHORTEST..end]);
            out[at + 9..at + 13].copy_from_slice(&crc.sum().to_le_bytes());
            at = end;
        } else {
            at += 1;
        }
    }
    out
}

/// The frames, as they would be sent again.
fn messages(items: &[Item]) -> Vec<Vec<u8>> {
    let frame = |item: &Item| match item {
        Item::Message(message) => Some(message.encode()),
        Item::Text(_) => None,
    };
    items.iter().filter_map(frame).collect()
}
