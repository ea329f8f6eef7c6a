//! The C expressions in a `print fmt`, as a tree.

use super::lex::Token;

/// An operator with two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Shl,
    Shr,
    And,
    Or,
    Xor,
    Less,
    LessEq,
    Greater,
    GreaterEq,
    Equal,
    NotEqual,
    AndAnd,
    OrOr,
}

/// An operator with one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Neg,
    Not,
    Invert,
}

/// A C type, as far as numbers go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CType {
    pub size: u8,
    pub signed: bool,
    pub pointer: bool,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Number(i64, bool),
    Text(Vec<u8>),
    /// `REC->name`, with an index where there is one.
    Field(String),
    Index(Box<Expr>, Box<Expr>),
    /// `&x`.
    Address(Box<Expr>),
    /// `*x`.
    Deref(Box<Expr>),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Cond(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `a ?: b`: `a` where it is not 0, evaluated once.
    OrElse(Box<Expr>, Box<Expr>),
    Cast(CType, Box<Expr>),
    Call(String, Vec<Expr>),
    /// `{ value, "text" }` or `{ value, value }`.
    Braces(Vec<Expr>),
    /// A constant that the format does not resolve.
    Name(String),
}

/// Deeper trees are no print fmt of any kernel. Brackets and operators count alike, because each
/// makes the tree one deeper; whatever walks a tree may recurse so deep.
const MAX_DEPTH: u32 = 256;

/// A tree and its depth, 1 for a leaf.
struct Tree {
    expr: Expr,
    depth: u32,
}

impl Tree {
    fn leaf(expr: Expr) -> Self {
        Self { expr, depth: 1 }
    }

    /// A tree over subtrees of which the deepest has `below`; `None` when it is too deep.
    fn over(below: u32, expr: Expr) -> Option<Self> {
        (below < MAX_DEPTH).then_some(Self { expr, depth: below + 1 })
    }

    fn boxed(self) -> Box<Expr> {
        Box::new(self.expr)
    }
}

/// Parses from tokens.
pub(crate) struct Parser<'t> {
    tokens: &'t [Token],
    pos: usize,
    depth: u32,
    long: u8,
}

impl<'t> Parser<'t> {
    pub fn new(tokens: &'t [Token], long: u8) -> Self {
        Self { tokens, pos: 0, depth: 0, long }
    }
    pub fn at_end(&self) -> bool {
        self.pos >= self.tokens.len()
    }
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.pos)
    }
    fn is(&self, op: &str) -> bool {
        matches!(self.peek(), Some(Token::Op(o)) if *o == op)
    }
    pub fn eat(&mut self, op: &str) -> bool {
        let yes = self.is(op);
        self.pos += usize::from(yes);
        yes
    }
    fn expect(&mut self, op: &str) -> Option<()> {
        self.eat(op).then_some(())
    }

    /// Adjacent string literals, joined.
    pub fn text(&mut self) -> Option<Vec<u8>> {
        let mut out: Option<Vec<u8>> = None;
        while let Some(Token::Text(t)) = self.peek() {
            out.get_or_insert_default().extend_from_slice(t);
            self.pos += 1;
        }
        out
    }

    /// One expression, up to a comma or a closing bracket.
    pub fn expr(&mut self) -> Option<Expr> {
        self.tree().map(|tree| tree.expr)
    }

    /// One level deeper, for what calls itself.
    fn enter<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let result = if self.depth > MAX_DEPTH { None } else { parse(self) };
        self.depth -= 1;
        result
    }

    fn tree(&mut self) -> Option<Tree> {
        let condition = self.enter(|p| p.binary(0))?;
        if !self.eat("?") {
            return Some(condition);
        }
        if self.eat(":") {
            let no = self.enter(Self::tree)?;
            let below = condition.depth.max(no.depth);
            return Tree::over(below, Expr::OrElse(condition.boxed(), no.boxed()));
        }
        let yes = self.enter(Self::tree)?;
        self.expect(":")?;
        let no = self.enter(Self::tree)?;
        let below = condition.depth.max(yes.depth).max(no.depth);
        Tree::over(below, Expr::Cond(condition.boxed(), yes.boxed(), no.boxed()))
    }

    fn binary(&mut self, lowest: u8) -> Option<Tree> {
        let mut left = self.unary()?;
        while let Some((op, level)) = self.peek().and_then(binary_op) {
            if level < lowest {
                break;
            }
            self.pos += 1;
            let right = self.enter(|p| p.binary(level + 1))?;
            let below = left.depth.max(right.depth);
            left = Tree::over(below, Expr::Binary(op, left.boxed(), right.boxed()))?;
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Tree> {
        match self.peek()? {
            Token::Op("-") => self.prefixed(|e| Expr::Unary(Unary::Neg, e)),
            Token::Op("+") => {
                self.pos += 1;
                self.enter(Self::unary)
            }
            Token::Op("!") => self.prefixed(|e| Expr::Unary(Unary::Not, e)),
            Token::Op("~") => self.prefixed(|e| Expr::Unary(Unary::Invert, e)),
            Token::Op("&") => self.prefixed(Expr::Address),
            Token::Op("*") => self.prefixed(Expr::Deref),
            Token::Op("(") => match self.cast() {
                Some(ty) => {
                    let inner = self.enter(Self::unary)?;
                    Tree::over(inner.depth, Expr::Cast(ty, inner.boxed()))
                }
                None => self.postfix(),
            },
            _ => self.postfix(),
        }
    }

    fn prefixed(&mut self, make: impl FnOnce(Box<Expr>) -> Expr) -> Option<Tree> {
        self.pos += 1;
        let inner = self.enter(Self::unary)?;
        Tree::over(inner.depth, make(inner.boxed()))
    }

    /// `(type)`, if that is what comes; consumed then.
    fn cast(&mut self) -> Option<CType> {
        let mut at = self.pos + 1;
        let mut words: Vec<&str> = Vec::new();
        let mut pointer = false;
        loop {
            match self.tokens.get(at)? {
                Token::Name(n) if n != "REC" && !pointer => words.push(n),
                Token::Name(n) if n == "const" || n == "__user" => {}
                Token::Op("*") => pointer = true,
                // `(const char (*)[2])`.
                Token::Op("(") if self.tokens.get(at + 1) == Some(&Token::Op("*")) => {
                    pointer = true;
                    while self.tokens.get(at)? != &Token::Op(")") {
                        at += 1;
                    }
                    while self.tokens.get(at + 1)? != &Token::Op(")") {
                        at += 1;
                    }
                }
                Token::Op(")") if !words.is_empty() => break,
                _ => return None,
            }
            at += 1;
        }
        // `(NAME)` alone may be a constant in brackets: it is a type only if it is known as one or an operand follows.
        let ty = c_type(&words, pointer, self.long);
        let operand = matches!(
            self.tokens.get(at + 1),
            Some(Token::Name(_) | Token::Number(..) | Token::Text(_) | Token::Op("(" | "~" | "!"))
        );
        if ty.is_none() && !operand {
            return None;
        }
        self.pos = at + 1;
        Some(ty.unwrap_or(CType { size: 8, signed: true, pointer: false }))
    }

    fn postfix(&mut self) -> Option<Tree> {
        let mut tree = self.primary()?;
        loop {
            if self.eat("[") {
                let index = self.enter(Self::tree)?;
                self.expect("]")?;
                let below = tree.depth.max(index.depth);
                tree = Tree::over(below, Expr::Index(tree.boxed(), index.boxed()))?;
            } else if self.is("->") || self.is(".") {
                self.pos += 1;
                let Some(Token::Name(name)) = self.peek() else { return None };
                self.pos += 1;
                tree = Tree::leaf(match tree.expr {
                    Expr::Name(n) if n == "REC" => Expr::Field(name.clone()),
                    // `REC->a.b`: some events are declared with the dots in the field's name.
                    Expr::Field(mut outer) => {
                        outer.push('.');
                        outer.push_str(name);
                        Expr::Field(outer)
                    }
                    _ => return None,
                });
            } else {
                return Some(tree);
            }
        }
    }

    fn primary(&mut self) -> Option<Tree> {
        match self.peek()? {
            Token::Number(v, unsigned) => {
                self.pos += 1;
                Some(Tree::leaf(Expr::Number(*v, *unsigned)))
            }
            Token::Text(_) => self.text().map(|text| Tree::leaf(Expr::Text(text))),
            Token::Op("(") => {
                self.pos += 1;
                let tree = self.enter(Self::tree)?;
                self.expect(")")?;
                Some(tree)
            }
            Token::Op("{") => {
                self.pos += 1;
                let (below, list) = self.list("}")?;
                Tree::over(below, Expr::Braces(list))
            }
            Token::Name(name) => {
                self.pos += 1;
                if name == "sizeof" && self.eat("(") {
                    return self.size_of();
                }
                if self.eat("(") {
                    let (below, list) = self.list(")")?;
                    return Tree::over(below, Expr::Call(name.clone(), list));
                }
                Some(Tree::leaf(Expr::Name(name.clone())))
            }
            Token::Op(_) => None,
        }
    }

    /// Expressions up to a closing bracket, and the depth of the deepest.
    fn list(&mut self, end: &str) -> Option<(u32, Vec<Expr>)> {
        let (mut deepest, mut list) = (0, Vec::new());
        while !self.eat(end) {
            let tree = self.enter(Self::tree)?;
            deepest = deepest.max(tree.depth);
            list.push(tree.expr);
            if !self.eat(",") {
                self.expect(end)?;
                break;
            }
        }
        Some((deepest, list))
    }

    /// `sizeof(type)` or `sizeof(REC->field)`, after the bracket.
    fn size_of(&mut self) -> Option<Tree> {
        let start = self.pos;
        let mut words: Vec<&str> = Vec::new();
        let mut pointer = false;
        while let Some(token) = self.peek() {
            match token {
                Token::Name(n) => words.push(n),
                Token::Op("*") => pointer = true,
                _ => break,
            }
            self.pos += 1;
        }
        if self.eat(")")
            && let Some(ty) = c_type(&words, pointer, self.long)
        {
            return Some(Tree::leaf(Expr::Number(i64::from(ty.size), true)));
        }
        self.pos = start;
        let inner = self.enter(Self::tree)?;
        self.expect(")")?;
        Tree::over(inner.depth, Expr::Call("sizeof".into(), vec![inner.expr]))
    }
}

fn binary_op(token: &Token) -> Option<(Binary, u8)> {
    let Token::Op(op) = token else { return None };
    Some(match *op {
        "||" => (Binary::OrOr, 1),
        "&&" => (Binary::AndAnd, 2),
        "|" => (Binary::Or, 3),
        "^" => (Binary::Xor, 4),
        "&" => (Binary::And, 5),
        "==" => (Binary::Equal, 6),
        "!=" => (Binary::NotEqual, 6),
        "<" => (Binary::Less, 7),
        "<=" => (Binary::LessEq, 7),
        ">" => (Binary::Greater, 7),
        ">=" => (Binary::GreaterEq, 7),
        "<<" => (Binary::Shl, 8),
        ">>" => (Binary::Shr, 8),
        "+" => (Binary::Add, 9),
        "-" => (Binary::Sub, 9),
        "*" => (Binary::Mul, 10),
        "/" => (Binary::Div, 10),
        "%" => (Binary::Rem, 10),
        _ => return None,
    })
}

/// The type that words make; `None` when it is not one of the kernel's number types.
fn c_type(words: &[&str], pointer: bool, long: u8) -> Option<CType> {
    if pointer {
        return Some(CType { size: long, signed: false, pointer: true });
    }
    let mut signed = None;
    let (mut size, mut longs, mut known) = (4, 0, false);
    for word in words {
        known = true;
        match *word {
            "const" | "volatile" | "__user" | "__force" => known = false,
            "enum" | "struct" | "union" => {
                return Some(CType { size: 4, signed: true, pointer: false });
            }
            "unsigned" => signed = Some(false),
            "signed" => signed = Some(true),
            "int" => {}
            "char" => size = 1,
            "short" => size = 2,
            "long" => longs += 1,
            "bool" | "_Bool" | "u8" | "__u8" | "uint8_t" => (size, signed) = (1, Some(false)),
            "s8" | "__s8" | "int8_t" => (size, signed) = (1, Some(true)),
            "u16" | "__u16" | "uint16_t" | "__le16" | "__be16" | "umode_t" => {
                (size, signed) = (2, Some(false));
            }
            "s16" | "__s16" | "int16_t" => (size, signed) = (2, Some(true)),
            "u32" | "__u32" | "uint32_t" | "__le32" | "__be32" | "dev_t" | "gfp_t" | "uid_t"
            | "gid_t" => (size, signed) = (4, Some(false)),
            "s32" | "__s32" | "int32_t" | "pid_t" => (size, signed) = (4, Some(true)),
            "u64" | "__u64" | "uint64_t" | "__le64" | "__be64" | "sector_t" | "blkcnt_t"
            | "ino_t" => (size, signed) = (8, Some(false)),
            "s64" | "__s64" | "int64_t" | "loff_t" | "ktime_t" => (size, signed) = (8, Some(true)),
            "size_t" | "uintptr_t" | "pgoff_t" | "phys_addr_t" => {
                (size, signed) = (long, Some(false))
            }
            "ssize_t" | "ptrdiff_t" | "intptr_t" => (size, signed) = (long, Some(true)),
            _ => return None,
        }
    }
    let size = match longs {
        0 => size,
        1 => long,
        _ => 8,
    };
    (known || signed.is_some()).then_some(CType {
        size,
        signed: signed.unwrap_or(true),
        pointer: false,
    })
}

/// One operation as C does it in 64 bits, but for division by zero, which is 0.
pub(crate) fn binary(op: Binary, unsigned: bool, a: i64, b: i64) -> i64 {
    let (ua, ub) = (a as u64, b as u64);
    let less = if unsigned { ua < ub } else { a < b };
    match op {
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div if unsigned => ua.checked_div(ub).unwrap_or(0) as i64,
        Binary::Rem if unsigned => ua.checked_rem(ub).unwrap_or(0) as i64,
        Binary::Div => a.checked_div(b).unwrap_or(0),
        Binary::Rem => a.checked_rem(b).unwrap_or(0),
        Binary::Shl => u32::try_from(b).ok().and_then(|n| a.checked_shl(n)).unwrap_or(0),
        Binary::Shr if unsigned => {
            u32::try_from(b).ok().and_then(|n| ua.checked_shr(n)).unwrap_or(0) as i64
        }
        Binary::Shr => a >> u32::try_from(b).unwrap_or(63).min(63),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Less => i64::from(less),
        Binary::GreaterEq => i64::from(!less),
        Binary::LessEq => i64::from(less || a == b),
        Binary::Greater => i64::from(!less && a != b),
        Binary::Equal => i64::from(a == b),
        Binary::NotEqual => i64::from(a != b),
        Binary::AndAnd => i64::from(a != 0 && b != 0),
        Binary::OrOr => i64::from(a != 0 || b != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::lex::tokens;
    use super::*;

    fn parse(text: &str) -> Option<Expr> {
        let tokens = tokens(text).unwrap();
        let mut p = Parser::new(&tokens, 8);
        p.expr().filter(|_| p.at_end())
    }

    #[test]
    fn precedence_and_casts() {
        let Some(Expr::Binary(Binary::Or, ..)) = parse("((u64)(REC)->a << 32) | (REC)->b") else {
            panic!()
        };
        let Some(Expr::Cast(CType { size: 8, signed: false, .. }, _)) =
            parse("(unsigned long long) REC->expires")
        else {
            panic!()
        };
        assert!(matches!(
            parse("(void *)REC->ip"),
            Some(Expr::Cast(CType { pointer: true, .. }, _))
        ));
        assert!(matches!(parse("(1 + 2) * 3"), Some(Expr::Binary(Binary::Mul, ..))));
        assert!(matches!(parse("REC->a ? \"x\" : REC->b ? \"y\" : \"z\""), Some(Expr::Cond(..))));
        assert!(matches!(parse("sizeof(u32)"), Some(Expr::Number(4, true))));
        assert!(matches!(parse("REC->args[2]"), Some(Expr::Index(..))));
    }

    #[test]
    fn nonsense_and_endless_nesting_are_refused() {
        assert!(parse("REC->").is_none());
        assert!(parse("1 +").is_none());
        assert!(parse(&"(".repeat(100_000)).is_none());
        assert!(parse(&"-".repeat(100_000)).is_none());
    }

    /// Half the stack of a thread of the viewer's server.
    fn in_small_stack(work: impl FnOnce() + Send + 'static) {
        std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap().join().unwrap();
    }

    #[test]
    fn brackets_and_operators_count_together() {
        in_small_stack(|| {
            let nested = |levels: usize, chain: usize| {
                let mut text = "REC->a".to_owned();
                for _ in 0..levels {
                    text = format!("({text}{})", "+1".repeat(chain));
                }
                parse(&text)
            };
            assert!(nested(1, 250).is_some());
            assert!(nested(25, 9).is_some());
            assert!(nested(1, 300).is_none());
            assert!(nested(24, 990).is_none());
            assert!(nested(60, 5).is_none());
            // Every level of precedence on the way to each bracket.
            let ladder = "1||1&&1|1^1&1==1<1<<1+1*(".repeat(30) + "1" + &")".repeat(30);
            assert!(parse(&ladder).is_none());
            assert!(parse(&("REC->a".to_owned() + &"[0]".repeat(1000))).is_none());
            assert!(parse(&"(int)".repeat(1000)).is_none());
        });
    }

    #[test]
    fn an_operand_left_out_is_not_copied() {
        let text = format!("{}REC->a{}", "(".repeat(60), " ?: 1)".repeat(60));
        let mut tree = parse(&text).unwrap();
        let mut levels = 0;
        while let Expr::OrElse(left, _) = tree {
            tree = *left;
            levels += 1;
        }
        assert_eq!(levels, 60);
    }
}
