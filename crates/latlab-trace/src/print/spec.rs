//! The conversions of a format string: `%-16s`, `%08lx`, `%pS`, `%*ph`.

/// A width or precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Count {
    #[default]
    None,
    Fixed(u32),
    /// `*`: the next argument.
    Argument,
}

/// What a pointer conversion shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pointer {
    /// The address.
    Plain,
    /// A symbol; true with its offset.
    Symbol(bool),
    /// A timer's function as trace-cmd prints it; `%pZ`, which no kernel has.
    Function,
    /// Bytes as hexadecimal with this between them; `%*ph` has their number before.
    Hex(&'static str),
    /// Hardware address; separator, and whether reversed.
    Mac(&'static str, bool),
    /// IPv4; leading zeros.
    Ip4(bool),
    /// IPv6; compressed, and whether without colons.
    Ip6 { compressed: bool, bare: bool },
    /// A socket address.
    Socket,
    /// A UUID; little-endian fields, upper case.
    Uuid { little: bool, upper: bool },
    /// A bitmap; true as a list.
    Bitmap(bool),
}

/// What a conversion shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Signed,
    Unsigned,
    Hex { upper: bool },
    Octal,
    Char,
    Text,
    Pointer(Pointer),
}

/// One conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub left: bool,
    pub zero: bool,
    pub plus: bool,
    pub space: bool,
    pub alternate: bool,
    pub width: Count,
    pub precision: Count,
    /// Bytes of the number that is shown.
    pub size: u8,
    pub kind: Kind,
}

impl Spec {
    /// Whether a number needs no more than its digits.
    pub fn is_plain(&self) -> bool {
        !(self.plus || self.space || self.alternate)
            && self.width == Count::None
            && self.precision == Count::None
    }
}

/// A format string, cut up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(Vec<u8>),
    Spec(Spec),
}

/// Cuts a format string up. What is no conversion is text.
pub(crate) fn parts(format: &[u8], long: u8) -> Vec<Part> {
    let mut out = Vec::new();
    let mut text = Vec::new();
    let mut i = 0;
    while let Some(b) = format.get(i).copied() {
        i += 1;
        if b != b'%' {
            text.push(b);
            continue;
        }
        if format.get(i) == Some(&b'%') {
            text.push(b'%');
            i += 1;
            continue;
        }
        match spec(&format[i..], long) {
            Some((spec, len)) => {
                if !text.is_empty() {
                    out.push(Part::Text(std::mem::take(&mut text)));
                }
                out.push(Part::Spec(spec));
                i += len;
            }
            None => text.push(b'%'),
        }
    }
    if !text.is_empty() {
        out.push(Part::Text(text));
    }
    out
}

/// The conversion after a `%`, and its length.
fn spec(text: &[u8], long: u8) -> Option<(Spec, usize)> {
    let mut s = Spec {
        left: false,
        zero: false,
        plus: false,
        space: false,
        alternate: false,
        width: Count::None,
        precision: Count::None,
        size: 4,
        kind: Kind::Signed,
    };
    let mut i = 0;
    loop {
        match text.get(i)? {
            b'-' => s.left = true,
            b'0' => s.zero = true,
            b'+' => s.plus = true,
            b' ' => s.space = true,
            b'#' => s.alternate = true,
            _ => break,
        }
        i += 1;
    }
    s.width = count(text, &mut i);
    if text.get(i) == Some(&b'.') {
        i += 1;
        s.precision = match count(text, &mut i) {
            Count::None => Count::Fixed(0),
            other => other,
        };
    }
    loop {
        match text.get(i)? {
            b'h' => s.size = if s.size == 2 { 1 } else { 2 },
            b'l' => {
                s.size = if s.size == long && text.get(i.wrapping_sub(1)) == Some(&b'l') {
                    8
                } else {
                    long
                }
            }
            b'L' | b'q' | b'j' => s.size = 8,
            b'z' | b'Z' | b't' => s.size = long,
            _ => break,
        }
        i += 1;
    }
    s.kind = match text.get(i)? {
        b'd' | b'i' => Kind::Signed,
        b'u' => Kind::Unsigned,
        b'x' => Kind::Hex { upper: false },
        b'X' => Kind::Hex { upper: true },
        b'o' => Kind::Octal,
        b'c' => Kind::Char,
        b's' => Kind::Text,
        b'p' => {
            s.size = long;
            let (pointer, len) = pointer(&text[i + 1..]);
            i += len;
            Kind::Pointer(pointer)
        }
        _ => return None,
    };
    Some((s, i + 1))
}

fn count(text: &[u8], i: &mut usize) -> Count {
    if text.get(*i) == Some(&b'*') {
        *i += 1;
        return Count::Argument;
    }
    let start = *i;
    let mut value = 0u32;
    while let Some(d @ b'0'..=b'9') = text.get(*i) {
        // Wider than this is no column but an attack.
        value = (value * 10 + u32::from(d - b'0')).min(1024);
        *i += 1;
    }
    if *i == start { Count::None } else { Count::Fixed(value) }
}

/// What follows `%p`, and its length.
fn pointer(text: &[u8]) -> (Pointer, usize) {
    let second = text.get(1).copied().unwrap_or(0);
    match text.first().copied().unwrap_or(0) {
        b's' | b'f' => (Pointer::Symbol(false), 1),
        b'S' | b'F' | b'B' => {
            (Pointer::Symbol(true), 1 + usize::from(matches!(second, b'R' | b'b')))
        }
        b'h' => match second {
            b'C' => (Pointer::Hex(":"), 2),
            b'D' => (Pointer::Hex("-"), 2),
            b'N' => (Pointer::Hex(""), 2),
            _ => (Pointer::Hex(" "), 1),
        },
        b'M' => match second {
            b'R' => (Pointer::Mac(":", true), 2),
            b'F' => (Pointer::Mac("-", false), 2),
            _ => (Pointer::Mac(":", false), 1),
        },
        b'm' => match second {
            b'R' => (Pointer::Mac("", true), 2),
            _ => (Pointer::Mac("", false), 1),
        },
        start @ (b'I' | b'i') => match second {
            b'4' => {
                let order = usize::from(matches!(text.get(2), Some(b'h' | b'n' | b'b' | b'l')));
                (Pointer::Ip4(start == b'i'), 2 + order)
            }
            b'6' if text.get(2) == Some(&b'c') => {
                (Pointer::Ip6 { compressed: true, bare: false }, 3)
            }
            b'6' => (Pointer::Ip6 { compressed: false, bare: start == b'i' }, 2),
            b'S' => {
                let rest = text[2..].iter();
                let more = rest.take_while(|b| matches!(b, b'p' | b'f' | b's' | b'c')).count();
                (Pointer::Socket, 2 + more)
            }
            _ => (Pointer::Plain, 0),
        },
        b'U' => match second {
            b'b' => (Pointer::Uuid { little: false, upper: false }, 2),
            b'B' => (Pointer::Uuid { little: false, upper: true }, 2),
            b'l' => (Pointer::Uuid { little: true, upper: false }, 2),
            b'L' => (Pointer::Uuid { little: true, upper: true }, 2),
            _ => (Pointer::Uuid { little: false, upper: false }, 1),
        },
        b'Z' => (Pointer::Function, 1),
        b'b' => (Pointer::Bitmap(second == b'l'), 1 + usize::from(second == b'l')),
        b'x' | b'K' => (Pointer::Plain, 1),
        _ => (Pointer::Plain, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(format: &str, long: u8) -> Spec {
        match parts(format.as_bytes(), long).as_slice() {
            [Part::Spec(s)] => s.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lengths_of_numbers_follow_the_kernel() {
        assert_eq!(one("%d", 8).size, 4);
        assert_eq!(one("%ld", 8).size, 8);
        assert_eq!(one("%ld", 4).size, 4);
        assert_eq!(one("%lld", 4).size, 8);
        assert_eq!(one("%hhu", 8).size, 1);
        assert_eq!(one("%hx", 8).size, 2);
        assert_eq!(one("%zu", 4).size, 4);
    }

    #[test]
    fn flags_widths_and_pointers() {
        let s = one("%-16.*s", 8);
        assert!(s.left && s.width == Count::Fixed(16) && s.precision == Count::Argument);
        assert_eq!(one("%pS", 8).kind, Kind::Pointer(Pointer::Symbol(true)));
        assert_eq!(one("%*phC", 8).kind, Kind::Pointer(Pointer::Hex(":")));
        assert_eq!(parts(b"100%% %", 8), [Part::Text(b"100% %".to_vec())]);
    }
}
