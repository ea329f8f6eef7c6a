/** A numeric field of one kind of event over time. */
import uPlot from "uplot";
import type { App } from "./app";
import { button, el, table } from "./dom";
import { count, length, moment } from "./format";
import type { Row } from "./types";

/** Events that are drawn at most, and rows of one answer. */
const MOST = 20_000, AT_ONCE = 500;
/** Values of the table below the plot. */
const HIGHEST = 20;

const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });

/** The numbers in what an event says: `runtime=3255 [ns]`, `len: 0x40`. */
export function numbers(text: string): Map<string, number> {
  const out = new Map<string, number>();
  for (const m of text.matchAll(/([A-Za-z_]\w*)(?:\s?=\s?|:\s)(-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?))(?![\w.:])/g)) {
    const text = m[2]!, value = text.startsWith("-") ? -Number(text.slice(1)) : Number(text);
    // Addresses are names and no quantities, and a number of JavaScript is not exact for them.
    if (Math.abs(value) <= Number.MAX_SAFE_INTEGER && !out.has(m[1]!)) out.set(m[1]!, value);
  }
  return out;
}

export class FieldPanel {
  readonly box = el("div", { class: "panel field-panel" });
  private result = el("div", {});
  private plot: uPlot | null = null;
  private kind = "";
  private field = "";
  private rows: Row[] = [];

  constructor(private app: App) {}

  draw(): void {
    const source = this.app.info?.sources[this.app.session.source];
    if (!source) return;
    const kinds = source.kinds.filter((k) => k[3] > 0).sort((a, b) => (a[1] < b[1] ? -1 : 1));
    if (!kinds.some((k) => k[1] === this.kind)) this.kind = (kinds.find((k) => k[1] === "sched_stat_runtime") ?? kinds[0])?.[1] ?? "";
    const kind = el("select", { id: "field-kind", "aria-label": "Kind of event" }, ...kinds.map((k) => el("option", { value: k[1], selected: k[1] === this.kind }, k[1])));
    const field = el("select", { id: "field-name", "aria-label": "Numeric field" });
    const fill = () => {
      const names = [...new Set(this.rows.slice(0, AT_ONCE).flatMap((r) => [...numbers(r.text).keys()]))];
      if (!names.includes(this.field)) this.field = names.find((n) => !/^(pid|prio|cpu|fd|irq|vec)$/.test(n)) ?? names[0] ?? "";
      field.replaceChildren(...names.map((n) => el("option", { value: n, selected: n === this.field }, n)));
      this.show();
    };
    const read = async () => {
      this.kind = kind.value;
      this.result.replaceChildren(el("p", { class: "dim" }, "Reading\u2026"));
      try {
        await this.read();
        fill();
      } catch (e) {
        this.result.replaceChildren(el("p", { class: "problem" }, e instanceof Error ? e.message : String(e)));
      }
    };
    kind.addEventListener("change", () => void read());
    field.addEventListener("change", () => { this.field = field.value; this.show(); });
    this.box.replaceChildren(el("div", { class: "bar-tools" }, el("label", {}, "Field ", field), el("label", {}, " of ", kind),
      button("Draw", "The field of every event of this kind", () => void read()), el("span", { class: "dim grow" }, "A click on a point selects its event.")), this.result);
    if (this.rows.length) fill();
  }

  private async read(): Promise<void> {
    const { data, session } = this.app;
    this.rows = [];
    const sel = await data.select(session.source, { expressions: [this.kind] });
    for (let at = 0; at < Math.min(sel.count, MOST); at += AT_ONCE) {
      const rows = await data.rows(session.source, sel.set, at, AT_ONCE);
      if (rows.length === 0) break;
      this.rows.push(...rows);
    }
    this.more = Math.max(0, sel.count - this.rows.length);
  }
  private more = 0;

  private show(): void {
    this.plot?.destroy();
    this.plot = null;
    const { app } = this, shift = app.shift[app.session.source] ?? 0;
    const points = this.rows.flatMap((r) => { const v = numbers(r.text).get(this.field); return v === undefined ? [] : [{ r, v }]; });
    if (points.length === 0) {
      this.result.replaceChildren(el("p", {}, `What ${this.kind} says has no number with a name.`));
      return;
    }
    const box = el("div", { class: "plot", role: "img", "aria-label": `${this.field} of ${count(points.length)} events ${this.kind} over time` });
    const more = this.more ? `; the first ${count(this.rows.length)} of ${count(this.rows.length + this.more)} events` : "";
    this.result.replaceChildren(box, el("p", { class: "dim" }, `${count(points.length)} values of ${this.field}${more}.`));
    const style = getComputedStyle(document.documentElement), get = (name: string) => style.getPropertyValue(name);
    const axis = (more: uPlot.Axis): uPlot.Axis => ({ stroke: get("--dim"), grid: { stroke: get("--rule"), width: 1 }, ticks: { stroke: get("--rule") }, ...more });
    const plot = new uPlot({
      width: Math.max(280, Math.floor(this.box.clientWidth - 30)), height: 220, scales: { x: { time: false } }, cursor: { drag: { x: true, y: true, uni: 20 } },
      axes: [axis({ values: (_u, v) => v.map((n) => length(n)) }), axis({ size: 64, values: (_u, v) => v.map((n) => short.format(n)) })],
      series: [{ label: "time (s)", value: (_u, v) => (v === null ? "" : moment(app.base, v + shift)) },
        { label: this.field, stroke: get("--accent"), points: { show: true, size: 4, fill: get("--accent") }, paths: () => null }],
    }, [points.map((p) => p.r.t), points.map((p) => p.v)], box);
    plot.over.addEventListener("click", () => {
      const p = points[plot.cursor.idx ?? -1];
      if (p) app.select(app.session.source, p.r, "center");
    });
    this.plot = plot;
    this.result.append(this.highest(points, shift));
  }

  /** The highest values, to be chosen without the mouse. */
  private highest(points: { r: Row; v: number }[], shift: number): HTMLElement {
    const { app } = this, list = [...points].sort((a, b) => b.v - a.v || a.r.t - b.r.t).slice(0, HIGHEST);
    const rows = list.map(({ r, v }) => [button(moment(app.base, r.t + shift), "Select this event", () => app.select(app.session.source, r, "center"), { class: "link" }), `${r.comm}-${r.pid}`, String(r.cpu), el("span", { class: "n" }, count(v))]);
    return table(["time (s)", "task", "CPU", this.field], rows, `The ${list.length} highest values`);
  }
}
