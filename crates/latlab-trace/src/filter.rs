//! A small language to choose events, close to that of `trace-cmd report -F`.
//!
//! ```text
//! sched_switch                                  all events of that name
//! sched                                         … or of that system
//! sched_switch : next_prio < 100                those for which the expression is true
//! irq/*, sched_wak* : CPU == 1 && COMM ~ "rc*"
//! prev_pid == 0 || pid == 0                     every event that has one of the fields
//! ```
//!
//! Events: names, `system`, `system/name`, with `*` and `?`; several with commas.
//! Expressions: C's operators on fields and numbers; texts are compared with
//! `==`, `!=`, `~` (pattern with `*` and `?`) and `=~`, `!~` (regular
//! expression). `COMM`, `PID`, `CPU` and `TIME` (ns) hold for every event.
//! Unlike trace-cmd's, a field that none of the chosen events has is an error.

use crate::format::{Field, FieldKind};
use crate::names::Comms;
use crate::print::ast::{Binary, binary};
use crate::print::lex::{Token, tokens};
use crate::{Event, EventFormat, TraceFile};
use regex_lite::{Regex, RegexBuilder};
use std::collections::BTreeSet;

/// Bytes of a compiled expression at most: its time at each event is in proportion.
const REGEX_MAX: usize = 1 << 18;

/// What is wrong with a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// No event matches.
    #[error("no event of this trace is named {0:?}")]
    NoEvent(String),
    /// No chosen event has the field.
    #[error("none of the chosen events has a field {0:?}")]
    NoField(String),
    /// The expression makes no sense.
    #[error("{0:?} cannot be understood: {1}")]
    Syntax(String, String),
}

/// One or more filters; an event passes when one of them lets it.
#[derive(Debug, Default)]
pub struct Filter {
    /// By event number: the alternatives.
    by_id: Vec<Vec<Node>>,
    pid: Option<Field>,
}

#[derive(Clone, Debug)]
enum Node {
    True,
    Missing,
    Number(i64),
    Field(Box<Field>),
    Cpu,
    Pid,
    Time,
    Not(Box<Node>),
    Neg(Box<Node>),
    Invert(Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    Text { of: TextOf, test: Test, negated: bool },
}

#[derive(Clone, Debug)]
enum TextOf {
    Field(Box<Field>),
    Comm,
}

#[derive(Clone, Debug)]
enum Test {
    Equal(Vec<u8>),
    Glob(Vec<u8>),
    Regex(Regex),
}

/// Whether `text` matches a pattern with `*` and `?`.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match back {
                Some((star, from)) => {
                    p = star + 1;
                    t = from + 1;
                    back = Some((star, t));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

/// The numbers of the events that a list of names and patterns chooses.
///
/// # Errors
/// When one of the names chooses none.
pub fn events_named(file: &TraceFile<'_>, list: &str) -> Result<BTreeSet<u16>, FilterError> {
    let mut ids = BTreeSet::new();
    for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        let before = ids.len();
        let (system, event) = match name.split_once(['/', ':']) {
            Some((s, e)) => (Some(s), e),
            None => (None, name),
        };
        let mut found = false;
        for f in file.formats.iter() {
            let by_event = glob(event.as_bytes(), f.name.as_bytes());
            let hit = match system {
                Some(s) => by_event && glob(s.as_bytes(), f.system.as_bytes()),
                None => by_event || glob(event.as_bytes(), f.system.as_bytes()),
            };
            if hit {
                found = true;
                ids.insert(f.id);
            }
        }
        if !found && ids.len() == before {
            return Err(FilterError::NoEvent(name.to_owned()));
        }
    }
    Ok(ids)
}

impl Filter {
    /// Compiles filters for one trace. Without any, every event passes.
    ///
    /// # Errors
    /// An unknown event or field, or an expression that makes no sense.
    pub fn compile<S: AsRef<str>>(file: &TraceFile<'_>, texts: &[S]) -> Result<Self, FilterError> {
        let mut filter = Self { by_id: Vec::new(), pid: file.common_pid().cloned() };
        for text in texts {
            filter.add(file, text.as_ref())?;
        }
        Ok(filter)
    }

    /// Lets these events pass, besides those that already do.
    pub fn allow(&mut self, ids: &BTreeSet<u16>) {
        for id in ids {
            self.put(*id, Node::True);
        }
    }

    fn put(&mut self, id: u16, node: Node) {
        let at = usize::from(id);
        if self.by_id.len() <= at {
            self.by_id.resize_with(at + 1, Vec::new);
        }
        self.by_id[at].push(node);
    }

    fn add(&mut self, file: &TraceFile<'_>, text: &str) -> Result<(), FilterError> {
        let (events, expression) = match split(text) {
            (events, Some(e)) => (events_named(file, events)?, e),
            (all, None) if all.contains(['=', '<', '>', '~', '&', '|', '!']) => {
                (file.formats.iter().map(|f| f.id).collect(), all)
            }
            (events, None) => {
                let ids = events_named(file, events)?;
                self.allow(&ids);
                return Ok(());
            }
        };
        let syntax = |why: &str| FilterError::Syntax(text.to_owned(), why.to_owned());
        let tokens =
            tokens(expression).ok_or_else(|| syntax("a character does not belong there"))?;
        if tokens.len() > 4096 {
            return Err(syntax("it is too long"));
        }
        let mut unknown: Option<String> = None;
        let mut any = false;
        for id in events {
            let Some(format) = file.formats.get(id) else { continue };
            let mut p = Parse { tokens: &tokens, pos: 0, depth: 0, format, missing: None };
            let node = p.or().map_err(|why| syntax(&why))?;
            if p.pos < tokens.len() {
                return Err(syntax("something follows the end of the expression"));
            }
            match p.missing {
                Some(name) if is_missing(&node) => unknown = Some(name),
                _ => {
                    any = true;
                    self.put(id, node);
                }
            }
        }
        match unknown {
            Some(name) if !any => Err(FilterError::NoField(name)),
            _ => Ok(()),
        }
    }

    /// Whether there is no filter, so that everything passes.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Whether some event of this kind may pass.
    pub fn may_pass(&self, id: u16) -> bool {
        let alternatives = self.by_id.get(usize::from(id));
        self.by_id.is_empty() || alternatives.is_some_and(|nodes| !nodes.is_empty())
    }

    /// Whether an event passes.
    #[inline]
    pub fn passes(&self, event: &Event<'_>, comms: &Comms) -> bool {
        if self.by_id.is_empty() {
            return true;
        }
        let Some(alternatives) = self.by_id.get(usize::from(event.id)) else { return false };
        let scope = Scope { event, comms, pid: self.pid.as_ref() };
        alternatives.iter().any(|n| scope.number(n) != 0)
    }
}

/// Events and expression: at the first `:` that is not inside of quotes and not of a `?:`.
fn split(text: &str) -> (&str, Option<&str>) {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ':' if !quoted => {
                let (events, rest) = (&text[..at], &text[at + 1..]);
                let word = rest.trim();
                // `system:event` alone.
                let name =
                    |s: &str| s.bytes().all(|b| b.is_ascii_alphanumeric() || b"_*?-".contains(&b));
                if !rest.starts_with(' ') && name(word) && !events.trim().contains(' ') {
                    return (text, None);
                }
                return (events, Some(rest));
            }
            _ => {}
        }
    }
    (text, None)
}

/// Whether an expression cannot be true because what it needs is not there.
fn is_missing(node: &Node) -> bool {
    match node {
        Node::Missing => true,
        Node::Binary(Binary::OrOr, l, r) => is_missing(l) && is_missing(r),
        Node::Binary(_, l, r) => is_missing(l) || is_missing(r),
        Node::Neg(n) | Node::Invert(n) => is_missing(n),
        _ => false,
    }
}

struct Parse<'p> {
    tokens: &'p [Token],
    pos: usize,
    depth: u32,
    format: &'p EventFormat,
    missing: Option<String>,
}

type Parsed = Result<Node, String>;

impl Parse<'_> {
    fn eat(&mut self, op: &str) -> bool {
        let yes = matches!(self.tokens.get(self.pos), Some(Token::Op(o)) if *o == op);
        self.pos += usize::from(yes);
        yes
    }

    fn or(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > 100 {
            return Err("it is nested too deeply".into());
        }
        let mut left = self.and()?;
        while self.eat("||") {
            left = Node::Binary(Binary::OrOr, Box::new(left), Box::new(self.and()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut left = self.comparison()?;
        while self.eat("&&") {
            left = Node::Binary(Binary::AndAnd, Box::new(left), Box::new(self.comparison()?));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Parsed {
        if let Some(text) = self.text_test()? {
            return Ok(text);
        }
        let left = self.arithmetic(0)?;
        const OPS: [(&str, Binary); 6] = [
            ("==", Binary::Equal),
            ("!=", Binary::NotEqual),
            ("<=", Binary::LessEq),
            (">=", Binary::GreaterEq),
            ("<", Binary::Less),
            (">", Binary::Greater),
        ];
        for (op, binary) in OPS {
            if self.eat(op) {
                return Ok(Node::Binary(binary, Box::new(left), Box::new(self.arithmetic(0)?)));
            }
        }
        Ok(left)
    }

    /// A comparison of text, if that is what comes.
    fn text_test(&mut self) -> Result<Option<Node>, String> {
        let Some(Token::Name(name)) = self.tokens.get(self.pos) else { return Ok(None) };
        let of = match self.format.field(name) {
            Some(f) if f.is_text() => Some(TextOf::Field(Box::new(f.clone()))),
            None if name == "COMM" => Some(TextOf::Comm),
            _ => None,
        };
        let op = |at: usize| match self.tokens.get(at) {
            Some(Token::Op(o)) => *o,
            _ => "",
        };
        let (kind, used) = match (op(self.pos + 1), op(self.pos + 2)) {
            ("!", "~") => ("!~", 2),
            (k @ ("==" | "!=" | "~" | "=~"), _) => (k, 1),
            _ => return Ok(None),
        };
        let value = match self.tokens.get(self.pos + 1 + used) {
            Some(Token::Text(t)) => t.clone(),
            Some(Token::Name(n)) if of.is_some() || kind.contains('~') => n.clone().into_bytes(),
            _ if of.is_some() => {
                return Err(format!("{name} is text; put what it is compared with in \"quotes\""));
            }
            _ => return Ok(None),
        };
        if of.is_none() && self.format.field(name).is_some() {
            return Err(format!("{name} is a number, not text"));
        }
        self.pos += 2 + used;
        let Some(of) = of else {
            self.missing = Some(name.clone());
            return Ok(Some(Node::Missing));
        };
        let test = match kind {
            "~" => Test::Glob(value),
            "=~" | "!~" => {
                let text = String::from_utf8_lossy(&value);
                let mut builder = RegexBuilder::new(&text);
                Test::Regex(builder.size_limit(REGEX_MAX).build().map_err(|e| e.to_string())?)
            }
            _ => Test::Equal(value),
        };
        Ok(Some(Node::Text { of, test, negated: kind.starts_with('!') }))
    }

    fn arithmetic(&mut self, lowest: usize) -> Parsed {
        const LEVELS: [&[(&str, Binary)]; 6] = [
            &[("|", Binary::Or)],
            &[("^", Binary::Xor)],
            &[("&", Binary::And)],
            &[("<<", Binary::Shl), (">>", Binary::Shr)],
            &[("+", Binary::Add), ("-", Binary::Sub)],
            &[("*", Binary::Mul), ("/", Binary::Div), ("%", Binary::Rem)],
        ];
        let Some(level) = LEVELS.get(lowest) else { return self.unary() };
        let mut left = self.arithmetic(lowest + 1)?;
        while let Some((_, op)) = level.iter().find(|(op, _)| self.eat(op)) {
            left = Node::Binary(*op, Box::new(left), Box::new(self.arithmetic(lowest + 1)?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > 100 {
            return Err("it is nested too deeply".into());
        }
        let node = if self.eat("!") {
            Node::Not(Box::new(self.unary()?))
        } else if self.eat("-") {
            Node::Neg(Box::new(self.unary()?))
        } else if self.eat("~") {
            Node::Invert(Box::new(self.unary()?))
        } else {
            self.primary()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn primary(&mut self) -> Parsed {
        let token = self.tokens.get(self.pos).ok_or("it ends too early")?;
        self.pos += 1;
        match token {
            Token::Number(v, _) => Ok(Node::Number(*v)),
            Token::Op("(") => {
                let inner = self.or()?;
                if self.eat(")") { Ok(inner) } else { Err("a bracket is not closed".into()) }
            }
            Token::Name(name) => Ok(match (self.format.field(name), name.as_str()) {
                (Some(f), _) if f.kind == FieldKind::Number => Node::Field(Box::new(f.clone())),
                (Some(_), _) => return Err(format!("{name} is not a number")),
                (None, "CPU" | "cpu") => Node::Cpu,
                (None, "PID" | "pid") => Node::Pid,
                (None, "TIME" | "TIMESTAMP" | "ts") => Node::Time,
                _ => {
                    self.missing = Some(name.clone());
                    Node::Missing
                }
            }),
            Token::Text(_) => Err("text can only be compared with a field that is text".into()),
            Token::Op(op) => Err(format!("{op} does not belong there")),
        }
    }
}

struct Scope<'s, 'e> {
    event: &'s Event<'e>,
    comms: &'s Comms,
    pid: Option<&'s Field>,
}

impl Scope<'_, '_> {
    fn pid(&self) -> i64 {
        self.pid.map_or(0, |f| f.i64(self.event.payload))
    }

    fn number(&self, node: &Node) -> i64 {
        match node {
            Node::True => 1,
            Node::Missing => 0,
            Node::Number(v) => *v,
            Node::Field(f) => f.i64(self.event.payload),
            Node::Cpu => i64::from(self.event.cpu),
            Node::Pid => self.pid(),
            Node::Time => self.event.time as i64,
            Node::Not(n) => i64::from(self.number(n) == 0),
            Node::Neg(n) => self.number(n).wrapping_neg(),
            Node::Invert(n) => !self.number(n),
            Node::Binary(Binary::AndAnd, l, r) => {
                i64::from(self.number(l) != 0 && self.number(r) != 0)
            }
            Node::Binary(Binary::OrOr, l, r) => {
                i64::from(self.number(l) != 0 || self.number(r) != 0)
            }
            // What is not there is never equal, smaller or different.
            Node::Binary(_, l, r) if is_missing(l) || is_missing(r) => 0,
            Node::Binary(op, l, r) => {
                let unsigned = matches!(**l, Node::Field(ref f) if !f.signed && f.size == 8);
                binary(*op, unsigned, self.number(l), self.number(r))
            }
            Node::Text { of, test, negated } => {
                let text = match of {
                    TextOf::Field(f) => f.text(self.event.payload),
                    TextOf::Comm => self.comms.name(self.pid() as i32),
                };
                let hit = match test {
                    Test::Equal(t) => text == t,
                    Test::Glob(p) => glob(p, text),
                    Test::Regex(r) => r.is_match(&String::from_utf8_lossy(text)),
                };
                i64::from(hit != *negated)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(glob(b"sched_*", b"sched_switch"));
        assert!(glob(b"*a*b?", b"xxaxxbc"));
        assert!(!glob(b"sched", b"sched_switch"));
        assert!(glob(b"*", b""));
        assert!(!glob(b"?", b""));
    }

    #[test]
    fn events_and_expression_are_told_apart() {
        assert_eq!(split("sched_switch : a == 1"), ("sched_switch ", Some(" a == 1")));
        assert_eq!(split("sched:sched_switch"), ("sched:sched_switch", None));
        assert_eq!(split("COMM == \"a:b\""), ("COMM == \"a:b\"", None));
        assert_eq!(split("sched_switch:a==1"), ("sched_switch", Some("a==1")));
    }
}
