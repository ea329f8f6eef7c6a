/** The latency plot: time between two kinds of events, as histogram, over time, and the worst ones. */
import uPlot from "uplot";
import type { App } from "./app";
import { button, el, table } from "./dom";
import { count, exact, length, moment } from "./format";
import type { Latency } from "./types";

export class LatencyPanel {
  readonly box = el("div", { class: "panel latency-panel" });
  private result = el("div", {});
  private plots: uPlot[] = [];
  private last: Latency | null = null;
  a = "sched_waking";
  b = "sched_switch";

  constructor(private app: App) {}

  draw(): void {
    const kinds = (this.app.info?.sources[this.app.session.source]?.kinds ?? []).map((k) => k[1]).sort();
    const choose = (id: string, name: string, value: string) => {
      const s = el("select", { id, "aria-label": name });
      for (const k of kinds) s.append(el("option", { value: k, selected: k === value }, k));
      return s;
    };
    const [a, b] = [choose("lat-a", "First event", this.a), choose("lat-b", "Second event", this.b)];
    const [ka, kb] = ["lat-ka", "lat-kb"].map((id) => el("input", { id, size: 9, placeholder: "usual key", "aria-label": "Field that is the key" }));
    const go = () => { this.a = a.value; this.b = b.value; void this.measure(ka!.value.trim(), kb!.value.trim()); };
    this.box.replaceChildren(el("div", { class: "bar-tools" }, el("label", {}, "From ", a), ka!, el("label", {}, " to ", b), kb!,
      button("Measure", "Time from each first event to the next second one with the same key", go),
      el("span", { class: "dim grow" }, "Matched by field; without one, by task.")), this.result);
    if (this.last) this.show(this.last);
  }

  private async measure(ka: string, kb: string): Promise<void> {
    this.result.replaceChildren(el("p", { class: "dim" }, "Measuring\u2026"));
    try {
      this.last = await this.app.data.latency(this.app.session.source, this.a, this.b, ka, kb);
      this.show(this.last);
    } catch (e) {
      this.result.replaceChildren(el("p", { class: "problem" }, e instanceof Error ? e.message : String(e)));
    }
  }

  private show(l: Latency): void {
    this.plots.forEach((p) => p.destroy());
    this.plots = [];
    if (l.count === 0) {
      this.result.replaceChildren(el("p", {}, `No ${this.a} was followed by a ${this.b} with the same ${l.keys[0] || "task"}.`));
      return;
    }
    const shift = this.app.shift[this.app.session.source] ?? 0;
    const [min, median, p99, p999, max] = l.quantiles;
    const figures = table(["events", "count", "minimum", "median", "99 %", "99.9 %", "maximum", "without a second"],
      [[`${this.a} (${l.keys[0]}) \u2192 ${this.b} (${l.keys[1]})`, count(l.count), exact(min), exact(median), exact(p99), exact(p999), exact(max), count(l.open)]]);
    const [left, right] = [el("div", { class: "plot" }), el("div", { class: "plot" })];
    const rows = l.worst.map((w, n) => {
      const tr = el("tr", { tabindex: 0 }, el("td", { class: "n" }, exact(w.ns)), el("td", {}, moment(this.app.base, w.from + shift)), el("td", {}, String(w.key)), el("td", {}, String(w.cpu)));
      const go = () => this.app.showInterval(this.app.session.source, w.from, w.from + w.ns);
      tr.addEventListener("click", go);
      tr.addEventListener("keydown", (e) => { if (e.key === "Enter") go(); });
      if (n === 0) tr.id = "worst-first";
      return tr;
    });
    this.result.replaceChildren(el("div", { class: "scroll" }, figures), el("div", { class: "plots" }, left, right),
      el("div", { class: "scroll worst" }, table(["the worst", "from (s)", l.keys[1] || "task", "CPU"], rows)));
    const style = getComputedStyle(document.documentElement), accent = style.getPropertyValue("--accent"), dim = style.getPropertyValue("--dim"), rule = style.getPropertyValue("--rule");
    const axis = (more: uPlot.Axis): uPlot.Axis => ({ stroke: dim, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule }, ...more });
    const width = Math.max(280, Math.floor((this.box.clientWidth - 40) / 2));
    const steps = uPlot.paths.stepped!({ align: 1 });
    this.plots.push(new uPlot({
      width, height: 200, title: "How often", legend: { show: true }, cursor: { drag: { x: true, y: false } },
      scales: { x: { time: false, distr: 3, log: 10 }, y: { distr: 3, log: 10 } },
      axes: [axis({ values: (_u, v) => v.map((n) => (n === null ? "" : length(n))) }), axis({ size: 56 })],
      series: [{ label: "from", value: (_u, v) => (v === null ? "" : length(v)) }, { label: "count", stroke: accent, fill: `${accent}33`, paths: steps, points: { show: false } }],
    }, [l.bins.map((b) => Math.max(1, b[0])), l.bins.map((b) => b[1] || null)], left));
    this.plots.push(new uPlot({
      width, height: 200, title: "When", legend: { show: true }, scales: { x: { time: false }, y: { distr: 3, log: 10 } },
      axes: [axis({ values: (_u, v) => v.map((n) => length(n)) }), axis({ size: 64, values: (_u, v) => v.map((n) => (n === null ? "" : length(n))) })],
      series: [{ label: "after", value: (_u, v) => (v === null ? "" : length(v)) },
        { label: "longest", stroke: accent, value: (_u, v) => (v === null ? "" : length(v)), points: { show: true, size: 3 }, paths: () => null },
        { label: "shortest", stroke: dim, value: (_u, v) => (v === null ? "" : length(v)), points: { show: true, size: 2 }, paths: () => null }],
    }, [l.over_time.map((o) => o[0]), l.over_time.map((o) => Math.max(1, o[2])), l.over_time.map((o) => Math.max(1, o[1]))], right));
  }
}
