/** Two tabs: what is shown and hidden, and the sources with their offsets. */
import type { App } from "./app";
import { button, el, table } from "./dom";
import { count, length, moment, parse } from "./format";
import { taskName } from "./lanes";

/** What the list and the lanes show: kinds of events, tasks, CPUs. */
export function showPanel(app: App): HTMLElement {
  const s = app.session, info = app.info!, source = info.sources[s.source]!;
  const toggle = (list: number[], n: number, on: boolean) => { const at = list.indexOf(n); if (on && at >= 0) list.splice(at, 1); if (!on && at < 0) list.push(n); };
  const check = (on: boolean, name: string, change: (on: boolean) => void) => {
    const c = el("input", { type: "checkbox", checked: on, "aria-label": name });
    c.addEventListener("change", () => change(c.checked));
    return c;
  };
  const filter = el("input", { type: "search", placeholder: "name", "aria-label": "Only names that contain" });
  const kinds = [...source.kinds].sort((a, b) => b[3] - a[3]).map((k) => el("tr", { "data-name": `${k[2]}:${k[1]}` }, el("td", {}, check(!s.kinds.includes(k[0]), `Show ${k[1]}`, (on) => { toggle(s.kinds, k[0], on); void app.refilter(); })), el("td", {}, `${k[2]}:${k[1]}`), el("td", { class: "n" }, count(k[3]))));
  const tasks = [...source.tasks].sort((a, b) => b[2] - a[2]).slice(0, 2000).map((t) => {
    const name = taskName(info, s.source, t[0]);
    return el("tr", { "data-name": name }, el("td", {}, check(!s.hideTasks.includes(t[0]), `Show events of ${name}`, (on) => { toggle(s.hideTasks, t[0], on); void app.refilter(); })),
      el("td", {}, t[0] > 0 ? check(app.tasks.some((c) => c[0] === s.source && c[1] === t[0]), `Lane of ${name}`, (on) => app.chooseTask(s.source, t[0], on)) : ""),
      el("td", {}, name), el("td", { class: "n" }, length(t[2])), el("td", { class: "n" }, count(t[3])));
  });
  const cpus = source.cpus.map((c) => [check(!s.cpus.includes(c.cpu), `Show CPU ${c.cpu}`, (on) => { toggle(s.cpus, c.cpu, on); void app.refilter(); }), `CPU ${c.cpu}`, count(c.events)]);
  filter.addEventListener("input", () => { for (const tr of [...kinds, ...tasks]) tr.hidden = !tr.dataset.name!.toLowerCase().includes(filter.value.toLowerCase()); });
  const lanesBack = s.hidden.length ? button(`Show ${s.hidden.length} hidden lanes`, "All lanes again", () => { s.hidden = []; app.relane(); app.tab("show"); }) : null;
  const everything = button("Show everything", "Nothing is hidden", () => { s.hidden = []; s.kinds = []; s.hideTasks = []; s.cpus = []; void app.refilter().then(() => app.tab("show")); });
  return el("div", { class: "panel show-panel" }, el("div", { class: "bar-tools" }, filter, lanesBack, everything),
    el("div", { class: "columns" }, el("div", { class: "scroll" }, table(["shown", "kind of event", "events"], kinds)), el("div", { class: "scroll" }, table(["events", "lane", "task", "on CPU", "times"], tasks)), el("div", { class: "scroll" }, table(["shown", "CPU", "events"], cpus))));
}

/** The ring buffers, and how much their times are moved. */
export function sourcePanel(app: App): HTMLElement {
  const info = app.info!;
  const rows = info.sources.map((s, i) => {
    const field = el("input", { size: 12, value: `${s.offset / 1e6}ms`, "aria-label": `Offset of ${s.name}` });
    const set = () => {
      const ns = parse(field.value);
      if (ns === null) return app.say(`${field.value} is no time; write -1.5ms or 20us.`);
      offset(app, i, ns);
    };
    field.addEventListener("change", set);
    const first = info.sources[0]!;
    return [s.name, s.clock, count(s.events), length(s.length), `${moment(BigInt(s.origin || "0"), 0)} s`, app.live ? field : `${s.offset} ns`,
      i > 0 && app.live ? button("Begin with the first", "Offset so that both begin at the same time", () => offset(app, i, Number(BigInt(first.origin) - BigInt(s.origin)) + first.offset)) : ""];
  });
  return el("div", { class: "panel scroll" }, table(["source", "clock", "events", "length", "begins", "time offset", "align"], rows), el("p", { class: "dim" }, `latlab ${info.version}`));
}

function offset(app: App, source: number, ns: number): void {
  const info = app.info!;
  info.sources[source]!.offset = Math.round(ns);
  app.session.offsets = info.sources.map((s) => s.offset);
  app.times();
  app.relane();
  app.show({ ...app.all });
  app.tab("sources");
}
