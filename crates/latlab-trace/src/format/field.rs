//! One field of an event: where it lies, what it is, and how to read it.
//!
//! Sizes are those of the format file, never of the C type: a system call's
//! `int fd` is recorded in eight bytes.

use crate::Endian;
use crate::bytes::until_nul;
use std::sync::Arc;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A number of `size` bytes.
    Number,
    /// Text in place, up to a NUL.
    Text,
    /// Numbers in place, each of `element` bytes; `size` 0 means up to the record's end.
    Array {
        /// Bytes of one element.
        element: u32,
    },
    /// `__data_loc`: a word with length and offset from the record's start.
    DataLoc {
        /// Whether it is text.
        text: bool,
        /// Bytes of one element.
        element: u32,
    },
    /// `__rel_loc`: the same, with the offset counted from the word's end.
    RelLoc {
        /// Whether it is text.
        text: bool,
        /// Bytes of one element.
        element: u32,
    },
}

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'e> {
    /// A number of a signed field.
    Signed(i64),
    /// A number of an unsigned field.
    Unsigned(u64),
    /// Text, without the NUL.
    Text(&'e [u8]),
    /// The bytes of an array.
    Bytes(&'e [u8]),
}

/// One field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: Arc<str>,
    /// C type as declared, without the array part (`unsigned long`, `__data_loc char[]`).
    pub ty: Arc<str>,
    /// Offset from the record's start.
    pub offset: u32,
    /// Bytes; 0 for an array that ends with the record.
    pub size: u32,
    /// Whether numbers are signed.
    pub signed: bool,
    /// What it holds.
    pub kind: FieldKind,
    /// Byte order of its numbers.
    pub endian: Endian,
}

impl Field {
    /// From a line `field:TYPE NAME; offset:N; size:N; signed:N;`.
    pub(crate) fn parse(line: &str, endian: Endian) -> Option<Self> {
        let rest = line.trim().strip_prefix("field")?;
        // Very old kernels have `field special:`.
        let rest = rest.strip_prefix(" special").unwrap_or(rest).strip_prefix(':')?;
        let mut parts = rest.split(';');
        let declaration = parts.next()?.trim();
        let (mut offset, mut size, mut signed) = (None, None, None);
        for part in parts {
            let Some((key, value)) = part.split_once(':') else { continue };
            match key.trim() {
                "offset" => offset = value.trim().parse().ok(),
                "size" => size = value.trim().parse().ok(),
                "signed" => signed = Some(value.trim() != "0"),
                _ => {}
            }
        }
        let (offset, size) = (offset?, size?);
        let (ty, name, dimension) = declared(declaration)?;
        let signed = signed.unwrap_or(!ty.contains("unsigned") && !ty.starts_with('u'));
        let kind = kind_of(ty, dimension, size);
        Some(Self { name: name.into(), ty: ty.into(), offset, size, signed, kind, endian })
    }

    /// Whether the declared type is a pointer.
    pub fn is_pointer(&self) -> bool {
        self.ty.trim_end().ends_with('*')
    }
    /// Whether the declared type is a `long` (printed in hexadecimal by the raw report when unsigned).
    pub fn is_long(&self) -> bool {
        self.ty.contains("long")
    }

    /// The number, zero-extended; 0 when the record is too short for it.
    #[inline]
    pub fn u64(&self, payload: &[u8]) -> u64 {
        self.number(payload).unwrap_or(0)
    }
    /// The number, sign-extended where the field is signed; 0 when the record is too short for it.
    #[inline]
    pub fn i64(&self, payload: &[u8]) -> i64 {
        let value = self.u64(payload);
        if self.signed { sign_extend(value, self.size) } else { value as i64 }
    }
    /// The number, zero-extended, if the record is long enough.
    #[inline]
    pub fn number(&self, payload: &[u8]) -> Option<u64> {
        self.endian.uint(payload.get(self.offset as usize..)?, self.size as usize)
    }

    /// Where the bytes are: in place, or where the location word says. Clipped to the record.
    pub fn bytes<'e>(&self, payload: &'e [u8]) -> &'e [u8] {
        let at = self.offset as usize;
        let (start, len) = match self.kind {
            FieldKind::DataLoc { .. } | FieldKind::RelLoc { .. } => {
                let Some(word) = self.number(payload) else { return &[] };
                // A location of two bytes each in a 4-byte word, of one each in a 2-byte one.
                let half = if self.size == 2 { 8 } else { 16 };
                let start = (word & ((1 << half) - 1)) as usize;
                let len = ((word >> half) & ((1 << half) - 1)) as usize;
                match self.kind {
                    FieldKind::RelLoc { .. } => (at + self.size as usize + start, len),
                    _ => (start, len),
                }
            }
            _ if self.size == 0 => (at, usize::MAX),
            _ => (at, self.size as usize),
        };
        let rest = payload.get(start..).unwrap_or_default();
        &rest[..len.min(rest.len())]
    }
    /// The text up to its NUL.
    pub fn text<'e>(&self, payload: &'e [u8]) -> &'e [u8] {
        until_nul(self.bytes(payload))
    }
    /// Whether it holds text.
    pub fn is_text(&self) -> bool {
        matches!(
            self.kind,
            FieldKind::Text
                | FieldKind::DataLoc { text: true, .. }
                | FieldKind::RelLoc { text: true, .. }
        )
    }
    /// Bytes of one element of an array; its size for a number.
    pub fn element(&self) -> u32 {
        match self.kind {
            FieldKind::Array { element }
            | FieldKind::DataLoc { element, .. }
            | FieldKind::RelLoc { element, .. } => element,
            FieldKind::Text => 1,
            FieldKind::Number => self.size,
        }
    }
    /// The value, by kind.
    pub fn value<'e>(&self, payload: &'e [u8]) -> Value<'e> {
        match self.kind {
            FieldKind::Number if self.signed => Value::Signed(self.i64(payload)),
            FieldKind::Number => Value::Unsigned(self.u64(payload)),
            _ if self.is_text() => Value::Text(self.text(payload)),
            _ => Value::Bytes(self.bytes(payload)),
        }
    }
}

/// Widens a number of `size` bytes that is in two's complement.
#[inline]
pub(crate) fn sign_extend(value: u64, size: u32) -> i64 {
    match size {
        1 => i64::from(value as u8 as i8),
        2 => i64::from(value as u16 as i16),
        4 => i64::from(value as u32 as i32),
        _ => value as i64,
    }
}

/// Type, name and array dimension (`Some("")` for `[]`) of a declaration.
fn declared(text: &str) -> Option<(&str, &str, Option<&str>)> {
    // `__data_loc char[] name`: the brackets belong to the type.
    let (head, dimension) = match text.strip_suffix(']').and_then(|t| t.rsplit_once('[')) {
        Some((head, n)) => (head.trim_end(), Some(n.trim())),
        None => (text, None),
    };
    let last = |c: char| c.is_whitespace() || c == '*' || c == ']';
    // What separates may have more than one byte: of a damaged file everything is possible.
    let at = head.rmatch_indices(last).next().map(|(at, separator)| at + separator.len())?;
    let (ty, name) = (head[..at].trim(), head[at..].trim());
    (!name.is_empty()).then_some((ty, name, dimension))
}

fn kind_of(ty: &str, dimension: Option<&str>, size: u32) -> FieldKind {
    if let Some(inner) = ty.strip_prefix("__data_loc") {
        return FieldKind::DataLoc { text: is_char(inner), element: element_size(inner) };
    }
    if let Some(inner) = ty.strip_prefix("__rel_loc") {
        return FieldKind::RelLoc { text: is_char(inner), element: element_size(inner) };
    }
    let Some(dimension) = dimension else {
        // `comm[TASK_COMM_LEN]` of some kernels lost its brackets; a big "number" is an array.
        return if matches!(size, 1 | 2 | 4 | 8) {
            FieldKind::Number
        } else {
            FieldKind::Array { element: 1 }
        };
    };
    if is_char(ty) {
        return FieldKind::Text;
    }
    let element = match dimension.parse::<u32>() {
        Ok(n) if n > 0 && size > 0 && size.is_multiple_of(n) => size / n,
        _ => element_size(ty),
    };
    FieldKind::Array { element }
}

fn is_char(ty: &str) -> bool {
    let ty = ty.trim().trim_end_matches("[]").trim();
    matches!(ty, "char" | "const char" | "signed char")
}

/// Bytes of a C type by its name; 1 where it is not known.
fn element_size(ty: &str) -> u32 {
    let ty = ty.trim().trim_end_matches("[]").trim();
    let ty = ty.strip_prefix("const ").unwrap_or(ty);
    match ty {
        "u16" | "s16" | "__u16" | "__s16" | "short" | "unsigned short" | "__le16" | "__be16"
        | "uint16_t" | "int16_t" => 2,
        "u32" | "s32" | "__u32" | "__s32" | "int" | "unsigned int" | "unsigned" | "__le32"
        | "__be32" | "uint32_t" | "int32_t" | "pid_t" | "dev_t" | "gfp_t" => 4,
        "u64" | "s64" | "__u64" | "__s64" | "long long" | "unsigned long long" | "__le64"
        | "__be64" | "uint64_t" | "int64_t" | "sector_t" | "loff_t" => 8,
        // `long` and pointers follow the kernel; eight bytes unless the formats say otherwise.
        "long" | "unsigned long" | "cpumask_t" | "size_t" => 8,
        _ if ty.ends_with('*') => 8,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(line: &str) -> Field {
        Field::parse(line, Endian::Little).unwrap()
    }

    #[test]
    fn a_damaged_declaration_with_a_wide_space_is_read_or_refused() {
        let line = "field:int co\u{a0}id;\toffset:8;\tsize:4;\tsigned:0;";
        assert_eq!(&*field(line).name, "id");
        let line = "field:int co\u{2003};\toffset:8;\tsize:4;\tsigned:0;";
        assert!(Field::parse(line, Endian::Little).is_none_or(|f| !f.name.is_empty()));
    }

    #[test]
    fn declarations_of_every_shape() {
        let f = field("\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;");
        assert_eq!((&*f.name, &*f.ty, f.kind), ("prev_comm", "char", FieldKind::Text));
        let f = field("field:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;");
        assert_eq!((&*f.name, f.kind), ("name", FieldKind::DataLoc { text: true, element: 1 }));
        let f = field("field:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;");
        assert_eq!((&*f.name, f.kind), ("args", FieldKind::Array { element: 8 }));
        let f = field("field:const char * filename;\toffset:24;\tsize:8;\tsigned:0;");
        assert!(f.is_pointer() && f.kind == FieldKind::Number);
        let f = field("field:void *ptr;\toffset:24;\tsize:4;\tsigned:0;");
        assert_eq!((&*f.name, &*f.ty), ("ptr", "void *"));
        let f = field("field:u32 buf[];\toffset:24;\tsize:0;\tsigned:0;");
        assert_eq!(f.kind, FieldKind::Array { element: 4 });
        let f = field("field:__rel_loc unsigned long[] mask;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!(f.kind, FieldKind::RelLoc { text: false, element: 8 });
        assert!(Field::parse("field:int;", Endian::Little).is_none());
    }

    #[test]
    fn numbers_keep_their_sign_and_short_records_read_as_zero() {
        let f = field("field:int prio;\toffset:4;\tsize:4;\tsigned:1;");
        assert_eq!(f.i64(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), -1);
        assert_eq!(f.i64(&[0, 0, 0, 0, 0xff]), 0);
    }

    #[test]
    fn locations_outside_the_record_are_clipped() {
        let f = field("field:__data_loc char[] name;\toffset:4;\tsize:4;\tsigned:0;");
        let mut p = vec![0, 0, 0, 0, 8, 0, 200, 0];
        p.extend_from_slice(b"abc\0");
        assert_eq!(f.text(&p), b"abc");
        assert_eq!(f.text(&[0, 0, 0, 0, 0xff, 0xff, 2, 0]), b"");
        let rel = field("field:__rel_loc char[] name;\toffset:4;\tsize:4;\tsigned:0;");
        p[4] = 0;
        assert_eq!(rel.text(&p), b"abc");
    }
}
