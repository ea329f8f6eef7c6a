//! Network addresses and UUIDs, as the kernel's `printk` writes them.

use super::byte_list::hex_bytes;
use super::number;
use crate::Endian;
use std::net::Ipv6Addr;

/// `1.2.3.4`, or `001.002.003.004`.
pub(crate) fn ip4(out: &mut Vec<u8>, bytes: &[u8], zeros: bool) {
    for (n, b) in bytes.iter().take(4).enumerate() {
        if n > 0 {
            out.push(b'.');
        }
        number::zero_padded(out, u64::from(*b), if zeros { 3 } else { 1 });
    }
}

/// Eight groups, compressed or not, with colons or not.
pub(crate) fn ip6(out: &mut Vec<u8>, bytes: &[u8], compressed: bool, bare: bool) {
    let Some(octets) = bytes.first_chunk::<16>() else {
        return hex_bytes(out, bytes, "");
    };
    if compressed {
        out.extend_from_slice(Ipv6Addr::from(*octets).to_string().as_bytes());
        return;
    }
    for (n, pair) in octets.chunks_exact(2).enumerate() {
        if n > 0 && !bare {
            out.push(b':');
        }
        hex_bytes(out, pair, "");
    }
}

/// A `struct sockaddr` with its port.
pub(crate) fn socket(out: &mut Vec<u8>, bytes: &[u8], endian: Endian) {
    const INET: u64 = 2;
    const INET6: u64 = 10;
    let port = bytes.get(2..4).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    match endian.uint(bytes, 2) {
        Some(INET) if bytes.len() >= 8 => {
            ip4(out, &bytes[4..8], false);
            out.push(b':');
            number::decimal(out, u64::from(port));
        }
        Some(INET6) if bytes.len() >= 24 => {
            out.push(b'[');
            ip6(out, &bytes[8..24], true, false);
            out.extend_from_slice(b"]:");
            number::decimal(out, u64::from(port));
        }
        Some(family) => {
            out.extend_from_slice(b"family ");
            number::decimal(out, family);
        }
        None => {}
    }
}

/// `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
pub(crate) fn uuid(out: &mut Vec<u8>, bytes: &[u8], little: bool, upper: bool) {
    const PLAIN: [usize; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    const SWAPPED: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let Some(bytes) = bytes.first_chunk::<16>() else { return hex_bytes(out, bytes, "") };
    for (n, at) in if little { SWAPPED } else { PLAIN }.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        number::hex(out, u64::from(bytes[*at]), 2, upper);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_the_kernel_writes_them() {
        let mut out = Vec::new();
        socket(&mut out, &[2, 0, 0, 80, 127, 0, 0, 1], Endian::Little);
        assert_eq!(out, b"127.0.0.1:80");
        out.clear();
        let mut six = vec![10, 0, 1, 0, 0, 0, 0, 0];
        six.extend([0; 15]);
        six.push(1);
        socket(&mut out, &six, Endian::Little);
        assert_eq!(out, b"[::1]:256");
        out.clear();
        uuid(&mut out, &[1; 16], true, false);
        assert_eq!(out, b"01010101-0101-0101-0101-010101010101");
    }
}
