/** The page: what is shown, and the parts that show it. */
import { Palette, dark } from "./color";
import { button, el } from "./dom";
import { EventPanel } from "./event";
import { FlamePanel } from "./flame";
import { count, exact, length, moment } from "./format";
import { TABS, help, keys } from "./keys";
import { lanes, taskName, usualTasks, type Lane } from "./lanes";
import { LatePanel } from "./late";
import { FieldPanel } from "./field";
import { LatencyPanel } from "./latency";
import { List } from "./list";
import { copy, download, load } from "./session-file";
import { showPanel, sourcePanel } from "./show";
import { decode, empty, encode, type Session } from "./state";
import { Tiles } from "./tile";
import { Timeline, type Hit } from "./timeline";
import type { Data, Info, Late, Query, Row, Status } from "./types";
import { center, type Span } from "./window";

/** Between two looks at whether files and server are still there, ms. */
const WATCH = 3000;
const reading = (s: Status): string => `Reading the trace\u2026 ${count(s.events)} events`;
const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

export class App {
  info: Info | null = null;
  session: Session = empty();
  span: Span = { from: 0, to: 1 };
  all: Span = { from: 0, to: 1 };
  /** Absolute time of the page's 0, ns; added to a source's times to get the page's. */
  base = 0n;
  shift: number[] = [];
  palette: Palette;
  late: Late = { limit: 0, list: [], causes: [], stacks: [] };
  lateTask = 0;
  lateLimit = "100us";
  lateWhole = false;
  selected: { source: number; row: number; time: number; event: Row } | null = null;
  /** The selected event's place in the list. */
  place: number | null = null;
  readonly live: boolean;
  readonly tiles: Tiles;
  readonly timeline: Timeline;
  readonly list: List;
  readonly latePanel: LatePanel;
  readonly eventPanel: EventPanel;
  private latencyPanel: LatencyPanel;
  private fieldPanel: FieldPanel;
  private flamePanel: FlamePanel;
  /** Selections by source: what the search finds, what the list shows. */
  private found: { set: number; count: number }[] = [];
  tasks: [number, number][] = [];
  private saving = 0;
  box = {
    title: el("h1", {}), notes: el("div", { class: "notes", role: "status", "aria-live": "polite" }), trouble: el("div", { class: "trouble", role: "alert", hidden: true }),
    markers: el("output", { class: "markers", "aria-live": "polite" }), detail: el("div", { class: "detail", "aria-live": "polite" }),
    search: el("input", { type: "search", id: "search", placeholder: "search: sched_switch : next_prio < 100", "aria-label": "Search events", size: 34 }),
    kind: el("select", { id: "search-kind", "aria-label": "What is searched for" }, el("option", { value: "expression" }, "expression"), el("option", { value: "text" }, "text")),
    found: el("output", { class: "found", "aria-live": "polite" }), only: el("input", { type: "checkbox", id: "only" }),
    tabs: el("div", { role: "tablist", class: "tabs" }), panel: el("div", { class: "tabpanel", role: "tabpanel" }), head: el("div", { class: "list-head" }),
    loading: el("p", { class: "loading", role: "status" }, "Reading the trace\u2026"), reading: el("output", { class: "reading" }), source: el("select", { id: "source", "aria-label": "Source" }),
    printed: el("div", { class: "printed" }),
  };

  constructor(readonly data: Data, root: HTMLElement) {
    this.live = data.live;
    this.session = decode(location.hash);
    if (this.session.theme) document.documentElement.dataset.theme = this.session.theme;
    this.palette = new Palette(dark());
    this.tiles = new Tiles(data, () => this.timeline.redraw());
    this.timeline = new Timeline(this);
    this.list = new List(this);
    this.latePanel = new LatePanel(this);
    this.latencyPanel = new LatencyPanel(this);
    this.fieldPanel = new FieldPanel(this);
    this.flamePanel = new FlamePanel(this);
    this.eventPanel = new EventPanel(this);
    this.build(root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolor());
    addEventListener("keydown", (e) => keys(this, e));
    addEventListener("hashchange", () => { if (location.hash.slice(1) !== encode(this.session)) void this.restore(decode(location.hash)); });
    addEventListener("beforeprint", () => this.print());
  }

  private build(root: HTMLElement): void {
    const b = this.box;
    const dialog = help();
    b.search.addEventListener("keydown", (e) => { if ((e as KeyboardEvent).key === "Enter") void this.search().then((found) => (found ? this.find((e as KeyboardEvent).shiftKey) : undefined)); });
    b.kind.addEventListener("change", () => { this.session.searchKind = b.kind.value === "text" ? "text" : "expression"; });
    b.only.addEventListener("change", () => { this.session.only = b.only.checked; void this.refilter(); });
    b.source.addEventListener("change", () => this.toSource(Number(b.source.value)));
    const theme = button("Light or dark", "Light or dark", () => {
      document.documentElement.dataset.theme = dark() ? "light" : "dark";
      this.session.theme = document.documentElement.dataset.theme;
      this.recolor();
      this.save();
    });
    const files = el("input", { type: "file", accept: "application/json", hidden: true, "aria-label": "Session file", onchange: () => { const f = files.files?.[0]; if (f) void f.text().then((t) => load(this, t)); } });
    for (const [id, name] of TABS) {
      b.tabs.append(button(name, name, () => this.tab(id), { role: "tab", "data-tab": id, "aria-selected": "false" }));
    }
    b.tabs.setAttribute("aria-label", "Below the timeline");
    b.tabs.addEventListener("keydown", (e) => {
      const by = (e as KeyboardEvent).key === "ArrowRight" ? 1 : (e as KeyboardEvent).key === "ArrowLeft" ? -1 : 0;
      if (!by) return;
      e.preventDefault();
      e.stopPropagation();
      const at = (TABS.findIndex(([id]) => id === this.session.tab) + by + TABS.length) % TABS.length;
      this.tab(TABS[at]![0]);
      (b.tabs.children[at] as HTMLElement).focus();
    });
    b.panel.setAttribute("aria-label", "Content of the chosen tab");
    root.replaceChildren(
      el("header", {}, el("p", { class: "brand" }, "latlab view"), b.title,
        el("div", { class: "tools" }, b.source, b.kind, b.search, button("\u2039", "Previous match (P)", () => void this.find(true), { "aria-label": "Previous match" }), button("\u203a", "Next match (N)", () => void this.find(false), { "aria-label": "Next match" }), b.found,
          el("label", {}, b.only, " only matches"), b.markers, b.reading,
          el("span", { class: "grow" }), button("All", "Show everything (0)", () => this.show({ ...this.all })), button("Copy", "Copy what is selected (C)", () => void this.copy()),
          button("Save session", "Save the current view as a file", () => download(this)), button("Load", "Open a saved session", () => files.click()), files, theme, button("Help", "Keyboard and mouse (?)", () => dialog.showModal()), this.reportLink)),
      b.trouble, b.notes, b.loading,
      el("main", {}, this.timeline.scroller, this.latePanel.budget, b.detail, el("div", { class: "lower" }, el("div", { class: "lower-main" }, b.tabs, b.panel), this.eventPanel.box)), this.timeline.tip, dialog, b.printed);
    b.head.append(...["event", "time (s)", "CPU", "task", "kind", "text"].map((t, i) => el("span", { class: ["n", "time", "cpu", "task", "event", "text"][i]! }, t)));
  }
  private reportLink = el("a", { href: "report", hidden: true }, "Report");

  /** Begins: waits for the index, then shows. */
  async start(): Promise<void> {
    let info = await this.data.info();
    document.title = `${info.title} \u2013 latlab view`;
    this.box.title.textContent = info.title;
    // As soon as the beginning of each source is read, it is shown.
    while (!info.sources.every((s) => s.read)) {
      const s = await this.data.status();
      this.box.loading.textContent = reading(s);
      if (s.ready || s.handed > info.handed) info = await this.data.info();
      else await pause(40);
    }
    this.box.loading.remove();
    this.info = info;
    this.palette.assign(info);
    this.reportLink.hidden = !info.report;
    if (info.sources.length > 1) this.box.source.append(...info.sources.map((s, i) => el("option", { value: i }, s.name)));
    else this.box.source.hidden = true;
    const offsets = this.session.offsets;
    info.sources.forEach((s, i) => { if (offsets[i] !== undefined) s.offset = offsets[i]!; });
    this.times();
    this.notes();
    this.found = info.sources.map(() => ({ set: 0, count: 0 }));
    const { from, to } = this.session;
    this.span = from !== null && to !== null ? { from, to } : { ...this.all };
    this.session.source = Math.min(this.session.source, info.sources.length - 1);
    await this.restored();
    await this.grow();
    void this.loadLate();
    this.watch();
  }

  /** Takes in what is read while the page is looked at, until all is. */
  private async grow(): Promise<void> {
    while (!this.info!.ready) {
      const s = await this.data.status();
      this.box.reading.textContent = reading(s);
      if (s.ready || s.handed > this.info!.handed) await this.more(await this.data.info());
      else await pause(100);
    }
    this.box.reading.textContent = "";
  }

  /** There is more of the trace than before. Where the user looks stays as it is. */
  private async more(info: Info): Promise<void> {
    const { span, all, session } = this, whole = span.from === all.from && span.to === all.to;
    info.sources.forEach((s, i) => { s.offset = this.info!.sources[i]!.offset; });
    this.info = info;
    this.palette.assign(info);
    this.times();
    this.notes();
    if (whole) this.span = { ...this.all };
    if (!session.tasks.length) this.tasks = usualTasks(info, session);
    this.tiles.refresh();
    this.relane();
    if (session.search) await this.search();
    if (!(session.search && session.only)) await this.refilter();
    if (["show", "sources"].includes(session.tab) && !this.box.panel.contains(document.activeElement)) this.tab(session.tab);
  }

  /** Where each source lies in time. */
  times(): void {
    const info = this.info!;
    const starts = info.sources.map((s) => BigInt(s.origin || "0") + BigInt(Math.round(s.offset || 0)));
    const some = starts.filter((_, i) => (info.sources[i]?.events ?? 0) > 0);
    this.base = (some.length ? some : starts).reduce((a, b) => (b < a ? b : a), (some[0] ?? starts[0]) ?? 0n);
    this.shift = starts.map((s) => Number(s - this.base));
    this.setAll();
  }

  private setAll(): void {
    const info = this.info!, one = info.oneByOne ? this.session.source : null;
    let from = Infinity, to = -Infinity;
    info.sources.forEach((s, i) => {
      if ((one !== null && one !== i) || s.events === 0) return;
      from = Math.min(from, this.shift[i]!);
      to = Math.max(to, this.shift[i]! + s.whole);
    });
    if (info.window) { from = this.shift[0]! + info.window[0]; to = this.shift[0]! + info.window[1]; }
    if (!(to > from)) { from = Number.isFinite(from) ? from - 500 : 0; to = from + 1000; }
    const margin = (to - from) * 0.005;
    this.all = { from: from - margin, to: to + margin };
  }

  private notes(): void {
    const info = this.info!;
    const lines = info.sources.flatMap((s) => s.notes.map((n) => (info.sources.length > 1 ? `${s.name}: ${n}` : n)));
    if (info.sources.length === 0) lines.push("There is no ring buffer in this file.");
    const few = lines.slice(0, 3).map((n) => el("p", {}, n));
    const more = lines.slice(3).map((n) => el("p", {}, n));
    this.box.notes.replaceChildren(...few, ...(more.length ? [el("details", {}, el("summary", {}, `${more.length} more`), ...more)] : []));
  }

  /** Brings everything to what the session says. */
  private async restored(): Promise<void> {
    const s = this.session, b = this.box;
    b.search.value = s.search;
    b.kind.value = s.searchKind;
    b.only.checked = s.only;
    b.source.value = String(s.source);
    this.setAll();
    this.tasks = s.tasks.length ? s.tasks : usualTasks(this.info!, s);
    if (!this.lateTask) this.lateTask = this.tasks[0]?.[1] ?? 0;
    this.relane();
    this.marksChanged();
    this.tab(s.tab);
    if (s.search) await this.search();
    await this.refilter();
    if (s.event) {
      const [row] = await this.data.rows(s.event[0], 0, s.event[1], 1);
      if (row) this.select(s.event[0], row, "keep");
    }
  }

  async restore(s: Session): Promise<void> {
    this.session = s;
    if (s.from !== null && s.to !== null) this.span = { from: s.from, to: s.to };
    if (this.info) await this.restored();
    this.follow();
  }

  relane(): void {
    if (!this.info) return;
    const late = (s: number) => this.late.list.filter((w) => w.late && w.source === s).length;
    this.timeline.setLanes(lanes(this.info, this.session, this.tasks, late, (s) => this.found[s]?.set ?? 0, this.latePanel.path.lanes()));
  }

  recolor(): void {
    this.palette = new Palette(dark());
    if (this.info) this.palette.assign(this.info);
    this.timeline.redraw();
    this.tab(this.session.tab);
  }

  /** Shows a stretch of time. */
  show(span: Span): void {
    if (!(span.to > span.from)) return;
    this.span = span;
    this.session.from = span.from;
    this.session.to = span.to;
    this.timeline.redraw();
    this.flamePanel.changed();
    this.save();
  }

  painted(): void { /* For measuring: see Timeline.took. */ }

  save(): void {
    clearTimeout(this.saving);
    this.saving = window.setTimeout(() => history.replaceState(null, "", `#${encode(this.session)}`), 150);
  }

  /** Says something, until there is something else to say. */
  say(sentence: string): void {
    this.said = sentence;
    this.speak();
  }
  /** Says what is wrong with the files or the server for as long as it is: what is said meanwhile does not hide it. */
  warn(sentence: string): void {
    if (sentence === this.warning) return;
    this.warning = sentence;
    this.speak();
  }
  private said = "";
  private warning = "";
  private speak(): void {
    const both = [this.warning, this.said].filter((s, i, all) => s && all.indexOf(s) === i);
    this.box.trouble.replaceChildren(...both.map((s) => el("p", {}, s)));
    this.box.trouble.hidden = both.length === 0;
  }

  /** Asks from time to time whether all is well: a file can go, and the server end, while nobody does anything. */
  private watch(): void {
    if (!this.live) return;
    setTimeout(() => {
      const again = () => this.watch();
      if (document.hidden) again();
      else this.data.status().then(again, again);
    }, WATCH);
  }

  isDimmed(pid: number): boolean { return this.session.hideTasks.includes(pid); }

  hideLane(lane: Lane): void {
    if (lane.kind === "task") {
      this.tasks = this.tasks.filter((t) => !(t[0] === lane.source && t[1] === lane.pid));
      this.session.tasks = this.tasks.length ? this.tasks : [[-1, -1]];
    } else {
      // A group of rows goes as one.
      const stem = lane.key.replace(/\d+$/, "");
      const all = ["irq", "soft", "fn"].includes(lane.kind) ? this.timeline.lanes.filter((l) => l.kind === lane.kind && l.key.startsWith(stem)).map((l) => l.key) : [lane.key];
      this.session.hidden.push(...all);
    }
    this.relane();
    if (this.session.tab === "show") this.tab("show");
    this.save();
  }

  /** Lanes of several tasks of a source, the first one on top. */
  chooseTasks(source: number, pids: number[]): void {
    this.tasks = pids.map((pid): [number, number] => [source, pid]).concat(this.tasks.filter((t) => t[0] !== source || !pids.includes(t[1])));
    this.session.tasks = this.tasks;
    this.relane();
    this.save();
  }

  chooseTask(source: number, pid: number, on: boolean): void {
    this.tasks = this.tasks.filter((t) => !(t[0] === source && t[1] === pid));
    if (on) this.tasks.unshift([source, pid]);
    this.session.tasks = this.tasks.length ? this.tasks : [[-1, -1]];
    this.relane();
    this.save();
  }

  /** A marker: where it is clicked, at the selected event, or nowhere. */
  mark(which: "a" | "b", t: number | null): void {
    this.session[which] = t;
    this.marksChanged();
  }

  marksChanged(): void {
    const { a, b } = this.session;
    const at = (name: string, t: number | null) => (t === null ? "" : `${name} ${moment(this.base, t)}`);
    const parts = [at("A", a), at("B", b)];
    if (a !== null && b !== null) parts.push(`B\u2212A ${length(b - a)} (${exact(b - a)})`);
    this.box.markers.textContent = parts.filter(Boolean).join("   ");
    this.timeline.redraw();
    this.flamePanel.changed();
    this.save();
  }

  /** Something on the timeline was clicked. */
  pick(hit: Hit | null, t: number): void {
    const source = hit?.lane.source ?? this.session.source;
    if (hit) {
      const rows = this.timeline.words(hit).map((w) => el("span", {}, w));
      const buttons: HTMLElement[] = [];
      if (hit.lane.kind === "run" && hit.exact && (hit.id | 0) > 0) {
        buttons.push(button("Show this task", "A lane for this task", () => this.chooseTask(source, hit.id | 0, true)));
      }
      if (hit.exact && hit.to > hit.from) buttons.push(button("A and B", "Markers at its ends", () => { this.session.a = hit.from; this.session.b = hit.to; this.marksChanged(); }));
      this.box.detail.replaceChildren(...rows, ...buttons);
      if (hit.lane.kind === "late") {
        const late = this.late.list.filter((w) => w.late), w = this.late.list[hit.id];
        if (w) return this.latePanel.show(late.indexOf(w));
      }
      if (hit.lane.kind === "path") return this.latePanel.path.go(hit.id);
    }
    void this.selectAt(source, hit?.exact ? hit.from : t, hit);
  }

  /** Selects the event at a time. */
  async selectAt(source: number, t: number, hit: Hit | null): Promise<void> {
    if (source !== this.list.source) await this.toSource(source);
    try {
      const { place } = await this.data.place(source, this.list.set, { t: t - (this.shift[source] ?? 0) });
      let at = Math.min(place, this.list.total - 1), row = await this.list.fetch(at);
      // Of events at one time the one on the lane's CPU.
      for (let i = 0; i < 6 && row && hit && hit.lane.cpu >= 0 && row.cpu !== hit.lane.cpu; i++) {
        const next = await this.list.fetch(at + 1);
        if (!next || next.t !== row.t) break;
        row = next;
        at++;
      }
      if (row) this.select(source, row, "keep", at);
    } catch (e) {
      this.say(e instanceof Error ? e.message : String(e));
    }
  }

  /** Selects an event: in the list, and on the timeline. */
  select(source: number, event: Row, how: "show" | "center" | "keep", place: number | null = null): void {
    const time = event.t + (this.shift[source] ?? 0);
    this.selected = { source, row: event.row, time, event };
    this.session.event = [source, event.row];
    void this.eventPanel.show(source, event);
    if (how === "center" || (how === "show" && (time < this.span.from || time > this.span.to))) this.show(center(this.span, time, this.all));
    this.timeline.redraw();
    const kind = this.info!.sources[source]?.kinds.find((k) => k[0] === event.kind)?.[1] ?? "";
    if (how !== "keep") this.box.detail.replaceChildren(el("span", {}, `${moment(this.base, time)} s`), el("span", {}, `CPU ${event.cpu}`), el("span", {}, taskName(this.info!, source, event.pid)), el("span", {}, `${kind}: ${event.text}`), ...(event.pid > 0 ? [button("Show this task", "A lane for this task", () => this.chooseTask(source, event.pid, true))] : []));
    if (place !== null) { this.place = place; this.list.reveal(place); }
    else void this.data.place(source, this.list.set, { row: event.row }).then((p) => { this.place = p.place; this.list.reveal(p.place); }, () => undefined);
    this.save();
  }

  /** Shows an interval with markers at its ends. */
  showInterval(source: number, from: number, to: number): void {
    const shift = this.shift[source] ?? 0, long = Math.max(to - from, 100);
    this.session.a = from + shift;
    this.session.b = to + shift;
    this.show({ from: from + shift - long * 0.5, to: to + shift + long * 0.5 });
    this.marksChanged();
    void this.selectAt(source, to + shift, null);
  }

  async toSource(source: number): Promise<void> {
    if (source === this.session.source && source === this.list.source) return;
    this.session.source = source;
    this.box.source.value = String(source);
    if (this.info?.oneByOne) {
      this.setAll();
      this.span = { ...this.all };
      this.tasks = usualTasks(this.info, this.session).concat(this.session.tasks);
      this.relane();
      this.timeline.redraw();
    }
    await this.refilter();
    if (["latency", "field", "flame", "show", "late"].includes(this.session.tab)) this.tab(this.session.tab);
    this.save();
  }

  private query(searched: boolean): Query {
    const s = this.session;
    return {
      expressions: searched && s.search && s.searchKind === "expression" ? [s.search] : [],
      text: searched && s.search && s.searchKind === "text" ? s.search : "",
      hide_kinds: s.kinds, hide_tasks: s.hideTasks, hide_cpus: s.cpus,
    };
  }

  /** Finds what the search asks for; its lane and the arrows go by it. Whether that made sense. */
  async search(): Promise<boolean> {
    const s = this.session;
    s.search = this.box.search.value.trim();
    if (!s.search) {
      this.say("");
      this.found = this.info!.sources.map(() => ({ set: 0, count: 0 }));
      this.box.found.textContent = "";
    } else {
      this.box.found.textContent = "\u2026";
      try {
        this.found[s.source] = await this.data.select(s.source, this.query(true));
        this.box.found.textContent = `${count(this.found[s.source]!.count)} found`;
        this.say("");
      } catch (e) {
        this.found[s.source] = { set: 0, count: 0 };
        this.box.found.textContent = "";
        this.say(e instanceof Error ? e.message : String(e));
      }
    }
    this.relane();
    if (s.only) await this.refilter();
    this.save();
    return (this.found[s.source]?.set ?? 0) > 0;
  }

  /** The next or previous event that the search finds. */
  async find(back: boolean): Promise<void> {
    const s = this.session.source;
    if (this.box.search.value.trim() !== this.session.search || !this.found[s]?.set) await this.search();
    const set = this.found[s]?.set ?? 0;
    if (!set) return;
    const shift = this.shift[s] ?? 0;
    let row = this.selected?.source === s ? this.selected.row : -1;
    if (row < 0) row = (await this.data.place(s, 0, { t: this.span.from - shift })).event - 1;
    const found = await this.data.find(s, set, row, back);
    if (found) this.select(s, found, "show");
    else this.say(back ? "No match before the selected event." : "No match after the selected event.");
  }

  /** The list, by what is hidden and by the search where only matches are shown. */
  async refilter(): Promise<void> {
    const s = this.session, source = this.info?.sources[s.source];
    if (!source) return;
    const all = !s.kinds.length && !s.hideTasks.length && !s.cpus.length && !(s.only && s.search);
    try {
      const sel = all ? { set: 0, count: source.events } : await this.data.select(s.source, this.query(s.only));
      this.list.show(s.source, sel.set, sel.count);
      if (this.selected?.source === s.source) {
        const p = await this.data.place(s.source, sel.set, { row: this.selected.row });
        this.place = p.place;
        this.list.reveal(p.place);
      }
    } catch (e) {
      this.say(e instanceof Error ? e.message : String(e));
    }
    this.relane();
    this.save();
  }

  async loadLate(): Promise<void> {
    try { this.setLate(await this.data.late()); } catch { return; /* There is none. */ }
    this.follow();
  }

  /** Shows the late wake-up that the address leads to. */
  private follow(): void {
    const { late } = this.session;
    if (late === null || this.late.list.length === 0) return;
    this.session.late = null;
    this.latePanel.show(late);
  }

  setLate(late: Late): void {
    this.late = late;
    this.relane();
    if (this.session.tab === "late") this.latePanel.draw();
    this.timeline.redraw();
  }

  copy(): Promise<void> { return copy(this); }

  tab(id: string): void {
    this.session.tab = id;
    for (const b of this.box.tabs.querySelectorAll<HTMLElement>("button")) b.setAttribute("aria-selected", String(b.dataset.tab === id));
    const p = this.box.panel;
    if (!this.info) return;
    if (id === "events") { p.replaceChildren(this.box.head, this.list.box); this.list.draw(); }
    if (id === "late") { this.latePanel.draw(); p.replaceChildren(this.latePanel.box); }
    if (id === "latency") { p.replaceChildren(this.latencyPanel.box); this.latencyPanel.draw(); }
    if (id === "field") { p.replaceChildren(this.fieldPanel.box); this.fieldPanel.draw(); }
    if (id === "flame") { p.replaceChildren(this.flamePanel.box); void this.flamePanel.draw(); }
    if (id === "show") p.replaceChildren(showPanel(this));
    if (id === "sources") p.replaceChildren(sourcePanel(this));
    this.save();
  }

  /** On paper: the timeline as a picture, what is selected, and the events in sight. */
  private print(): void {
    const image = el("img", { src: this.timeline.canvas.toDataURL("image/png"), alt: "Timeline" });
    const names = el("p", {}, `Lanes: ${this.timeline.lanes.map((l) => l.label).filter(Boolean).join(", ")}`);
    this.box.printed.replaceChildren(image, names, el("p", {}, `From ${moment(this.base, this.span.from)} s to ${moment(this.base, this.span.to)} s (${length(this.span.to - this.span.from)})`));
  }

  /** What is read so far is shown, and nothing is under way: for tests and measuring. */
  get drawn(): boolean { return this.info !== null && this.tiles.quiet && this.data.pending() === 0; }
  /** The same, of all that there is. */
  get quiet(): boolean { return this.drawn && this.info!.ready; }
}
