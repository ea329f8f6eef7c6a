/** The critical path of a late wake-up or activation: its segments and the events that ended the waits, as a table. */
import type { App } from "./app";
import { css } from "./color";
import { button, el } from "./dom";
import { exact, length } from "./format";
import { taskName } from "./lanes";
import type { Arrow, Off, Part, WakeUp } from "./types";

/** Tasks of a path that get a lane. */
const TASKS = 8;
/** Rows of the table at most: the longest segments and the arrows between them stay. */
const ROWS = 250;

/** What stands at a moment of the path: a segment, an arrow, or a task that leaves its CPU. */
export type Entry = { part: Part; index: number } | { arrow: Arrow; number: number } | { off: Off };

export const sum = (w: WakeUp): number => w.parts.reduce((s, p) => s + p.to - p.from, 0);
export const share = (w: WakeUp, p: Part): number => (p.to - p.from) / Math.max(1, w.to - w.from);
/** A share as text; what is not nothing is no 0 %. */
export const percent = (s: number): string => (s > 0 && s < 0.005 ? "<1 %" : `${Math.round(s * 100)} %`);
export const words = (p: Part): string => (p.who ? `${p.cause}: ${p.who}` : p.cause);

/** Segments, arrows and waits in order of time. */
export function entries(w: WakeUp): Entry[] {
  const all: [number, number, Entry][] = w.parts.map((part, index) => [part.from, 1, { part, index }]);
  w.arrows.forEach((arrow, i) => all.push([arrow.at, 0, { arrow, number: i + 1 }]));
  // Of what begins at one moment: the arrow, the wait, then what the time passes with.
  for (const off of w.off) all.push([Math.max(0, off.from), 0.5, { off }]);
  return all.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((e) => e[2]);
}

/** The tasks whose time the path consists of: the late one first, then by how many waits lie between. */
export function tasks(w: WakeUp): number[] {
  const depth = new Map<number, number>([[w.pid, -1]]);
  for (const p of w.parts) if (p.pid > 0) depth.set(p.pid, Math.min(depth.get(p.pid) ?? Infinity, p.depth));
  return [...depth].sort((a, b) => a[1] - b[1]).map((d) => d[0]).slice(0, TASKS);
}

/** What a task does in a segment. */
export function doing(p: Part): string {
  return { running: "running", ready: "waiting for a CPU", waiting: "waiting" }[p.state];
}

export class PathPanel {
  readonly box = el("section", { class: "path", "aria-label": "Critical path" });
  /** The late wake-up that is shown, and the segment that was gone to. */
  shown: WakeUp | null = null;
  at = -1;

  constructor(private app: App, private color: (p: Part) => number) {}

  get shift(): number { return this.shown ? (this.app.shift[this.shown.source] ?? 0) : 0; }

  show(w: WakeUp): void {
    this.shown = w;
    this.at = -1;
    this.draw();
  }

  /** The tasks that stand below the path's lane; null: none is shown. */
  lanes(): { source: number; tasks: number[] } | null {
    return this.shown ? { source: this.shown.source, tasks: tasks(this.shown) } : null;
  }

  hide(): void {
    this.shown = null;
    this.app.relane();
  }

  /** To the next or previous segment. */
  step(by: number): void {
    const w = this.shown;
    if (!w || w.parts.length === 0) return this.app.say("No critical path is shown: L goes to the next late wake-up.");
    this.go(this.at < 0 ? (by > 0 ? 0 : w.parts.length - 1) : (this.at + by + w.parts.length) % w.parts.length);
  }

  /** Shows a segment, and the event at its beginning. */
  go(index: number): void {
    const w = this.shown, p = w?.parts[index];
    if (!w || !p) return;
    this.at = index;
    this.look(w, p.from, p.to, Math.max((p.to - p.from) * 0.3, 50));
    this.mark();
    const run = this.app.timeline.lanes.findIndex((l) => l.source === w.source && l.kind === "run" && l.cpu === p.cpu);
    if (run >= 0) this.app.timeline.reveal(run);
  }

  /** Shows an interval with a margin, and the event at its beginning; times after the intended one. */
  private look(w: WakeUp, from: number, to: number, margin: number): void {
    const start = w.from + this.shift;
    this.app.show({ from: start + from - margin, to: start + to + margin });
    void this.app.selectAt(w.source, start + from, null);
  }

  private mark(): void {
    this.box.querySelectorAll("tr").forEach((tr) => {
      const is = tr.dataset.part === String(this.at);
      tr.classList.toggle("selected", is);
      const scroll = tr.closest<HTMLElement>(".scroll");
      // Its own list scrolls, and nothing around it.
      if (is && scroll) scroll.scrollTop = tr.offsetTop - (scroll.clientHeight - tr.offsetHeight) / 2;
    });
  }

  private name(pid: number): string { return taskName(this.app.info!, this.shown!.source, pid); }

  /** An arrow in words: who, and to whom. */
  words(a: Arrow): string {
    const by = a.who || this.name(a.by), on = `on CPU ${a.cpu}`;
    if (a.kind === "sends") return `${by} ${on} sends an interrupt to CPU ${a.target}`;
    if (a.kind === "raises") return `${by} ${on} raises ${a.begins}`;
    if (a.kind === "hands_on") return `${by} ${on} releases the lock for ${this.name(a.pid)}`;
    return `${by} ${on} wakes ${this.name(a.pid)}`;
  }

  private draw(): void {
    const w = this.shown!;
    let list = entries(w);
    const left = list.length - ROWS;
    if (left > 0) {
      const long = [...w.parts].sort((a, b) => b.to - b.from - (a.to - a.from))[Math.max(0, ROWS - w.arrows.length - w.off.length - 1)];
      const least = long ? long.to - long.from : 0;
      list = list.filter((e) => !("part" in e) || e.part.to - e.part.from >= least).slice(0, ROWS);
    }
    const rows = list.map((e) => ("part" in e ? this.segment(w, e.part, e.index) : "arrow" in e ? this.arrow(w, e.arrow, e.number) : this.off(w, e.off)));
    const total = sum(w), kind = w.activation ? "response time" : "latency";
    const equal = total === w.to - w.from ? `= ${kind}` : `; ${kind} ${exact(w.to - w.from)}`;
    const head = `${length(total)} ${equal}, ${w.parts.length} segments, ${w.arrows.length} ${w.arrows.length === 1 ? "arrow" : "arrows"}`;
    const foot = el("tr", {}, el("th", { scope: "row", colspan: 4 }, `Sum ${equal}`), el("td", { class: "n" }, exact(total)), el("td", { class: "n" }, percent(total / Math.max(1, w.to - w.from))));
    const columns = ["after (\u00b5s)", "acts", "for", "CPU", "time", "share"].map((h) => el("th", { scope: "col" }, h));
    this.box.replaceChildren(
      el("h2", {}, "Critical path", el("span", { class: "dim" }, `  ${head}${left > 0 ? "; the table has the longest" : ""} (keys , and .)`)),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Critical path as a table" },
        el("table", {}, el("thead", {}, el("tr", {}, ...columns)), el("tbody", {}, ...rows), el("tfoot", {}, foot))));
  }

  private segment(w: WakeUp, p: Part, index: number): HTMLTableRowElement {
    const swatch = el("span", { class: "swatch" });
    swatch.style.background = css(this.color(p));
    const time = el("td", { class: "n" }, exact(p.to - p.from)), part = el("td", { class: "n" }, percent(share(w, p)));
    return el("tr", { "data-part": index },
      el("td", { class: "n" }, (p.from / 1000).toFixed(1)),
      el("td", {}, swatch, button(words(p), `Show ${words(p)}, stage ${p.stage}`, () => this.go(index), { class: "link" })),
      el("td", {}, nested(p.depth), `${this.name(p.pid)} ${doing(p)}`), el("td", {}, String(p.cpu)), time, part);
  }

  /** A task of the path leaves its CPU: until when, and in which function of the kernel. */
  private off(w: WakeUp, o: Off): HTMLTableRowElement {
    const frames = o.stack === undefined ? undefined : this.app.late.stacks[o.stack];
    const what = `${this.name(o.pid)} ${o.waits ? "waits" : "is preempted"} ${length(o.to - o.from)}`;
    const show = () => this.look(w, o.from, o.to, (o.to - o.from) * 0.1 + 50);
    return el("tr", { class: "off" },
      el("td", { class: "n" }, (o.from / 1000).toFixed(1)),
      el("td", { colspan: 5 }, nested(o.depth), button(what, `Show this ${o.waits ? "wait" : "preemption"}`, show, { class: "link" }),
        frames ? el("details", {}, el("summary", {}, `in ${outer(frames)}`), el("ol", { "aria-label": "Kernel stack, innermost first" }, ...frames.map((f) => el("li", {}, f)))) : null));
  }

  private arrow(w: WakeUp, a: Arrow, number: number): HTMLTableRowElement {
    const show = () => this.look(w, a.at, a.at, Math.max(2_000, (w.to - w.from) * 0.02));
    return el("tr", { class: "arrow" },
      el("td", { class: "n" }, (a.at / 1000).toFixed(1)),
      el("td", { colspan: 5 }, el("span", { class: "badge", "aria-hidden": "true" }, String(number)), button(this.words(a), `Show arrow ${number}`, show, { class: "link" })));
  }
}

/** How many waits lie between a task and the late one. */
const nested = (depth: number): HTMLElement | null => (depth > 0 ? el("span", { class: "dim", role: "img", "aria-label": `${depth} ${depth === 1 ? "wait" : "waits"} away: ` }, `${"\u21b3".repeat(Math.min(depth, 4))} `) : null);

/** Functions of the scheduler and of waiting itself: what is waited for is named below them. */
const SCHEDULER = /^(__)?(schedule|preempt_schedule|trace_|traceiter_|ftrace_|stack_trace|event_triggers)/;
/** The function of a stack that says most: the innermost one outside of the scheduler. */
export function outer(frames: string[]): string {
  return frames.find((f) => !SCHEDULER.test(f)) ?? frames[0] ?? "";
}
