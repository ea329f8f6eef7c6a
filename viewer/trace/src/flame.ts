/** A flame graph of the time between the markers or in sight: boxes to walk through, and the same as a table. */
import type { App } from "./app";
import { css, hashText, ink } from "./color";
import { button, el, table } from "./dom";
import { count, length } from "./format";
import { taskName } from "./lanes";
import type { Flame } from "./types";

/** Boxes narrower than this share of the graph are not drawn; the table has their functions. */
const NARROW = 0.0005;
const ROW = 19;
/** Functions of the table at most. */
const FUNCTIONS = 200;
/** How long a moving window has to rest, ms. */
const REST = 250;

const MADE: Record<Flame["origin"], string> = {
  nothing: "",
  kernel_stacks: "Kernel stacks; the width of a box is the number of events that were recorded with it. The innermost box is the event.",
  user_stacks: "User stacks, as addresses; the width of a box is the number of events that were recorded with it. The innermost box is the event.",
  function_graph: "Functions of the function_graph tracer on all CPUs; the width of a box is its time.",
  off_cpu: "Stacks with which the task left its CPU; the width of a box is the time until it had one again. The innermost box is what the task did then.",
  function: "Functions of the function tracer below their callers; the width of a box is the number of calls.",
};

/** A graph's boxes with their places: depth, and first value of their parent's row. */
export interface Place { depth: number; x: number; self: number }

/** Where boxes lie: children beside each other in the order in which they are listed. */
export function places(flame: Flame): Place[] {
  const out: Place[] = [];
  flame.nodes.forEach((n, i) => {
    const parent = i > 0 ? out[n.parent]! : null;
    // What is not used by children so far is where the next one begins.
    out.push({ depth: parent ? parent.depth + 1 : 0, x: parent ? parent.x + flame.nodes[n.parent]!.value - parent.self : 0, self: n.value });
    if (parent) parent.self -= n.value;
  });
  return out;
}

/** Functions with their value, with what they call and without. A recursive one counts once. */
export function functions(flame: Flame, at: Place[]): [string, number, number][] {
  const sums = new Map<string, [number, number]>();
  flame.nodes.forEach((n, i) => {
    if (i === 0) return;
    const sum = sums.get(n.name) ?? [0, 0];
    let above = n.parent;
    while (above > 0 && flame.nodes[above]!.name !== n.name) above = flame.nodes[above]!.parent;
    if (above === 0) sum[0] += n.value;
    sum[1] += at[i]!.self;
    sums.set(n.name, sum);
  });
  return [...sums].map(([name, [all, self]]): [string, number, number] => [name, all, self]).sort((a, b) => b[2] - a[2] || b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

export class FlamePanel {
  readonly box = el("div", { class: "panel flame-panel" });
  private result = el("div", {});
  private flame: Flame | null = null;
  private at: Place[] = [];
  /** The box that has the whole width, and the one with the focus. */
  private wide = 0;
  private chosen = 0;
  private shown = "";
  private timer = 0;
  /** The task whose time without a CPU is shown; null: what the trace has. */
  private off: number | null = null;

  constructor(private app: App) {
    this.box.append(this.result);
  }

  /** The window, the markers or the source changed. */
  changed(): void {
    clearTimeout(this.timer);
    if (this.app.session.tab === "flame") this.timer = window.setTimeout(() => void this.draw(), REST);
  }

  /** Markers A and B, or what is in sight. */
  private range(): { from: number; to: number; words: string } {
    const { a, b } = this.app.session, { from, to } = this.app.span;
    if (!this.app.live) return { from, to, words: "all of this page" };
    if (a !== null && b !== null && a !== b) return { from: Math.min(a, b), to: Math.max(a, b), words: "between markers A and B" };
    return { from, to, words: "the visible range; markers A and B select another one" };
  }

  async draw(): Promise<void> {
    const { app } = this, { from, to, words } = this.range(), source = app.session.source, shift = app.shift[source] ?? 0;
    const key = `${source} ${from} ${to} ${app.info?.handed} ${app.palette.isDark} ${this.off}`;
    if (key === this.shown) return;
    this.shown = key;
    try {
      const flame = await app.data.flame(source, Math.floor(from - shift), Math.ceil(to - shift), this.off);
      if (key !== this.shown) return;
      this.flame = flame;
      this.at = places(flame);
      this.wide = this.chosen = 0;
      this.paint(`${length(to - from)}: ${words}.`);
    } catch (e) {
      this.shown = "";
      this.result.replaceChildren(el("p", { class: "problem" }, e instanceof Error ? e.message : String(e)));
    }
  }

  private value(n: number): string {
    if (this.flame!.origin === "function_graph" || this.flame!.origin === "off_cpu") return length(n);
    return `${count(n)} ${this.flame!.origin === "function" ? "call" : "event"}${n === 1 ? "" : "s"}`;
  }
  private words(i: number): string {
    const n = this.flame!.nodes[i]!, all = this.flame!.nodes[0]!.value;
    return `${n.name}: ${this.value(n.value)}, ${((n.value / all) * 100).toFixed(1)} %`;
  }

  /** Of what: what the trace has, or the time in which a task of the lanes had no CPU. */
  private choice(): HTMLElement | null {
    const { app } = this, source = app.session.source;
    if (!app.live) return null;
    const tasks = app.tasks.filter((t) => t[0] === source && t[1] > 0).map((t) => t[1]);
    if (this.off !== null && !tasks.includes(this.off)) tasks.unshift(this.off);
    const select = el("select", { id: "flame-of", "aria-label": "Of what" }, el("option", { value: "", selected: this.off === null }, "what was recorded"),
      ...tasks.map((pid) => el("option", { value: pid, selected: this.off === pid }, `off-CPU time of ${taskName(app.info!, source, pid)}`)));
    select.addEventListener("change", () => { this.off = select.value === "" ? null : Number(select.value); void this.draw(); });
    return el("label", {}, "Of ", select);
  }

  private paint(range: string): void {
    const flame = this.flame!;
    if (flame.origin === "nothing") {
      if (this.off !== null) {
        this.result.replaceChildren(el("div", { class: "bar-tools" }, this.choice()), el("p", {}, "This task had a CPU all the time, or its sched_switch events are not in this range."), el("p", { class: "dim" }, range));
        return;
      }
      this.result.replaceChildren(el("div", { class: "bar-tools" }, this.choice()), el("p", {}, "No stacks and no functions were recorded in this range; latlab record -T records a kernel stack with each event, latlab record -p function_graph the time of functions."), el("p", { class: "dim" }, range));
      return;
    }
    const graph = el("div", { class: "flame", role: "tree", "aria-label": `Flame graph of ${range}` });
    const told = el("output", { class: "flame-told" });
    const back = button("Show all", "Give the outermost box the whole width (Esc)", () => this.widen(graph, told, 0));
    graph.addEventListener("keydown", (e) => this.key(e, graph, told));
    graph.addEventListener("click", (e) => { const i = this.of(e.target); if (i !== null) this.widen(graph, told, i); });
    const point = (e: Event) => { const i = this.of(e.target); if (i !== null) told.textContent = this.words(i); };
    graph.addEventListener("mouseover", point);
    graph.addEventListener("focusin", point);
    const list = functions(flame, this.at), all = flame.nodes[0]!.value;
    const rows = list.slice(0, FUNCTIONS).map(([name, total, self]) => {
      const of = (v: number) => el("span", { class: "n" }, `${this.value(v)} (${((v / all) * 100).toFixed(1)} %)`);
      return [name, of(self), of(total)];
    });
    const more = list.length > FUNCTIONS ? ` The first ${FUNCTIONS} of ${count(list.length)} functions.` : "";
    this.result.replaceChildren(
      el("p", { class: "dim" }, `${MADE[flame.origin]} ${range}${flame.partial ? " Too much for one graph: a part of it is left out." : ""}`),
      el("div", { class: "bar-tools" }, this.choice(), back, told), graph,
      el("details", { open: true }, el("summary", {}, `The same as a table.${more}`), el("div", { class: "scroll" }, table(["function", "itself", "with what it calls"], rows))));
    this.boxes(graph);
    told.textContent = this.words(0);
  }

  private of(target: EventTarget | null): number | null {
    const box = (target as HTMLElement).closest<HTMLElement>("[data-node]");
    return box ? Number(box.dataset.node) : null;
  }

  /** The boxes from the chosen one on, and its parents above it. */
  private boxes(graph: HTMLElement): void {
    const { nodes } = this.flame!, { at, wide } = this, all = nodes[wide]!.value, palette = this.app.palette;
    const parents = new Set<number>();
    for (let i = wide; i > 0; i = nodes[i]!.parent) parents.add(nodes[i]!.parent);
    const inside = new Uint8Array(nodes.length);
    let deepest = 0;
    const drawn: HTMLElement[] = [];
    nodes.forEach((n, i) => {
      inside[i] = i === wide || (i > 0 && inside[n.parent]) ? 1 : 0;
      const share = parents.has(i) ? 1 : n.value / all;
      if ((!inside[i] && !parents.has(i)) || share < NARROW) return;
      const place = at[i]!, color = i === 0 ? palette.rule : palette.byHash(hashText(n.name));
      const box = el("div", { role: "treeitem", "aria-level": place.depth + 1, "aria-label": this.words(i), "aria-selected": String(i === this.chosen), "data-node": i, tabindex: i === this.chosen ? 0 : -1, title: this.words(i) }, n.name);
      box.style.left = `${parents.has(i) ? 0 : ((place.x - at[wide]!.x) / all) * 100}%`;
      box.style.width = `${share * 100}%`;
      box.style.top = `${place.depth * ROW}px`;
      box.style.background = css(color);
      box.style.color = i === 0 ? palette.text : ink(color);
      deepest = Math.max(deepest, place.depth);
      drawn.push(box);
    });
    graph.style.height = `${(deepest + 1) * ROW}px`;
    graph.replaceChildren(...drawn);
  }

  private widen(graph: HTMLElement, told: HTMLElement, i: number): void {
    this.wide = this.chosen = i;
    this.boxes(graph);
    this.focus(graph, told, i);
  }

  private focus(graph: HTMLElement, told: HTMLElement, i: number): void {
    const to = graph.querySelector<HTMLElement>(`[data-node="${i}"]`);
    if (!to) return;
    for (const old of graph.querySelectorAll<HTMLElement>("[tabindex='0']")) { old.tabIndex = -1; old.setAttribute("aria-selected", "false"); }
    this.chosen = i;
    to.tabIndex = 0;
    to.setAttribute("aria-selected", "true");
    to.focus();
    told.textContent = this.words(i);
  }

  private key(e: KeyboardEvent, graph: HTMLElement, told: HTMLElement): void {
    const { nodes } = this.flame!, i = this.chosen;
    const drawn = [...graph.querySelectorAll<HTMLElement>("[data-node]")].map((b) => Number(b.dataset.node));
    // Boxes of one depth from left to right.
    const row = drawn.filter((n) => this.at[n]!.depth === this.at[i]!.depth).sort((a, b) => this.at[a]!.x - this.at[b]!.x);
    const below = drawn.filter((n) => n > 0 && nodes[n]!.parent === i).sort((a, b) => nodes[b]!.value - nodes[a]!.value);
    const to: Record<string, number | undefined> = {
      ArrowUp: i > 0 ? nodes[i]!.parent : undefined, ArrowDown: below[0],
      ArrowLeft: row[row.indexOf(i) - 1], ArrowRight: row[row.indexOf(i) + 1], Home: 0,
    };
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "Enter" || e.key === " ") this.widen(graph, told, i);
    else if (e.key === "Escape") this.widen(graph, told, 0);
    else if (e.key in to) { if (to[e.key] !== undefined) this.focus(graph, told, to[e.key]!); }
    else return;
    e.preventDefault();
    e.stopPropagation();
  }
}
