//! Identifiers of an image's partitions, and hashes as text.

/// Identifiers of an image's parts.
#[derive(Debug)]
pub(crate) struct Ids {
    pub disk: u32,
    pub boot: u32,
    pub root: String,
}

impl Ids {
    pub fn of(id: &[u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes([id[at], id[at + 1], id[at + 2], id[at + 3]]);
        // A UUID of version 8: bits of one's own (RFC 9562, section 5.8).
        let mut u: [u8; 16] = [0; 16];
        u.copy_from_slice(&id[8..24]);
        u[6] = u[6] & 0x0f | 0x80;
        u[8] = u[8] & 0x3f | 0x80;
        let h = hex(&u);
        let root = format!("{}-{}-{}-{}-{}", &h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..]);
        Self { disk: word(0), boot: word(4), root }
    }

    /// As Linux prints a FAT's number.
    pub fn boot_text(&self) -> String {
        format!("{:04X}-{:04X}", self.boot >> 16, self.boot & 0xffff)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
