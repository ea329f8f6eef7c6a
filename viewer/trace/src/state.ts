/** What is looked at, as it stands in the address: an address can be kept and sent. */
export interface Session {
  from: number | null; to: number | null; a: number | null; b: number | null;
  /** Source and number of the selected event. */
  event: [number, number] | null;
  /** Chosen tasks: source and pid. */
  tasks: [number, number][];
  /** Hidden lanes by name; hidden kinds, tasks, CPUs of the list. */
  hidden: string[]; kinds: number[]; hideTasks: number[]; cpus: number[];
  search: string; searchKind: "expression" | "text"; only: boolean; tab: string; source: number; offsets: number[]; theme: string;
  /** The late wake-up that a link leads to. */
  late: number | null;
}

export const empty = (): Session => ({
  from: null, to: null, a: null, b: null, event: null, tasks: [], hidden: [], kinds: [], hideTasks: [], cpus: [],
  search: "", searchKind: "expression", only: false, tab: "events", source: 0, offsets: [], theme: "", late: null,
});

const numbers = (text: string): number[] => text.split(",").filter((t) => t !== "").map(Number).filter(Number.isFinite);

export function encode(s: Session): string {
  const p = new URLSearchParams();
  const round = (n: number) => String(Math.round(n * 1000) / 1000);
  if (s.from !== null && s.to !== null) p.set("w", `${round(s.from)},${round(s.to)}`);
  if (s.a !== null) p.set("a", round(s.a));
  if (s.b !== null) p.set("b", round(s.b));
  if (s.event) p.set("e", s.event.join(","));
  if (s.tasks.length) p.set("t", s.tasks.map((t) => t.join(".")).join(","));
  if (s.hidden.length) p.set("h", s.hidden.join(","));
  if (s.kinds.length) p.set("hk", s.kinds.join(","));
  if (s.hideTasks.length) p.set("ht", s.hideTasks.join(","));
  if (s.cpus.length) p.set("hc", s.cpus.join(","));
  if (s.search) p.set("q", s.search);
  if (s.searchKind !== "expression") p.set("qk", s.searchKind);
  if (s.only) p.set("only", "1");
  if (s.tab !== "events") p.set("tab", s.tab);
  if (s.source) p.set("s", String(s.source));
  if (s.offsets.some((o) => o !== 0)) p.set("o", s.offsets.join(","));
  if (s.late !== null) p.set("late", String(s.late));
  if (s.theme) p.set("theme", s.theme);
  return p.toString();
}

export function decode(text: string): Session {
  const p = new URLSearchParams(text.replace(/^#/, ""));
  const s = empty();
  const [from, to] = numbers(p.get("w") ?? "");
  if (from !== undefined && to !== undefined && to > from) { s.from = from; s.to = to; }
  const one = (key: string) => { const n = numbers(p.get(key) ?? ""); return n.length ? n[0]! : null; };
  s.a = one("a");
  s.b = one("b");
  const e = numbers(p.get("e") ?? "");
  if (e.length === 2) s.event = [e[0]!, e[1]!];
  s.tasks = (p.get("t") ?? "").split(",").filter(Boolean).map((t) => t.split(".").map(Number))
    .filter((t) => t.length === 2 && t.every(Number.isFinite)).map((t) => [t[0]!, t[1]!]);
  s.hidden = (p.get("h") ?? "").split(",").filter((h) => /^[\w.]+$/.test(h));
  s.kinds = numbers(p.get("hk") ?? "");
  s.hideTasks = numbers(p.get("ht") ?? "");
  s.cpus = numbers(p.get("hc") ?? "");
  s.search = p.get("q") ?? "";
  s.searchKind = p.get("qk") === "text" ? "text" : "expression";
  s.only = p.get("only") === "1";
  const tab = p.get("tab") ?? "";
  s.tab = ["events", "late", "latency", "field", "flame", "show", "sources"].includes(tab) ? tab : "events";
  s.source = Math.max(0, Math.floor(one("s") ?? 0));
  s.offsets = numbers(p.get("o") ?? "");
  s.late = one("late");
  s.theme = ["light", "dark"].includes(p.get("theme") ?? "") ? p.get("theme")! : "";
  return s;
}
