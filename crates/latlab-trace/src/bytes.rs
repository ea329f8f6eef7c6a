//! Numbers and strings out of bytes, with the byte order that a file declares.

use crate::TraceError;

/// Byte order of the machine that recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endian {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// That of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    /// The unsigned number in the first `size` (1, 2, 4 or 8) bytes; `None` when there are fewer or the size is another.
    #[inline]
    pub fn uint(self, bytes: &[u8], size: usize) -> Option<u64> {
        match (self, size) {
            (_, 1) => bytes.first().map(|b| u64::from(*b)),
            (Self::Little, 2) => bytes.first_chunk().map(|b| u64::from(u16::from_le_bytes(*b))),
            (Self::Little, 4) => bytes.first_chunk().map(|b| u64::from(u32::from_le_bytes(*b))),
            (Self::Little, 8) => bytes.first_chunk().map(|b| u64::from_le_bytes(*b)),
            (Self::Big, 2) => bytes.first_chunk().map(|b| u64::from(u16::from_be_bytes(*b))),
            (Self::Big, 4) => bytes.first_chunk().map(|b| u64::from(u32::from_be_bytes(*b))),
            (Self::Big, 8) => bytes.first_chunk().map(|b| u64::from_be_bytes(*b)),
            _ => None,
        }
    }

    /// Appends the low `size` (1, 2, 4 or 8) bytes of a number.
    pub fn put(self, out: &mut Vec<u8>, value: u64, size: usize) {
        let size = size.min(8);
        match self {
            Self::Little => out.extend_from_slice(&value.to_le_bytes()[..size]),
            Self::Big => out.extend_from_slice(&value.to_be_bytes()[8 - size..]),
        }
    }
}

/// A cursor over bytes that never reads past their end and knows where in the file it stands.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    data: &'a [u8],
    pos: usize,
    /// Offset in the file of `data[0]`, for messages.
    base: u64,
    pub endian: Endian,
}

impl<'a> Reader<'a> {
    pub fn new(data: &'a [u8], endian: Endian) -> Self {
        Self { data, pos: 0, base: 0, endian }
    }
    pub fn with_base(mut self, base: u64) -> Self {
        self.base = base;
        self
    }
    pub fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }
    pub fn seek(&mut self, pos: usize) {
        self.pos = pos.min(self.data.len());
    }
    pub fn remaining(&self) -> usize {
        self.data.len() - self.pos
    }
    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], TraceError> {
        let at = self.offset();
        let rest = &self.data[self.pos..];
        if n > rest.len() {
            return Err(TraceError::Truncated {
                offset: at,
                what,
                missing: (n - rest.len()) as u64,
            });
        }
        self.pos += n;
        Ok(&rest[..n])
    }
    /// As [`Reader::take`], for a length that the file declares.
    pub fn take_u64(&mut self, n: u64, what: &'static str) -> Result<&'a [u8], TraceError> {
        match usize::try_from(n) {
            Ok(n) => self.take(n, what),
            Err(_) => Err(TraceError::Truncated { offset: self.offset(), what, missing: n }),
        }
    }
    fn uint(&mut self, size: usize, what: &'static str) -> Result<u64, TraceError> {
        let bytes = self.take(size, what)?;
        Ok(self.endian.uint(bytes, size).unwrap_or(0))
    }
    pub fn u8(&mut self, what: &'static str) -> Result<u8, TraceError> {
        self.uint(1, what).map(|v| v as u8)
    }
    pub fn u16(&mut self, what: &'static str) -> Result<u16, TraceError> {
        self.uint(2, what).map(|v| v as u16)
    }
    pub fn u32(&mut self, what: &'static str) -> Result<u32, TraceError> {
        self.uint(4, what).map(|v| v as u32)
    }
    pub fn u64(&mut self, what: &'static str) -> Result<u64, TraceError> {
        self.uint(8, what)
    }
    /// Bytes up to a NUL, which is consumed.
    pub fn cstr(&mut self, what: &'static str) -> Result<&'a [u8], TraceError> {
        let at = self.offset();
        let rest = &self.data[self.pos..];
        match memchr::memchr(0, rest) {
            Some(n) => {
                self.pos += n + 1;
                Ok(&rest[..n])
            }
            None => Err(TraceError::Truncated { offset: at, what, missing: 1 }),
        }
    }
}

/// The bytes before the first NUL.
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    memchr::memchr(0, bytes).map_or(bytes, |n| &bytes[..n])
}
