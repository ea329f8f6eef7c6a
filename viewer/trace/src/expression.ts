/**
 * Filter expressions over rows that are in the page, as `latlab report -F` has them
 * (crates/latlab-trace/src/filter.rs): names of events, `:`, C's operators on fields and numbers;
 * texts by `==`, `!=`, `~` (a pattern), `=~` and `!~` (a regular expression).
 */
import type { Row } from "./types";

/** A kind of event: its name, its system, its fields, and of each of those a letter: number, text, or something else. */
export interface Kind { name: string; system: string; fields: string[]; letters: string }
/** A field of a row: numbers that JavaScript cannot hold come as text of digits in a list of one. */
export type Value = number | string | [string];
export interface Valued extends Row { values?: Value[] }

type Number_ = (row: Valued) => bigint;
interface Node { of: Number_; missing: boolean }
type Token = { op: string } | { name: string } | { text: string } | { number: bigint };

const OPS = ["=~", "!~", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">"];
const wrap = (n: bigint): bigint => BigInt.asIntN(64, n);
const truth = (b: boolean): bigint => (b ? 1n : 0n);

/** Whether text matches a pattern with `*` and `?`. */
export function glob(pattern: string, text: string): boolean {
  const source = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", "[^]*").replaceAll("?", "[^]");
  return new RegExp(`^${source}$`).test(text);
}

function tokens(text: string): Token[] {
  const out: Token[] = [];
  let rest = text.trimStart();
  while (rest) {
    const string = /^"((?:\\.|[^"\\])*)"/.exec(rest), number = /^(0[xX][0-9a-fA-F]+|\d+)[uUlL]*/.exec(rest), name = /^[A-Za-z_$][\w$]*/.exec(rest);
    const op = OPS.find((o) => rest.startsWith(o));
    let used = "";
    if (string) { used = string[0]; out.push({ text: string[1]!.replace(/\\(.)/g, "$1") }); }
    else if (number) { used = number[0]; out.push({ number: wrap(BigInt(/^0\d/.test(number[1]!) ? `0o${number[1]!.slice(1)}` : number[1]!)) }); }
    else if (name) { used = name[0]; out.push({ name: used }); }
    else if (op) { used = op; out.push({ op }); }
    else throw new Error(`${JSON.stringify(text.trim())} cannot be understood: a character does not belong there`);
    rest = rest.slice(used.length).trimStart();
  }
  return out;
}

/** The parser of one expression for one kind of event. */
class Parse {
  private at = 0;
  missing = "";
  constructor(private list: Token[], private kind: Kind, private origin: bigint) {}

  whole(): Node {
    const node = this.or();
    if (this.at < this.list.length) throw new Error("something follows the end of the expression");
    return node;
  }
  private op(at = this.at): string { const t = this.list[at]; return t && "op" in t ? t.op : ""; }
  private eat(op: string): boolean { const yes = this.op() === op; if (yes) this.at++; return yes; }

  private or(): Node {
    let left = this.and();
    while (this.eat("||")) { const l = left, r = this.and(); left = { of: (e) => truth(l.of(e) !== 0n || r.of(e) !== 0n), missing: l.missing && r.missing }; }
    return left;
  }
  private and(): Node {
    let left = this.comparison();
    while (this.eat("&&")) { const l = left, r = this.comparison(); left = { of: (e) => truth(l.of(e) !== 0n && r.of(e) !== 0n), missing: l.missing || r.missing }; }
    return left;
  }
  private comparison(): Node {
    const text = this.text();
    if (text) return text;
    const left = this.arithmetic(0);
    const tests: Record<string, (a: bigint, b: bigint) => boolean> = {
      "==": (a, b) => a === b, "!=": (a, b) => a !== b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "<": (a, b) => a < b, ">": (a, b) => a > b,
    };
    const test = tests[this.op()];
    if (!test) return left;
    this.at++;
    return this.both(left, this.arithmetic(0), (a, b) => truth(test(a, b)));
  }
  /** What is not there is never equal, smaller or different. */
  private both(l: Node, r: Node, f: (a: bigint, b: bigint) => bigint): Node {
    const missing = l.missing || r.missing;
    return { of: missing ? () => 0n : (e) => wrap(f(l.of(e), r.of(e))), missing };
  }
  private text(): Node | null {
    const first = this.list[this.at], op = this.op(this.at + 1), value = this.list[this.at + 2];
    if (!first || !("name" in first) || !["==", "!=", "~", "=~", "!~"].includes(op)) return null;
    const { name } = first, at = this.kind.fields.indexOf(name), text = at >= 0 && this.kind.letters[at] === "t";
    const is = text || (at < 0 && name === "COMM");
    const word = value && "text" in value ? value.text : value && "name" in value && (is || op.includes("~")) ? value.name : null;
    if (word === null) {
      if (is) throw new Error(`${name} is text; put what it is compared with in "quotes"`);
      return null;
    }
    if (!is && at >= 0) throw new Error(`${name} is a number, not text`);
    this.at += 3;
    if (!is) { this.missing = name; return { of: () => 0n, missing: true }; }
    const regex = op === "=~" || op === "!~" ? new RegExp(word) : null;
    const hit = (t: string) => (regex ? regex.test(t) : op === "~" ? glob(word, t) : t === word);
    return { of: (e) => truth(hit(text ? String(e.values?.[at] ?? "") : e.comm) !== op.startsWith("!")), missing: false };
  }
  private arithmetic(level: number): Node {
    const levels: [string, (a: bigint, b: bigint) => bigint][][] = [
      [["|", (a, b) => a | b]], [["^", (a, b) => a ^ b]], [["&", (a, b) => a & b]], [["<<", (a, b) => a << (b & 63n)], [">>", (a, b) => a >> (b & 63n)]],
      [["+", (a, b) => a + b], ["-", (a, b) => a - b]], [["*", (a, b) => a * b], ["/", (a, b) => (b === 0n ? 0n : a / b)], ["%", (a, b) => (b === 0n ? 0n : a % b)]],
    ];
    const here = levels[level];
    if (!here) return this.unary();
    let left = this.arithmetic(level + 1);
    for (;;) {
      const found = here.find(([op]) => this.eat(op));
      if (!found) return left;
      left = this.both(left, this.arithmetic(level + 1), found[1]);
    }
  }
  private unary(): Node {
    const one = (f: (n: bigint) => bigint, known = false): Node => { const n = this.unary(); return { of: (e) => wrap(f(n.of(e))), missing: known ? false : n.missing }; };
    if (this.eat("!")) return one((n) => truth(n === 0n), true);
    if (this.eat("-")) return one((n) => -n);
    if (this.eat("~")) return one((n) => ~n);
    return this.primary();
  }
  private primary(): Node {
    const token = this.list[this.at++];
    if (!token) throw new Error("it ends too early");
    if ("number" in token) return { of: () => token.number, missing: false };
    if ("text" in token) throw new Error("text can only be compared with a field that is text");
    if ("op" in token) {
      if (token.op !== "(") throw new Error(`${token.op} does not belong there`);
      const inner = this.or();
      if (!this.eat(")")) throw new Error("a bracket is not closed");
      return inner;
    }
    const { name } = token, at = this.kind.fields.indexOf(name);
    if (at >= 0) {
      if (this.kind.letters[at] !== "n") throw new Error(`${name} is no number`);
      return { of: (e) => { const v = e.values?.[at]; return v === undefined ? 0n : wrap(BigInt(Array.isArray(v) ? v[0] : v)); }, missing: false };
    }
    if (name === "CPU" || name === "cpu") return { of: (e) => BigInt(e.cpu), missing: false };
    if (name === "PID" || name === "pid") return { of: (e) => BigInt(e.pid), missing: false };
    if (["TIME", "TIMESTAMP", "ts"].includes(name)) return { of: (e) => this.origin + BigInt(e.t), missing: false };
    this.missing = name;
    return { of: () => 0n, missing: true };
  }
}

/** Events and expression: at the first `:` that is not inside of quotes. */
function split(text: string): [string, string | null] {
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '"') quoted = !quoted;
    if (text[i] !== ":" || quoted) continue;
    const events = text.slice(0, i), rest = text.slice(i + 1);
    // `system:event` alone.
    if (!rest.startsWith(" ") && /^[\w*?-]*$/.test(rest.trim()) && !events.trim().includes(" ")) return [text, null];
    return [events, rest];
  }
  return [text, null];
}

function named(list: string, kinds: Map<number, Kind>): number[] {
  const ids = new Set<number>();
  for (const name of list.split(",").map((n) => n.trim()).filter(Boolean)) {
    const [, system, event] = /^(?:(.*?)[/:])?(.*)$/.exec(name)!;
    const hits = [...kinds].filter(([, k]) => (system !== undefined ? glob(event!, k.name) && glob(system, k.system) : glob(event!, k.name) || glob(event!, k.system)));
    if (!hits.length) throw new Error(`no event of this trace is named ${JSON.stringify(name)}`);
    hits.forEach(([id]) => ids.add(id));
  }
  return [...ids];
}

/** A test for rows whose times count from `origin`. Throws a sentence when the expression makes no sense for these kinds. */
export function compile(text: string, kinds: Map<number, Kind>, origin: bigint): (row: Valued) => boolean {
  let [events, expression] = split(text), ids: number[];
  if (expression === null && /[=<>~&|!]/.test(text)) { ids = [...kinds.keys()]; expression = events; }
  else ids = named(events, kinds);
  if (expression === null) { const chosen = new Set(ids); return (row) => chosen.has(row.kind); }
  const list = tokens(expression), tests = new Map<number, Number_>();
  let unknown = "";
  for (const id of ids) {
    const p = new Parse(list, kinds.get(id)!, origin);
    let node: Node;
    try { node = p.whole(); } catch (e) { throw new Error(`${JSON.stringify(text)} cannot be understood: ${(e as Error).message}`); }
    if (p.missing && node.missing) unknown = p.missing;
    else tests.set(id, node.of);
  }
  if (unknown && !tests.size) throw new Error(`none of the chosen events has a field ${JSON.stringify(unknown)}`);
  return (row) => (tests.get(row.kind)?.(row) ?? 0n) !== 0n;
}
