//! A `print fmt`, compiled to a list of pieces that need no parsing and no look-up by name.

use super::ast::{Binary, Expr, Parser, Unary};
use super::lex::tokens;
use super::spec::{Count, Kind, Part, Pointer, Spec, parts};
use crate::EventFormat;
use crate::format::{Field, FieldKind};

/// A number in place: what a field needs to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberAt {
    pub offset: u32,
    pub size: u8,
    pub signed: bool,
    pub endian: crate::Endian,
}

/// A numeric expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Num {
    Const(i64),
    At(NumberAt),
    /// An element of an array.
    Element(Box<Field>, Box<Num>),
    Unary(Unary, Box<Num>),
    Binary {
        op: Binary,
        unsigned: bool,
        left: Box<Num>,
        right: Box<Num>,
    },
    Cond(Box<Num>, Box<Num>, Box<Num>),
    /// The first where it is not 0, else the second.
    OrElse(Box<Num>, Box<Num>),
    Cast {
        size: u8,
        signed: bool,
        inner: Box<Num>,
    },
    /// Number of elements of a dynamic array: its bytes by this.
    Length(Box<Field>, u32),
}

/// An expression that is text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Text {
    Literal(Box<[u8]>),
    Field(Box<Field>),
    Cond(Num, Box<Text>, Box<Text>),
    /// Names of the bits that are set.
    Flags {
        value: Num,
        between: Box<[u8]>,
        table: Table,
    },
    /// The name of a value.
    Symbolic {
        value: Num,
        table: Table,
    },
    /// Bytes as hexadecimal.
    Hex {
        bytes: Bytes,
        count: Option<Num>,
        between: &'static str,
    },
    /// Lines of hexadecimal.
    HexDump {
        bytes: Bytes,
        count: Option<Num>,
    },
    /// Numbers in braces.
    Array {
        bytes: Bytes,
        count: Option<Num>,
        element: Num,
        decimal: bool,
    },
    /// A bitmap in groups of 32 bits.
    Bitmask(Box<Field>),
    /// A socket address.
    Socket(Bytes),
    /// A string in the kernel's memory, known by its address.
    Address(Num),
    /// `trace_printk`'s own format and arguments.
    Bprint {
        format: Box<Field>,
        args: Box<Field>,
    },
}

/// Values with their names.
pub(crate) type Table = Box<[(i64, Box<[u8]>)]>;

/// Where bytes come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bytes {
    Field(Box<Field>),
    /// From this offset on.
    From(u32),
}

/// One piece of the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Literal(Box<[u8]>),
    /// A literal of at most so many bytes, and its length.
    Short([u8; 16], usize),
    /// Text of 16 bytes in place at this offset: a command's name.
    Comm(u32),
    /// A number in place, decimal, without any formatting: the most frequent case.
    Decimal(NumberAt),
    Number {
        value: Num,
        spec: Spec,
        counts: Counts,
    },
    Text {
        value: Text,
        spec: Spec,
        counts: Counts,
    },
    /// A field's text, without any formatting.
    Plain(Box<Field>),
    /// A symbol; with its offset or not.
    Symbol {
        value: Num,
        offset: bool,
    },
    /// A symbol and its distance, as trace-cmd prints a timer's function.
    Function(Num),
    /// A field's text up to its end or its last newline, which is left out.
    Line(Box<Field>),
    /// Return addresses from this offset on.
    Stack {
        at: u32,
        user: bool,
    },
    /// A call of `futex` by its operation.
    Futex {
        args: [NumberAt; 6],
        fallback: Box<Plan>,
    },
    /// Bytes that a pointer points to.
    Bytes {
        bytes: Bytes,
        kind: Pointer,
        count: Option<Num>,
    },
}

impl Piece {
    pub fn literal(text: &[u8]) -> Self {
        let mut short = [0; 16];
        match short.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text);
                Self::Short(short, text.len())
            }
            None => Self::Literal(text.into()),
        }
    }
}

/// Arguments that stand for `*`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub width: Option<Num>,
    pub precision: Option<Num>,
}

/// More tokens than any kernel's print fmt has.
const MAX_TOKENS: usize = 1 << 16;

/// A compiled `print fmt`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub pieces: Vec<Piece>,
}

/// The string and the argument expressions of a print fmt.
pub(crate) fn parse(text: &str, long: u8) -> Option<(Vec<u8>, Vec<Expr>)> {
    let tokens = tokens(text)?;
    if tokens.len() > MAX_TOKENS {
        return None;
    }
    let mut parser = Parser::new(&tokens, long);
    let format = parser.text()?;
    let mut args = Vec::new();
    while parser.eat(",") {
        args.push(parser.expr()?);
    }
    parser.at_end().then_some((format, args))
}

impl Plan {
    /// Compiles the text after `print fmt:`. `None`: something in it is not understood.
    pub fn compile(format: &EventFormat, text: &str, long: u8) -> Option<Self> {
        let (string, args) = parse(text, long)?;
        let lower = Lower { format };
        let mut args = args.iter();
        let mut pieces = Vec::new();
        for part in parts(&string, long) {
            match part {
                Part::Text(text) => pieces.push(Piece::literal(&text)),
                Part::Spec(spec) => pieces.push(lower.piece(spec, &mut args)?),
            }
        }
        Some(Self { pieces })
    }
}

/// The expression that shows a task's state in `sched_switch`, without the mark for preemption.
pub(crate) fn state_text(format: &EventFormat, long: u8) -> Option<Text> {
    fn names_state(e: &Expr) -> bool {
        match e {
            Expr::Call(name, _) => name == "__print_flags",
            Expr::Cond(_, yes, _) => names_state(yes),
            _ => false,
        }
    }
    let (_, args) = parse(format.print_fmt(), long)?;
    Lower { format }.text(args.iter().find(|e| names_state(e))?)
}

struct Lower<'f> {
    format: &'f EventFormat,
}

impl Lower<'_> {
    fn piece<'e>(&self, spec: Spec, args: &mut impl Iterator<Item = &'e Expr>) -> Option<Piece> {
        let mut count = |c: Count| -> Option<Option<Num>> {
            match c {
                Count::Argument => Some(Some(self.num(args.next()?)?)),
                _ => Some(None),
            }
        };
        let counts = Counts { width: count(spec.width)?, precision: count(spec.precision)? };
        let arg = args.next()?;
        Some(match &spec.kind {
            Kind::Text => match self.text(arg)? {
                Text::Field(f) if spec.is_plain() && f.kind == FieldKind::Text && f.size == 16 => {
                    Piece::Comm(f.offset)
                }
                Text::Field(f) if spec.is_plain() => Piece::Plain(f),
                value => Piece::Text { value, spec, counts },
            },
            Kind::Pointer(Pointer::Symbol(offset)) => {
                Piece::Symbol { value: self.num(arg)?, offset: *offset }
            }
            Kind::Pointer(Pointer::Function) => Piece::Function(self.num(arg)?),
            Kind::Pointer(Pointer::Plain) => Piece::Number { value: self.num(arg)?, spec, counts },
            Kind::Pointer(kind) => match self.bytes(arg) {
                Some(bytes) => Piece::Bytes { bytes, kind: kind.clone(), count: counts.width },
                None => Piece::Number {
                    value: self.num(arg)?,
                    spec: Spec { kind: Kind::Pointer(Pointer::Plain), width: Count::None, ..spec },
                    counts: Counts::default(),
                },
            },
            kind => match self.num(arg) {
                Some(Num::At(at))
                    if spec.is_plain() && usize::from(at.size) <= usize::from(spec.size) && {
                        let shown =
                            if at.size == spec.size { *kind == Kind::Signed } else { at.signed };
                        shown == at.signed
                            && (*kind == Kind::Signed || *kind == Kind::Unsigned && !at.signed)
                    } =>
                {
                    Piece::Decimal(at)
                }
                Some(value) => Piece::Number { value, spec, counts },
                // `%d` of something that is text after all.
                None => Piece::Text { value: self.text(arg)?, spec, counts },
            },
        })
    }

    fn field(&self, name: &str) -> Option<&Field> {
        self.format.field(name)
    }

    fn named(&self, e: &Expr) -> Option<&Field> {
        match e {
            Expr::Name(n) | Expr::Field(n) => self.field(n),
            Expr::Cast(_, inner) => self.named(inner),
            _ => None,
        }
    }

    fn num(&self, e: &Expr) -> Option<Num> {
        self.typed(e).map(|(num, _)| num)
    }

    /// A number, and whether C would compute it with unsigned 64 bits, from the leaves up.
    fn typed(&self, e: &Expr) -> Option<(Num, bool)> {
        let signed = |num| Some((num, false));
        match e {
            Expr::Number(v, unsigned) => Some((Num::Const(*v), *unsigned)),
            Expr::Field(name) => {
                let f = self.field(name)?;
                let num = match f.kind {
                    FieldKind::Number => number_at(f),
                    // An array as a number is its address, which a trace does not have.
                    _ => Num::Const(0),
                };
                Some((num, !f.signed && f.size == 8))
            }
            Expr::Index(array, index) => {
                let f = self.array(array)?;
                signed(Num::Element(Box::new(f.clone()), Box::new(self.num(index)?)))
            }
            Expr::Address(_) => signed(Num::Const(0)),
            // `*(type *)&REC->x` and `*(type *)__get_dynamic_array(x)`: the first element.
            Expr::Deref(inner) => {
                let f = self.array(inner)?;
                signed(match f.kind {
                    FieldKind::Number => number_at(f),
                    _ => Num::Element(Box::new(f.clone()), Box::new(Num::Const(0))),
                })
            }
            Expr::Unary(op, inner) => {
                let (inner, unsigned) = self.typed(inner)?;
                let num = match (op, inner) {
                    (Unary::Neg, Num::Const(v)) => Num::Const(v.wrapping_neg()),
                    (Unary::Invert, Num::Const(v)) => Num::Const(!v),
                    (op, inner) => Num::Unary(*op, Box::new(inner)),
                };
                Some((num, unsigned))
            }
            Expr::Binary(op, left, right) => self.binary(*op, left, right),
            Expr::Cond(c, yes, no) => {
                let c = Box::new(self.num(c)?);
                let ((yes, a), (no, b)) = (self.typed(yes)?, self.typed(no)?);
                Some((Num::Cond(c, Box::new(yes), Box::new(no)), a || b))
            }
            Expr::OrElse(left, right) => {
                let ((left, a), (right, b)) = (self.typed(left)?, self.typed(right)?);
                Some((Num::OrElse(Box::new(left), Box::new(right)), a || b))
            }
            Expr::Cast(ty, inner) => {
                let inner = self.num(inner)?;
                let num = match inner {
                    // Widening changes nothing: values are kept in 64 bits with their sign.
                    inner if ty.size == 8 => inner,
                    inner => Num::Cast { size: ty.size, signed: ty.signed, inner: Box::new(inner) },
                };
                Some((num, !ty.signed && ty.size >= 4))
            }
            Expr::Call(name, args) => signed(self.call_num(name, args)?),
            Expr::Name(name) => signed(Num::Const(constant(name)?)),
            Expr::Text(_) | Expr::Braces(_) => None,
        }
    }

    fn binary(&self, op: Binary, left: &Expr, right: &Expr) -> Option<(Num, bool)> {
        let ((left, a), (right, b)) = (self.typed(left)?, self.typed(right)?);
        // C gives a shift the type of its left side.
        let unsigned = a || b;
        let of_result = if matches!(op, Binary::Shl | Binary::Shr) { a } else { unsigned };
        let num = match (left, right) {
            (Num::Const(a), Num::Const(b)) => Num::Const(super::ast::binary(op, unsigned, a, b)),
            (left, right) => {
                Num::Binary { op, unsigned, left: Box::new(left), right: Box::new(right) }
            }
        };
        Some((num, of_result))
    }

    fn call_num(&self, name: &str, args: &[Expr]) -> Option<Num> {
        let by = |op, divisor| {
            let left = Box::new(self.num(args.first()?)?);
            Some(Num::Binary { op, unsigned: true, left, right: Box::new(Num::Const(divisor)) })
        };
        match name {
            "__builtin_expect" | "likely" | "unlikely" => self.num(args.first()?),
            "__builtin_constant_p" => Some(Num::Const(0)),
            "__builtin_choose_expr" => {
                let (yes, no) = (args.get(1)?, args.get(2)?);
                Some(Num::Cond(
                    Box::new(self.num(args.first()?)?),
                    Box::new(self.num(yes)?),
                    Box::new(self.num(no)?),
                ))
            }
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => {
                Some(Num::Length(Box::new(self.named(args.first()?)?.clone()), 1))
            }
            "sizeof" => {
                let f = self.named(args.first()?)?;
                Some(Num::Const(f.size.into()))
            }
            "__print_ns_to_secs" => by(Binary::Div, 1_000_000_000),
            "__print_ns_without_secs" => by(Binary::Rem, 1_000_000_000),
            "__get_dynamic_array" | "__get_rel_dynamic_array" | "__get_str" | "__get_rel_str" => {
                self.named(args.first()?).map(|_| Num::Const(0))
            }
            _ => None,
        }
    }

    /// The array that an expression names, through casts and `&`.
    fn array(&self, e: &Expr) -> Option<&Field> {
        match e {
            Expr::Field(name) => self.field(name),
            Expr::Cast(_, inner) | Expr::Address(inner) | Expr::Index(inner, _) => {
                self.array(inner)
            }
            Expr::Call(name, args) if name.starts_with("__get_") => self.named(args.first()?),
            _ => None,
        }
    }

    fn text(&self, e: &Expr) -> Option<Text> {
        Some(match e {
            Expr::Text(t) => Text::Literal(t.as_slice().into()),
            Expr::Field(name) => {
                let f = self.field(name)?;
                match f.kind {
                    FieldKind::Number => Text::Address(number_at(f)),
                    _ => Text::Field(Box::new(f.clone())),
                }
            }
            Expr::Cast(_, inner) => return self.text(inner),
            Expr::Cond(c, yes, no) => {
                Text::Cond(self.num(c)?, Box::new(self.text(yes)?), Box::new(self.text(no)?))
            }
            // The left side is compiled twice, as a condition and as text: only where it is short.
            Expr::OrElse(left, _) if matches!(**left, Expr::OrElse(..)) => return None,
            Expr::OrElse(left, right) => {
                Text::Cond(self.num(left)?, Box::new(self.text(left)?), Box::new(self.text(right)?))
            }
            Expr::Call(name, args) => return self.call_text(name, args),
            Expr::Address(inner) => return self.text(inner),
            Expr::Index(array, index) if matches!(**index, Expr::Number(0, _)) => {
                return self.text(array);
            }
            other => Text::Address(self.num(other)?),
        })
    }

    fn call_text(&self, name: &str, args: &[Expr]) -> Option<Text> {
        let first = args.first()?;
        let count = |n: usize| args.get(n).and_then(|e| self.num(e));
        Some(match name {
            "__get_str" | "__get_rel_str" | "__get_dynamic_array" | "__get_rel_dynamic_array" => {
                Text::Field(Box::new(self.named(first)?.clone()))
            }
            "__print_flags" | "__print_flags_u64" => Text::Flags {
                value: self.num(first)?,
                between: literal(args.get(1)?)?,
                table: self.table(args.get(2..)?),
            },
            "__print_symbolic" | "__print_symbolic_u64" => {
                Text::Symbolic { value: self.num(first)?, table: self.table(args.get(1..)?) }
            }
            "__print_hex" => Text::Hex { bytes: self.bytes(first)?, count: count(1), between: " " },
            "__print_hex_str" => {
                Text::Hex { bytes: self.bytes(first)?, count: count(1), between: "" }
            }
            // Prefix, kind, columns, group, bytes, length, characters.
            "__print_hex_dump" => {
                Text::HexDump { bytes: self.bytes(args.get(4)?)?, count: count(5) }
            }
            "__print_array" => Text::Array {
                bytes: self.bytes(first)?,
                count: Some(self.num(args.get(1)?)?),
                element: self.num(args.get(2)?)?,
                decimal: false,
            },
            "__print_dynamic_array" => Text::Array {
                bytes: Bytes::Field(Box::new(self.named(first)?.clone())),
                count: None,
                element: self.num(args.get(1)?)?,
                decimal: false,
            },
            "__get_bitmask" | "__get_cpumask" | "__get_rel_bitmask" | "__get_rel_cpumask" => {
                Text::Bitmask(Box::new(self.named(first)?.clone()))
            }
            "__get_sockaddr" | "__get_rel_sockaddr" => {
                Text::Socket(Bytes::Field(Box::new(self.named(first)?.clone())))
            }
            "__builtin_expect" => return self.text(first),
            _ => Text::Address(self.call_num(name, args)?),
        })
    }

    /// Pairs of value and text. A value that is not known drops its pair: the number is shown then.
    fn table(&self, pairs: &[Expr]) -> Table {
        // `{ {a, "x"}, … }` and `{a, "x"}, …` both occur.
        let pairs = match pairs {
            [Expr::Braces(inner)] if inner.iter().all(|e| matches!(e, Expr::Braces(_))) => inner,
            other => other,
        };
        let pair = |e: &Expr| {
            let Expr::Braces(pair) = e else { return None };
            let [value, text] = pair.as_slice() else { return None };
            match self.num(value)? {
                Num::Const(v) => Some((v, literal(text)?)),
                _ => None,
            }
        };
        pairs.iter().filter_map(pair).collect()
    }

    fn bytes(&self, e: &Expr) -> Option<Bytes> {
        match e {
            Expr::Cast(_, inner) | Expr::Address(inner) => self.bytes(inner),
            Expr::Field(name) => {
                let f = self.field(name)?;
                // A pointer's number is no bytes, but `&REC->number` is.
                Some(Bytes::Field(Box::new(f.clone())))
            }
            Expr::Index(array, index) => match self.num(index)? {
                Num::Const(n) => {
                    let f = self.array(array)?;
                    Some(Bytes::From(f.offset.saturating_add(u32::try_from(n).ok()?)))
                }
                _ => None,
            },
            Expr::Call(name, args) if name.starts_with("__get_") => {
                Some(Bytes::Field(Box::new(self.named(args.first()?)?.clone())))
            }
            _ => None,
        }
    }
}

pub(crate) fn number_at(f: &Field) -> Num {
    Num::At(NumberAt { offset: f.offset, size: f.size as u8, signed: f.signed, endian: f.endian })
}

fn literal(e: &Expr) -> Option<Box<[u8]>> {
    match e {
        Expr::Text(t) => Some(t.as_slice().into()),
        // `__print_flags(x, NULL, …)`.
        Expr::Number(..) | Expr::Name(_) => Some(Box::default()),
        _ => None,
    }
}

/// Constants that kernels leave unresolved in their formats (an `enum` without `TRACE_DEFINE_ENUM`).
/// Values from `include/linux/hrtimer.h`: 1 relative, 2 pinned, 4 in softirq, 8 in hard interrupt.
fn constant(name: &str) -> Option<i64> {
    if let Some(mode) = name.strip_prefix("HRTIMER_MODE_") {
        let mut value = 0;
        for word in mode.split('_') {
            value |= match word {
                "ABS" => 0,
                "REL" => 1,
                "PINNED" => 2,
                "SOFT" => 4,
                "HARD" => 8,
                _ => return None,
            };
        }
        return Some(value);
    }
    match name {
        "NULL" | "false" => Some(0),
        "true" => Some(1),
        _ => None,
    }
}
