//! Runs a compiled `print fmt` over a record.

use super::ast::{Unary, binary};
use super::byte_list::{array, bitmask, hex_bytes};
use super::number;
use super::plan::{Bytes, Counts, Num, NumberAt, Piece, Plan, Table, Text};
use super::spec::{Count, Kind, Part, Pointer, Spec, parts};
use crate::bytes::until_nul;
use crate::format::{Field, sign_extend};
use crate::names::{PrintkFormats, Symbols};
use crate::{Endian, TraceFile};

/// What a print fmt may look up beside the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'c> {
    pub symbols: &'c Symbols<'c>,
    pub printk: &'c PrintkFormats,
    pub endian: Endian,
    pub long: u8,
}

impl<'c> Context<'c> {
    pub fn new(file: &'c TraceFile<'_>) -> Self {
        Self {
            symbols: &file.symbols,
            printk: &file.printk,
            endian: file.endian,
            long: file.long_size(),
        }
    }
}

/// Wider columns than this are not filled.
const MAX_WIDTH: usize = 1024;

impl NumberAt {
    /// The number with its sign; 0 when the record is too short.
    #[inline(always)]
    pub fn get(&self, p: &[u8]) -> i64 {
        let Some(rest) = p.get(self.offset as usize..) else { return 0 };
        let value = self.endian.uint(rest, usize::from(self.size)).unwrap_or(0);
        if self.signed { sign_extend(value, u32::from(self.size)) } else { value as i64 }
    }
}

impl Num {
    #[inline]
    pub fn get(&self, p: &[u8]) -> i64 {
        match self {
            Self::Const(v) => *v,
            Self::At(at) => at.get(p),
            Self::Element(field, index) => {
                let width = field.element().clamp(1, 8) as usize;
                let at = usize::try_from(index.get(p)).ok().and_then(|n| n.checked_mul(width));
                let bytes = at.and_then(|at| field.bytes(p).get(at..)).unwrap_or_default();
                let value = field.endian.uint(bytes, width).unwrap_or(0);
                if field.signed { sign_extend(value, width as u32) } else { value as i64 }
            }
            Self::Unary(op, inner) => match (op, inner.get(p)) {
                (Unary::Neg, v) => v.wrapping_neg(),
                (Unary::Not, v) => i64::from(v == 0),
                (Unary::Invert, v) => !v,
            },
            Self::Binary { op, unsigned, left, right } => {
                binary(*op, *unsigned, left.get(p), right.get(p))
            }
            Self::Cond(c, yes, no) => {
                if c.get(p) != 0 {
                    yes.get(p)
                } else {
                    no.get(p)
                }
            }
            Self::OrElse(left, right) => match left.get(p) {
                0 => right.get(p),
                value => value,
            },
            Self::Cast { size, signed, inner } => {
                let v = inner.get(p);
                match (size, signed) {
                    (1, true) => i64::from(v as i8),
                    (2, true) => i64::from(v as i16),
                    (4, true) => i64::from(v as i32),
                    (1, false) => i64::from(v as u8),
                    (2, false) => i64::from(v as u16),
                    (4, false) => i64::from(v as u32),
                    _ => v,
                }
            }
            Self::Length(field, by) => (field.bytes(p).len() / *by as usize) as i64,
        }
    }
}

impl Plan {
    /// Appends the text of a record.
    pub fn run(&self, cx: &Context<'_>, p: &[u8], out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.extend_from_slice(text),
                Piece::Short(text, len) => number::short(out, text, *len),
                Piece::Comm(at) => comm(p.get(*at as usize..).unwrap_or_default(), out),
                Piece::Decimal(at) if at.signed => number::signed(out, at.get(p)),
                Piece::Decimal(at) => number::decimal(out, at.get(p) as u64),
                Piece::Plain(field) => out.extend_from_slice(field.text(p)),
                Piece::Number { value, spec, counts } => {
                    let (width, precision) = counts.resolve(spec, p);
                    print_number(out, spec, width, precision, value.get(p));
                }
                Piece::Text { value, spec, counts } => {
                    let (width, precision) = counts.resolve(spec, p);
                    let start = out.len();
                    value.put(cx, p, out);
                    if let Some(max) = precision {
                        out.truncate(out.len().min(start + max));
                    }
                    pad(out, start, width, spec.left);
                }
                Piece::Symbol { value, offset } => symbol(cx, value.get(p) as u64, *offset, out),
                Piece::Function(value) => function(cx, value.get(p) as u64, out),
                Piece::Line(field) => {
                    let text = field.text(p);
                    out.extend_from_slice(text.strip_suffix(b"\n").unwrap_or(text));
                }
                Piece::Stack { at, user } => stack(cx, p, *at, *user, out),
                Piece::Futex { args, fallback } => {
                    let values = args.map(|a| a.get(p) as u64);
                    if !super::special::put_futex(&values, out) {
                        fallback.run(cx, p, out);
                    }
                }
                Piece::Bytes { bytes, kind, count } => {
                    let all = bytes.get(p);
                    let n = count.as_ref().map(|c| usize::try_from(c.get(p)).unwrap_or(0));
                    print_bytes(out, kind, &all[..n.unwrap_or(all.len()).min(all.len())], cx);
                }
            }
        }
    }
}

impl Counts {
    fn resolve(&self, spec: &Spec, p: &[u8]) -> (usize, Option<usize>) {
        let get = |count: Count, arg: &Option<Num>| match (count, arg) {
            (Count::Fixed(n), _) => Some(n as usize),
            (Count::Argument, Some(n)) => {
                Some(usize::try_from(n.get(p)).unwrap_or(0).min(MAX_WIDTH))
            }
            _ => None,
        };
        (get(spec.width, &self.width).unwrap_or(0), get(spec.precision, &self.precision))
    }
}

impl Bytes {
    fn get<'p>(&self, p: &'p [u8]) -> &'p [u8] {
        match self {
            Self::Field(f) => f.bytes(p),
            Self::From(at) => p.get(*at as usize..).unwrap_or_default(),
        }
    }
}

/// Fills what was appended since `start` up to `width`.
fn pad(out: &mut Vec<u8>, start: usize, width: usize, left: bool) {
    let have = out.len() - start;
    if have < width {
        out.resize(start + width, b' ');
        if !left {
            out.copy_within(start..start + have, start + width - have);
            out[start..start + width - have].fill(b' ');
        }
    }
}

fn print_number(out: &mut Vec<u8>, spec: &Spec, width: usize, precision: Option<usize>, v: i64) {
    let unsigned = match spec.size {
        1 => u64::from(v as u8),
        2 => u64::from(v as u16),
        4 => u64::from(v as u32),
        _ => v as u64,
    };
    // The two that fill most lines.
    if spec.kind == (Kind::Hex { upper: false })
        && !spec.alternate
        && precision.is_none()
        && (spec.zero && !spec.left || width == 0)
    {
        return number::hex(out, unsigned, width, false);
    }
    let start = out.len();
    let mut digits = Vec::with_capacity(24);
    match spec.kind {
        Kind::Signed => {
            let value = sign_extend(unsigned, u32::from(spec.size));
            if value < 0 {
                out.push(b'-');
            } else if spec.plus {
                out.push(b'+');
            } else if spec.space {
                out.push(b' ');
            }
            number::decimal(&mut digits, value.unsigned_abs());
        }
        Kind::Unsigned => number::decimal(&mut digits, unsigned),
        Kind::Hex { upper } => {
            if spec.alternate && unsigned != 0 {
                out.extend_from_slice(if upper { b"0X" } else { b"0x" });
            }
            number::hex(&mut digits, unsigned, 0, upper);
        }
        Kind::Octal => {
            let mut rest = unsigned;
            loop {
                digits.push(b'0' + (rest & 7) as u8);
                rest >>= 3;
                if rest == 0 {
                    break;
                }
            }
            if spec.alternate && digits.last() != Some(&b'0') {
                digits.push(b'0');
            }
            digits.reverse();
        }
        Kind::Char => digits.push(v as u8),
        Kind::Pointer(_) => {
            out.extend_from_slice(b"0x");
            number::hex(&mut digits, unsigned, 0, false);
        }
        Kind::Text => return,
    }
    let prefix = out.len() - start;
    let zeros = match precision {
        Some(n) => n.saturating_sub(digits.len()),
        None if spec.zero && !spec.left => width.saturating_sub(prefix + digits.len()),
        None => 0,
    };
    out.resize(out.len() + zeros.min(MAX_WIDTH), b'0');
    out.extend_from_slice(&digits);
    pad(out, start, width, spec.left);
}

/// Text of 16 bytes up to its NUL, at the start of `rest`.
#[inline(always)]
fn comm(rest: &[u8], out: &mut Vec<u8>) {
    let Some(text) = rest.first_chunk::<16>() else {
        return out.extend_from_slice(until_nul(rest));
    };
    // The lowest of the bits that only a NUL (or a byte behind one) sets marks the first NUL.
    const ONES: u128 = u128::MAX / 0xff;
    let word = u128::from_le_bytes(*text);
    let nul = word.wrapping_sub(ONES) & !word & (ONES << 7);
    number::short(out, text, nul.trailing_zeros() as usize / 8);
}

/// The name of an address, or the address.
pub(crate) fn symbol(cx: &Context<'_>, address: u64, offset: bool, out: &mut Vec<u8>) {
    match cx.symbols.find(address) {
        Some(s) => {
            out.extend_from_slice(s.name);
            if offset {
                out.extend_from_slice(b"+0x");
                number::hex(out, s.offset, 0, false);
            }
        }
        None => {
            out.extend_from_slice(b"0x");
            number::hex(out, address, 0, false);
        }
    }
}

/// Return addresses, one a line; the record's length says how many there are.
fn stack(cx: &Context<'_>, p: &[u8], at: u32, user: bool, out: &mut Vec<u8>) {
    let width = usize::from(cx.long);
    let end = if width == 4 { u64::from(u32::MAX) } else { u64::MAX };
    for b in p.get(at as usize..).unwrap_or_default().chunks_exact(width) {
        let address = cx.endian.uint(b, width).unwrap_or(end);
        if address == end || user && address == 0 {
            break;
        }
        out.extend_from_slice(b"\n=> ");
        match cx.symbols.find(address).filter(|_| !user) {
            Some(s) => {
                out.extend_from_slice(s.name);
                out.extend_from_slice(b" (");
                number::hex(out, address, 0, false);
                out.push(b')');
            }
            None => number::hex(out, address, 0, false),
        }
    }
}

fn function(cx: &Context<'_>, address: u64, out: &mut Vec<u8>) {
    match cx.symbols.find(address) {
        Some(s) => {
            out.extend_from_slice(s.name);
            // The distance as trace-cmd prints it: from the address back to the symbol.
            out.extend_from_slice(b"/0x");
            number::hex(out, s.offset.wrapping_neg(), 0, false);
        }
        None => {
            out.extend_from_slice(b"0x");
            number::hex(out, address, 8, false);
        }
    }
}

impl Text {
    fn put(&self, cx: &Context<'_>, p: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Literal(t) => out.extend_from_slice(t),
            Self::Field(f) => out.extend_from_slice(f.text(p)),
            Self::Cond(c, yes, no) => if c.get(p) != 0 { yes } else { no }.put(cx, p, out),
            Self::Flags { value, between, table } => flags(value.get(p), between, table, out),
            Self::Symbolic { value, table } => {
                let v = value.get(p);
                match table.iter().find(|(n, _)| *n == v) {
                    Some((_, name)) => out.extend_from_slice(name),
                    None => {
                        out.extend_from_slice(b"0x");
                        number::hex(out, v as u64, 0, false);
                    }
                }
            }
            Self::Hex { bytes, count, between } => {
                hex_bytes(out, counted(bytes.get(p), count, p), between);
            }
            Self::HexDump { bytes, count } => {
                for line in counted(bytes.get(p), count, p).chunks(16) {
                    out.push(b'\n');
                    hex_bytes(out, line, " ");
                }
            }
            Self::Array { bytes, count, element, decimal } => {
                let width = usize::try_from(element.get(p)).unwrap_or(1).clamp(1, 8);
                let all = bytes.get(p);
                let n = count.as_ref().map(|c| usize::try_from(c.get(p)).unwrap_or(0));
                array(out, all, n, width, cx.endian, *decimal);
            }
            Self::Bitmask(f) => bitmask(out, f.bytes(p), cx.endian),
            Self::Socket(bytes) => super::net::socket(out, bytes.get(p), cx.endian),
            Self::Address(n) => {
                let address = n.get(p) as u64;
                match cx.printk.get(address) {
                    Some(text) => out.extend_from_slice(text),
                    None if address == 0 => out.extend_from_slice(b"(null)"),
                    None => symbol(cx, address, false, out),
                }
            }
            Self::Bprint { format, args } => bprint(cx, format, args, p, out),
        }
    }
}

fn counted<'p>(bytes: &'p [u8], count: &Option<Num>, p: &[u8]) -> &'p [u8] {
    let n = count.as_ref().map_or(bytes.len(), |c| usize::try_from(c.get(p)).unwrap_or(0));
    &bytes[..n.min(bytes.len())]
}

fn flags(mut value: i64, between: &[u8], table: &Table, out: &mut Vec<u8>) {
    let mut first = true;
    let mut next = |out: &mut Vec<u8>| {
        if !std::mem::take(&mut first) {
            out.extend_from_slice(between);
        }
    };
    for (mask, name) in table {
        if value == 0 && *mask == 0 {
            next(out);
            out.extend_from_slice(name);
            break;
        }
        if *mask != 0 && value & mask == *mask {
            next(out);
            out.extend_from_slice(name);
            value &= !mask;
        }
    }
    if value != 0 {
        next(out);
        out.extend_from_slice(b"0x");
        number::hex(out, value as u64, 0, false);
    }
}

fn print_bytes(out: &mut Vec<u8>, kind: &Pointer, bytes: &[u8], cx: &Context<'_>) {
    match kind {
        Pointer::Hex(between) => hex_bytes(out, bytes, between),
        Pointer::Mac(between, reversed) => {
            let mut mac: Vec<u8> = bytes.iter().take(6).copied().collect();
            if *reversed {
                mac.reverse();
            }
            hex_bytes(out, &mac, between);
        }
        Pointer::Ip4(zeros) => super::net::ip4(out, bytes, *zeros),
        Pointer::Ip6 { compressed, bare } => super::net::ip6(out, bytes, *compressed, *bare),
        Pointer::Socket => super::net::socket(out, bytes, cx.endian),
        Pointer::Uuid { little, upper } => super::net::uuid(out, bytes, *little, *upper),
        Pointer::Bitmap(_) => bitmask(out, bytes, cx.endian),
        Pointer::Plain | Pointer::Symbol(_) | Pointer::Function => {}
    }
}

/// A binary `trace_printk`: the format is known by its address; arguments are
/// packed in words of four bytes, wider ones aligned to four only.
fn bprint(cx: &Context<'_>, format: &Field, args: &Field, p: &[u8], out: &mut Vec<u8>) {
    let address = format.u64(p);
    let Some(text) = cx.printk.get(address) else {
        out.extend_from_slice(b"0x");
        number::hex(out, address, 0, false);
        return;
    };
    let mut rest = args.bytes(p);
    let take = |rest: &mut &[u8], size: usize| {
        let v = cx.endian.uint(rest, size).unwrap_or(0);
        *rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
        v
    };
    for part in parts(text, cx.long) {
        let spec = match part {
            Part::Text(t) => {
                out.extend_from_slice(&t);
                continue;
            }
            Part::Spec(spec) => spec,
        };
        let count = |c: Count, rest: &mut &[u8]| match c {
            Count::None => None,
            Count::Fixed(n) => Some(n as usize),
            Count::Argument => Some((take(rest, 4) as usize).min(MAX_WIDTH)),
        };
        let (width, precision) =
            (count(spec.width, &mut rest).unwrap_or(0), count(spec.precision, &mut rest));
        match &spec.kind {
            Kind::Text => {
                // Strings are copied in, NUL and padding included.
                let bytes = until_nul(rest);
                let len = (bytes.len() + 1).next_multiple_of(4);
                let start = out.len();
                out.extend_from_slice(&bytes[..precision.unwrap_or(usize::MAX).min(bytes.len())]);
                pad(out, start, width, spec.left);
                rest = rest.get(len..).unwrap_or_default();
            }
            Kind::Pointer(Pointer::Symbol(offset)) => {
                symbol(cx, take(&mut rest, usize::from(cx.long)), *offset, out);
            }
            Kind::Pointer(_) => {
                let v = take(&mut rest, usize::from(cx.long));
                print_number(out, &spec, width, precision, v as i64);
            }
            _ => {
                let v = take(&mut rest, usize::from(spec.size).max(4));
                print_number(out, &spec, width, precision, sign_extend(v, spec.size.max(4).into()));
            }
        }
    }
}
