//! Just enough of protobuf's wire format to write: varints, lengths, strings, messages.
//! Source: <https://protobuf.dev/programming-guides/encoding/>.

/// A message in the making.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }
    /// `uint32`, `uint64`, `bool`, an enum.
    pub fn uint(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, 0);
        self.varint(value);
        self
    }
    /// `int32`, `int64`: negative numbers take ten bytes.
    pub fn int(&mut self, field: u32, value: i64) -> &mut Self {
        self.uint(field, value as u64)
    }
    /// `bytes`.
    pub fn bytes(&mut self, field: u32, value: &[u8]) -> &mut Self {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }
    /// `string`; bytes that are no UTF-8 are replaced.
    pub fn string(&mut self, field: u32, value: &[u8]) -> &mut Self {
        match std::str::from_utf8(value) {
            Ok(text) => self.bytes(field, text.as_bytes()),
            Err(_) => self.bytes(field, String::from_utf8_lossy(value).as_bytes()),
        }
    }
    /// A message within.
    pub fn message(&mut self, field: u32, value: &Self) -> &mut Self {
        self.bytes(field, &value.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specification() {
        assert_eq!(Message::new().uint(1, 150).as_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::new().string(2, b"testing").as_bytes(), b"\x12\x07testing");
        let mut inner = Message::new();
        inner.uint(1, 150);
        assert_eq!(Message::new().message(3, &inner).as_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(
            Message::new().int(1, -2).as_bytes()[1..],
            [254, 255, 255, 255, 255, 255, 255, 255, 255, 1]
        );
    }
}
