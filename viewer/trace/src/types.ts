/** What the server tells; the same as `crates/latlab-view/src/view.rs` writes. */
export interface CpuInfo { cpu: number; events: number; irq: number; soft: number; functions: number; freq: boolean }
/** pid, name, ns on CPUs, times it got one, first seen (ns). */
export type TaskInfo = [number, string, number, number, number];
/** Number, name, system, count. */
export type KindInfo = [number, string, string, number];
export interface SourceInfo {
  name: string; read: boolean; clock: string; ns: boolean; origin: string; length: number; offset: number; events: number;
  /** As `length`, of all that will be read: about, and more than it, until that is done. */
  whole: number;
  cpus: CpuInfo[]; tasks: TaskInfo[]; kinds: KindInfo[]; names: string[]; timers: number;
  /** Time, CPU, pid, text. */
  markers: [number, number, number, string][];
  /** From, to, CPU, how many. */
  lost: [number, number, number, number][];
  wakes: number; notes: string[];
}
export interface Info {
  title: string; version: string; ready: boolean;
  /** Increases whenever more of a source can be looked at. */
  handed: number;
  oneByOne: boolean; limit: number; report: boolean;
  /** What each kind of span in an interrupt, softirq or timer lane is called, by the lower bits of its `aux`. */
  spans: string[]; sources: SourceInfo[];
  /** In an exported page: the stretch that it holds, ns after the first source's origin. */
  window?: [number, number];
}
/** A field of an event, its value as text. */
export interface FieldText { name: string; ty: string; value: string; unit: string; common: boolean }
/** A stack, innermost frame first; `row` is the event that has it. */
export interface Stack { user: boolean; row: number; frames: { name: string; module: string; address: string }[] }
export interface Detail { name: string; fields: FieldText[]; stacks: Stack[] }
/** A flame graph: parents before children, those of one parent in order of their names; the first box is its own parent. */
export interface Flame {
  origin: "nothing" | "kernel_stacks" | "user_stacks" | "function_graph" | "function" | "off_cpu"; partial: boolean;
  nodes: { parent: number; name: string; value: number }[];
}
export interface Row { row: number; t: number; cpu: number; pid: number; comm: string; kind: number; text: string; lost?: number }
/** A segment of the critical path: times in ns after the intended time; whose time it is, and what that task does. */
export interface Part {
  from: number; to: number; stage: string; cause: string; who: string; actor: "path" | "task" | "other";
  cpu: number; pid: number; state: "running" | "ready" | "waiting"; depth: number;
}
/** An interval in which a task of the path had no CPU; `stack` is a place in the stacks of the answer. */
export interface Off { from: number; to: number; pid: number; cpu: number; waits: boolean; depth: number; stack?: number }
/** An event that ended a wait, or let an interrupt or softirq begin that ended one. */
export interface Arrow {
  kind: "wakes" | "hands_on" | "sends" | "raises"; at: number; cpu: number; by: number; who: string; lane: "task" | "irq" | "soft";
  pid: number; target: number; begins: string; begins_lane: "task" | "irq" | "soft"; depth: number;
}
export interface WakeUp {
  source: number; pid: number; comm: string; cpu: number; from: number; to: number; activation: boolean; late: boolean; verdict: string;
  parts: Part[]; arrows: Arrow[]; off: Off[];
}
export interface Late { limit: number; list: WakeUp[]; causes: string[]; stacks: string[][] }
export interface Interval { ns: number; from: number; key: number; cpu: number }
export interface Latency {
  keys: [string, string]; count: number; open: number; quantiles: [number, number, number, number, number];
  bins: [number, number][]; over_time: [number, number, number][]; worst: Interval[];
}
export interface Wake { t: number; pid: number; waker: number; cpu: number; target: number; context: number }
export interface Query {
  expressions?: string[]; text?: string; hide_kinds?: number[]; hide_tasks?: number[]; only_tasks?: number[]; hide_cpus?: number[];
}
export interface Want { lane: string; level: number; number: number }
/** A lane's tile: its items, or a density of 512 bins. */
export interface Tile {
  kind: 1 | 2; n: number; start: Float64Array; end: Float64Array; id: Uint32Array; aux: Uint32Array; count: Uint32Array; fill: Float32Array;
}

/** How far the reading is. */
export interface Status { ready: boolean; handed: number; events: number }

/** Where data come from: the server, or the page itself when it was exported. */
export interface Data {
  live: boolean;
  /** Questions without an answer yet, but for those about how it is going. */
  pending(): number;
  info(): Promise<Info>;
  status(): Promise<Status>;
  tiles(want: Want[]): Promise<Tile[]>;
  select(source: number, query: Query): Promise<{ set: number; count: number }>;
  rows(source: number, set: number, first: number, n: number): Promise<Row[]>;
  place(source: number, set: number, at: { t: number } | { row: number }): Promise<{ event: number; place: number }>;
  find(source: number, set: number, row: number, back: boolean): Promise<Row | null>;
  wakes(source: number, from: number, to: number): Promise<{ more: number; wakes: Wake[] }>;
  event(source: number, row: number): Promise<Detail>;
  /** `pid`: of the time in which that task had no CPU. */
  flame(source: number, from: number, to: number, pid: number | null): Promise<Flame>;
  late(): Promise<Late>;
  lateOf(source: number, pid: number, limit: number, whole: boolean): Promise<Late>;
  latency(source: number, a: string, b: string, ka: string, kb: string): Promise<Latency>;
}
