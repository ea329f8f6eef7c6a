/** The page's own data: what an exported page holds. The same questions, answered here. */
import { BINS, binsTile, extent, itemsTile } from "./tile";
import { compile, type Valued } from "./expression";
import type { Data, Detail, Flame, Info, Late, Latency, Query, Tile, Wake, Want } from "./types";

/** What `latlab view --export` writes. Lanes as columns: start, end (ns), id, aux. */
export interface Inside {
  info: Info;
  /** By source and kind of event: names of its fields, of each a letter (number, text, or something else), types and units. */
  fields?: { [kind: string]: [string[], string, string[], string[]] }[];
  /** By source: the flame graph of the page's window. */
  flames: Flame[];
  lanes: { [lane: string]: [number[], number[], number[], number[]] }; rows: Valued[][]; wakes: Wake[][]; late: Late; latency: (Latency | null)[];
}

/** Items of a lane that a tile has; a density where there are many. */
export function cut(lane: [number[], number[], number[], number[]], level: number, number: number, most = 1024): Tile {
  const [start, end, id, aux] = lane, from = number * extent(level), to = from + extent(level), bin = 4 ** level;
  const hits: number[] = [];
  for (let i = 0; i < start.length; i++) if (end[i]! >= from && start[i]! < to && (end[i]! > from || start[i]! === end[i]!)) hits.push(i);
  const pick = (of: number[]) => hits.map((i) => of[i]!);
  if (hits.length <= most) return itemsTile(Float64Array.from(pick(start)), Float64Array.from(pick(end)), Uint32Array.from(pick(id)), Uint32Array.from(pick(aux)));
  const tile = binsTile(new Uint32Array(BINS), new Uint32Array(BINS), new Uint32Array(BINS), new Float32Array(BINS)), best = new Float64Array(BINS).fill(-1);
  for (const i of hits) {
    const first = Math.max(0, Math.floor((start[i]! - from) / bin)), last = Math.min(BINS - 1, Math.max(first, Math.ceil((end[i]! - from) / bin) - 1));
    for (let b = first; b <= last; b++) {
      const long = Math.min(end[i]!, from + (b + 1) * bin) - Math.max(start[i]!, from + b * bin);
      tile.count[b]!++;
      tile.fill[b]! += long / bin;
      if (long > best[b]!) { best[b] = long; tile.id[b] = id[i]!; tile.aux[b] = aux[i]!; }
    }
  }
  return tile;
}

/** The frames of a stack in the text of its event: lines `=> name (address)` or `=> address`. */
export function frames(text: string): { name: string; module: string; address: string }[] {
  return [...text.matchAll(/^=> (?:(\S+) \(([0-9a-f]+)\)|([0-9a-f]+))$/gm)].map((m) => ({ name: m[1] ?? `0x${m[3]}`, module: "", address: m[2] ?? m[3]! }));
}

export class Embedded implements Data {
  live = false;
  private sets: Valued[][] = [[]];
  constructor(private inside: Inside) {}

  pending() { return 0; }
  async info() { return this.inside.info; }
  async status() { return { ready: true, handed: 0, events: 0 }; }
  async tiles(want: Want[]): Promise<Tile[]> {
    return want.map((w) => {
      const set = /^\d+\.set(\d+)$/.exec(w.lane);
      if (set) {
        const t = (this.sets[Number(set[1])] ?? []).map((r) => r.t);
        return cut([t, t, t.map(() => 0), t.map(() => 0)], w.level, w.number);
      }
      return cut(this.inside.lanes[w.lane] ?? [[], [], [], []], w.level, w.number);
    });
  }
  private of(source: number, set: number): Valued[] { return set ? (this.sets[set] ?? []) : (this.inside.rows[source] ?? []); }

  async select(source: number, query: Query) {
    const info = this.inside.info.sources[source]!, known = this.inside.fields?.[source] ?? {};
    const names = new Map(info.kinds.map((k) => [k[0], k[1]]));
    const kinds = new Map(info.kinds.map(([id, name, system]) => [id, { name, system, fields: known[id]?.[0] ?? [], letters: known[id]?.[1] ?? "" }]));
    const tests = (query.expressions ?? []).map((e) => compile(e, kinds, BigInt(info.origin)));
    let pattern: RegExp;
    try { pattern = new RegExp(query.text ?? "", "i"); } catch { throw new Error(`${query.text} is no regular expression`); }
    const rows = (this.inside.rows[source] ?? []).filter((r) =>
      !query.hide_kinds?.includes(r.kind) && !query.hide_tasks?.includes(r.pid) && !query.hide_cpus?.includes(r.cpu)
      && (!tests.length || tests.some((t) => t(r)))
      && (!query.text || pattern.test(`${r.comm}-${r.pid} ${names.get(r.kind) ?? ""}: ${r.text}`)));
    this.sets.push(rows);
    return { set: this.sets.length - 1, count: rows.length };
  }
  async rows(source: number, set: number, first: number, n: number) {
    if (!set && this.inside.rows[source]?.[0] && n === 1) {
      const one = this.inside.rows[source]!.find((r) => r.row === first);
      if (one) return [one];
    }
    return this.of(source, set).slice(first, first + n);
  }
  async place(source: number, set: number, at: { t: number } | { row: number }) {
    const rows = this.of(source, set);
    const place = rows.findIndex((r) => ("t" in at ? r.t >= at.t : r.row >= at.row));
    const found = place < 0 ? rows.length : place;
    return { event: rows[found]?.row ?? 0, place: found };
  }
  async find(source: number, set: number, row: number, back: boolean) {
    const rows = this.of(source, set);
    return (back ? rows.filter((r) => r.row < row).at(-1) : rows.find((r) => r.row > row)) ?? null;
  }
  async wakes(source: number, from: number, to: number) {
    const wakes = (this.inside.wakes[source] ?? []).filter((w) => w.t >= from && w.t <= to);
    return wakes.length > 2000 ? { more: wakes.length, wakes: [] } : { more: 0, wakes };
  }
  async event(source: number, row: number): Promise<Detail> {
    const rows = this.inside.rows[source] ?? [], at = rows.findIndex((r) => r.row === row), event = rows[at];
    if (!event) throw new Error(`There is no event ${row} in this page.`);
    const kinds = this.inside.info.sources[source]!.kinds, kind = (of: Valued) => kinds.find((k) => k[0] === of.kind);
    const [names, , types, units] = this.inside.fields?.[source]?.[event.kind] ?? [[], "", [], []];
    const text = (i: number) => {
      const v = event.values?.[i] ?? "", n = Array.isArray(v) ? v[0] : v;
      // A pointer, or an `unsigned long` where the kernel's addresses are.
      const address = /^-?\d+$/.test(String(n)) && (types[i]!.endsWith("*") || (types[i] === "unsigned long" && !units[i] && BigInt(n) >> 32n !== 0n));
      return address ? `0x${BigInt.asUintN(64, BigInt(n)).toString(16)}` : String(n);
    };
    const common = { common_pid: String(event.pid) };
    const fields = names.map((name, i) => ({ name, ty: types[i]!, value: text(i), unit: units[i]!, common: false }));
    const isStack = (r: Valued) => kind(r)?.[2] === "ftrace" && /^(kernel|user)_stack$/.test(kind(r)![1]);
    // Those that follow on its CPU, of its task, before the next event there.
    const near = rows.slice(at + 1, at + 4097).filter((r) => r.cpu === event.cpu).slice(0, 2);
    const end = near.findIndex((r) => r.pid !== event.pid || !isStack(r));
    const of = isStack(event) ? [event] : end < 0 ? near : near.slice(0, end);
    const [id, name, system] = kind(event) ?? [event.kind, `unknown ${event.kind}`, ""];
    return {
      name: system ? `${system}:${name}` : `${name || id}`,
      fields: [...fields, ...Object.entries(common).map(([n, value]) => ({ name: n, ty: "int", value, unit: "", common: true }))],
      stacks: of.map((r) => ({ user: kind(r)![1] === "user_stack", row: r.row, frames: frames(r.text) })),
    };
  }
  async flame(source: number): Promise<Flame> { return this.inside.flames[source] ?? { origin: "nothing", partial: false, nodes: [] }; }
  async late() { return this.inside.late; }
  async lateOf(): Promise<Late> { throw new Error("An exported page cannot look for other late wake-ups."); }
  async latency(source: number, a: string, b: string): Promise<Latency> {
    const l = this.inside.latency[source];
    if (l && a === "sched_waking" && b === "sched_switch") return l;
    throw new Error("An exported page knows only the time from sched_waking to sched_switch.");
  }
}
