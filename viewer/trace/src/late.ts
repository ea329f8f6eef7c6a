/** Late wake-ups: the list, the latency breakdown under the timeline, and an on-time one beside it. */
import type { App } from "./app";
import { css, hashText, ink } from "./color";
import { button, el, table } from "./dom";
import { count, exact, length, moment, parse } from "./format";
import { taskName } from "./lanes";
import { PathPanel, percent, share, tasks, words } from "./path";
import type { Late, Part, WakeUp } from "./types";

/** The on-time wake-up to compare with: of the same task and source where there is one, the middle one by latency. */
export function control(late: Late, w: WakeUp): WakeUp | null {
  const on = late.list.filter((o) => !o.late && o.parts.length > 0);
  const near = on.filter((o) => o.source === w.source && o.pid === w.pid);
  const list = near.length ? near : on;
  list.sort((a, b) => a.to - a.from - (b.to - b.from));
  return list[Math.floor(list.length / 2)] ?? null;
}

export class LatePanel {
  readonly box = el("div", { class: "panel late-panel" });
  readonly budget = el("section", { class: "budget", hidden: true, "aria-label": "Latency breakdown of the late wake-up" });
  readonly path: PathPanel;
  private at = -1;

  constructor(private app: App) { this.path = new PathPanel(app, (p) => this.color(p)); }

  /** Of a segment of the shown path: its colour, and its name in the lane. */
  pathColor(index: number): number {
    const p = this.path.shown?.parts[index];
    return p ? this.color(p) : this.app.palette.rule;
  }
  pathName(index: number): string {
    const w = this.path.shown, p = w?.parts[index];
    return w && p ? `${percent(share(w, p))} ${p.who || p.cause}` : "";
  }

  private list(): WakeUp[] { return this.app.late.list.filter((w) => w.late); }

  /** The next or last one from what is shown. */
  step(by: number): void {
    const list = this.list();
    if (list.length === 0) return this.app.say(this.app.live ? "No late wake-up is known: choose a task and a limit in the tab Late wake-ups." : "No late wake-up is in this page.");
    this.show(this.at < 0 ? (by > 0 ? 0 : list.length - 1) : (this.at + by + list.length) % list.length);
  }

  show(n: number): void {
    const w = this.list()[n];
    if (!w) return;
    this.at = n;
    const there = this.app.toSource(w.source);
    const shift = this.app.shift[w.source] ?? 0, long = Math.max(1, w.to - w.from);
    this.app.session.a = w.from + shift;
    this.app.session.b = w.to + shift;
    this.path.show(w);
    this.app.timeline.scroller.scrollTop = 0;
    if (w.pid > 0) this.app.chooseTasks(w.source, tasks(w));
    this.app.show({ from: w.from + shift - long * 0.3, to: w.to + shift + long * 0.3 });
    this.app.marksChanged();
    this.draw();
    this.drawBudget(w, n);
    // The list shows the event at which the task ran at last.
    void there.then(() => this.app.selectAt(w.source, w.to + shift, null));
  }

  private drawBudget(w: WakeUp, n: number): void {
    const on = control(this.app.late, w), scale = Math.max(w.to - w.from, on ? on.to - on.from : 0, 1);
    const shift = this.app.shift[w.source] ?? 0;
    this.budget.hidden = false;
    this.budget.replaceChildren(
      el("div", { class: "budget-head" },
        el("strong", {}, `${w.activation ? "Response time" : "Late by"} ${length(w.to - w.from)}`), el("span", {}, `${w.verdict} \u00b7 ${w.comm}-${w.pid} on CPU ${w.cpu} at ${moment(this.app.base, w.from + shift)} s (${n + 1} of ${this.list().length})`),
        button("\u2039 Previous", "Previous late wake-up (K)", () => this.step(-1)), button("Next late wake-up \u203a", "Next late wake-up (L)", () => this.step(1)),
        button("\u00d7", "Close the latency breakdown", () => { this.budget.hidden = true; this.path.hide(); }, { "aria-label": "Close the latency breakdown" })),
      this.bar("late", w, scale), on ? this.bar("on time", on, scale) : el("p", { class: "dim" }, "No on-time wake-up to compare with."),
      el("div", { class: "budget-tables" }, this.parts(w, on), this.path.box));
    this.app.timeline.redraw();
  }

  private bar(name: string, w: WakeUp, scale: number): HTMLElement {
    const bar = el("div", { class: "bar", role: "img", "aria-label": `${name}: ${w.parts.map((p) => `${words(p)} ${length(p.to - p.from)}`).join(", ")}` });
    for (const p of w.parts) {
      const piece = el("span", { title: `${words(p)}: ${length(p.to - p.from)} (${exact(p.to - p.from)}), stage ${p.stage}` });
      const share = ((p.to - p.from) / scale) * 100;
      piece.style.width = `${share}%`;
      piece.style.background = css(this.color(p));
      piece.style.color = ink(this.color(p));
      if (share > 12) piece.textContent = p.who || p.cause;
      piece.addEventListener("dblclick", () => this.zoom(w, p));
      bar.append(piece);
    }
    return el("div", { class: "bar-row" }, el("span", { class: "bar-name" }, `${name} ${length(w.to - w.from)}`), bar);
  }

  private zoom(w: WakeUp, p: Part): void {
    const shift = this.app.shift[w.source] ?? 0, m = (p.to - p.from) * 0.2 + 50;
    this.app.show({ from: w.from + shift + p.from - m, to: w.from + shift + p.to + m });
  }

  /** A task has its own colour, as in the lanes. */
  private color(p: Part): number {
    const pid = /-(\d+)$/.exec(p.who);
    if (p.actor === "path") return this.app.palette.rule;
    if (p.actor === "task" && pid) return this.app.palette.task(Number(pid[1]));
    return (p.actor === "task" ? this.app.palette.comm(p.who) : undefined) ?? this.app.palette.byHash(hashText(p.cause + p.who));
  }

  /** The same in figures: what each part took, late and on time. */
  private parts(w: WakeUp, on: WakeUp | null): HTMLElement {
    const sum = (of: WakeUp | null) => {
      const all = new Map<string, number>();
      for (const p of of?.parts ?? []) all.set(words(p), (all.get(words(p)) ?? 0) + p.to - p.from);
      return all;
    };
    const [late, calm] = [sum(w), sum(on)];
    const names = [...new Set([...late.keys(), ...calm.keys()])].sort((a, b) => (late.get(b) ?? 0) - (calm.get(b) ?? 0) - (late.get(a) ?? 0) + (calm.get(a) ?? 0));
    const swatch = (name: string) => {
      const p = [...w.parts, ...(on?.parts ?? [])].find((q) => words(q) === name);
      const s = el("span", { class: "swatch" });
      if (p) s.style.background = css(this.color(p));
      return s;
    };
    const zoom = (name: string) => {
      const [longest] = w.parts.filter((p) => words(p) === name).sort((a, b) => b.to - b.from - (a.to - a.from));
      return longest ? button(name, `Zoom to ${name}`, () => this.zoom(w, longest), { class: "link" }) : name;
    };
    const rows = names.map((n) => [el("span", {}, swatch(n), zoom(n)), exact(late.get(n) ?? 0), on ? exact(calm.get(n) ?? 0) : "", on ? exact((late.get(n) ?? 0) - (calm.get(n) ?? 0)) : ""]);
    return el("div", { class: "scroll" }, table(["part", "late", "on time", "more"], rows));
  }

  /** The tab. */
  draw(): void {
    const { app } = this, list = this.list();
    const task = el("select", { id: "late-task", "aria-label": "Task" });
    for (const t of app.info?.sources[app.session.source]?.tasks ?? []) {
      if (t[0] > 0) task.append(el("option", { value: t[0], selected: t[0] === app.lateTask }, `${t[1]}-${t[0]}`));
    }
    const whole = el("select", { id: "late-whole", "aria-label": "What is compared with the limit" }, el("option", { value: "", selected: !app.lateWhole }, "wake-ups to the switch"), el("option", { value: "1", selected: app.lateWhole }, "activations to their end"));
    const limit = el("input", { id: "late-limit", size: 8, value: app.lateLimit, "aria-label": "Limit, as 100us" });
    const rows = list.slice(0, 2000).map((w, n) => {
      const tr = el("tr", { tabindex: 0, class: n === this.at ? "selected" : "" },
        el("td", {}, moment(app.base, w.from + (app.shift[w.source] ?? 0))), el("td", {}, taskName(app.info!, w.source, w.pid)), el("td", {}, String(w.cpu)),
        el("td", { class: "n" }, exact(w.to - w.from)), el("td", {}, w.verdict), app.info!.sources.length > 1 ? el("td", {}, app.info!.sources[w.source]?.name ?? "") : null);
      tr.addEventListener("click", () => this.show(n));
      tr.addEventListener("keydown", (e) => { if (e.key === "Enter") this.show(n); });
      return tr;
    });
    const causes = app.late.causes.length ? el("p", {}, `Causes: ${app.late.causes.join("; ")}.`) : null;
    this.box.replaceChildren(
      el("div", { class: "bar-tools" },
        button("\u2039 Previous", "Previous late wake-up (K)", () => this.step(-1)), button("Next \u203a", "Next late wake-up (L)", () => this.step(1)),
        el("span", { class: "grow" }, `${count(list.length)} late ${list[0]?.activation ? "activation" : "wake-up"}${list.length === 1 ? "" : "s"}${app.late.limit ? `, over ${length(app.late.limit)}` : ""}`),
        app.live ? el("label", {}, "Of task ", task) : null, app.live ? whole : null, app.live ? el("label", {}, " over ", limit) : null,
        app.live ? button("Find", "What of this task takes longer than the limit", () => void this.compute(Number(task.value), limit.value, whole.value === "1")) : null,
        app.live ? button("As explained", "The wake-ups that the trace shows from end to end", () => void app.loadLate()) : null),
      ...(causes ? [causes] : []),
      list.length ? el("div", { class: "scroll" }, table(["intended (s)", "task", "CPU", list[0]?.activation ? "response time" : "late by", "verdict", ...(app.info!.sources.length > 1 ? ["source"] : [])], rows)) : el("p", { class: "dim" }, "No late wake-up is known. Choose a task and a limit; or start latlab view with --limit, or on a run of latlab why."));
  }

  private async compute(pid: number, text: string, whole: boolean): Promise<void> {
    const limit = parse(text);
    if (limit === null || limit <= 0) return this.app.say(`${text} is no time; write 100us or 1.5ms.`);
    this.app.lateLimit = text;
    this.app.lateTask = pid;
    this.app.lateWhole = whole;
    try {
      const source = this.app.session.source;
      this.app.setLate(await this.app.data.lateOf(source, pid, limit, whole));
      this.at = -1;
      this.app.chooseTask(source, pid, true);
      if (this.list().length === 0) this.app.say(`No ${whole ? "activation" : "wake-up"} of ${taskName(this.app.info!, source, pid)} took longer than ${length(limit)}.`);
    } catch (e) {
      this.app.say(e instanceof Error ? e.message : String(e));
    }
  }
}
