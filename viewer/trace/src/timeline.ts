/** The timeline: drawing, and everything that hands do to it. */
import type { App } from "./app";
import { css, hashText, ink } from "./color";
import { count, exact, length, moment, step } from "./format";
import { taskName, type Lane } from "./lanes";
import { Columns } from "./raster";
import { extent, itemsTile, levelOf } from "./tile";
import type { Late, Tile, Wake } from "./types";
import { center, move, zoom, type Span } from "./window";

export const STATES = ["running", "waiting for a CPU", "sleeping", "blocked", "ended", "not known"];
const KINDS = ["interrupt", "interrupt", "softirq", "timer function", "timer function", "work", "function"];
const RULER = 24;
const GAP = 2;

/** What lies under the pointer. */
export interface Hit { lane: Lane; from: number; to: number; id: number; aux: number; exact: boolean; count: number; fill: number }

export class Timeline {
  readonly canvas = document.createElement("canvas");
  readonly scroller = document.createElement("div");
  private labels = document.createElement("div");
  private spacer = document.createElement("div");
  readonly tip = document.createElement("div");
  private ctx: CanvasRenderingContext2D;
  private image: ImageData | null = null;
  private pixels = new Uint32Array(0);
  private columns = new Columns(1);
  private width = 0;
  private height = 0;
  private ratio = 1;
  lanes: Lane[] = [];
  private tops: number[] = [];
  private frame = 0;
  /** How long drawings took, ms: for measuring. */
  readonly took: number[] = [];
  private wakes: { source: number; from: number; to: number; list: Wake[] } | null = null;
  private wakesAsked = "";
  /** Where the pointer is, ns. */
  pointer: number | null = null;

  constructor(private app: App) {
    const ctx = this.canvas.getContext("2d", { alpha: false });
    if (!ctx) throw new Error("This browser cannot draw: it has no canvas.");
    this.ctx = ctx;
    this.scroller.className = "timeline";
    this.scroller.tabIndex = 0;
    this.scroller.setAttribute("role", "application");
    this.scroller.setAttribute("aria-label", "Timeline. W and S zoom, A and D or the arrows move, F centres the selected event, left and right bracket set markers A and B, L goes to the next late wake-up. The event list below says the same as text.");
    this.labels.className = "labels";
    this.spacer.className = "spacer";
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.scroller.append(this.spacer, this.labels, this.canvas);
    new ResizeObserver(() => this.redraw()).observe(this.scroller);
    this.scroller.addEventListener("scroll", () => this.redraw());
    this.hands();
  }

  redraw(): void {
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.paint(); });
  }

  /** New lanes. */
  setLanes(lanes: Lane[]): void {
    this.lanes = lanes;
    this.tops = [];
    let y = RULER;
    const bits: HTMLElement[] = [];
    for (const lane of lanes) {
      // A CPU's rows are one block.
      if (lane.kind === "head" || lane.kind === "task" || lane.kind === "timers" || ((lane.kind === "irq" || lane.kind === "run" || lane.kind === "soft") && lane.label && !bits.some((b) => b.dataset.block === `${lane.source}.${lane.cpu}`))) y += 4;
      this.tops.push(y);
      if (lane.label) bits.push(this.label(lane, y));
      y += lane.height + GAP;
    }
    this.spacer.style.height = `${y + 8}px`;
    this.labels.style.height = `${y + 8}px`;
    this.labels.replaceChildren(...bits);
    this.redraw();
  }

  private label(lane: Lane, y: number): HTMLElement {
    const box = document.createElement("div");
    box.className = `label ${lane.kind}`;
    box.dataset.block = `${lane.source}.${lane.cpu}`;
    box.style.top = `${y}px`;
    box.style.height = `${Math.max(lane.height, 10)}px`;
    box.title = lane.title;
    const text = document.createElement("span");
    text.textContent = lane.label;
    box.append(text);
    if (lane.kind !== "head") {
      const hide = document.createElement("button");
      hide.type = "button";
      hide.textContent = "\u00d7";
      hide.title = `Hide ${lane.label}`;
      hide.setAttribute("aria-label", hide.title);
      hide.addEventListener("click", () => this.app.hideLane(lane));
      box.append(hide);
    }
    return box;
  }

  get plotWidth(): number { return Math.max(1, this.width); }
  get nsPerPixel(): number { const { from, to } = this.app.span; return (to - from) / this.plotWidth; }
  x(t: number): number { return (t - this.app.span.from) / this.nsPerPixel; }
  time(x: number): number { return this.app.span.from + x * this.nsPerPixel; }

  private measure(): void {
    const box = this.scroller.getBoundingClientRect();
    const left = this.labels.offsetWidth;
    const width = Math.max(50, Math.floor(this.scroller.clientWidth - left)), height = Math.max(50, Math.floor(this.scroller.clientHeight));
    const ratio = Math.min(2, devicePixelRatio || 1);
    if (width === this.width && height === this.height && ratio === this.ratio && box.width > 0) return;
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.image = null;
    this.columns = new Columns(this.canvas.width);
  }

  private paint(): void {
    if (!this.app.info || this.app.span.to <= this.app.span.from) return;
    const begin = performance.now();
    this.measure();
    const w = this.canvas.width, h = this.canvas.height;
    if (!this.image) {
      this.image = this.ctx.createImageData(w, h);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    const { palette } = this.app;
    this.pixels.fill(palette.ground);
    const scroll = this.scroller.scrollTop;
    const visible = this.visible(scroll);
    for (const [lane, y] of visible) this.paintLane(lane, Math.round(y * this.ratio), w, h);
    this.ctx.setTransform(1, 0, 0, 1, 0, 0);
    this.ctx.putImageData(this.image, 0, 0);
    this.ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    for (const [lane, y] of visible) this.texts(lane, y);
    this.arrows(visible);
    this.ruler();
    this.marks();
    this.took.push(performance.now() - begin);
    if (this.took.length > 5000) this.took.splice(0, 1000);
    this.app.painted();
  }

  private visible(scroll: number): [Lane, number][] {
    const out: [Lane, number][] = [];
    this.lanes.forEach((lane, i) => {
      const y = this.tops[i]! - scroll;
      if (y + lane.height > RULER - 12 && y < this.height) out.push([lane, y]);
    });
    return out;
  }

  private taken(lane: Lane): (id: number) => boolean {
    if (lane.kind === "run") return (id) => id !== 0 && id !== 0xffffffff;
    if (lane.kind === "task") return (id) => id === 0 || id === 1 || id === 3;
    return () => true;
  }

  /** Calls `each` with every tile that is here for a window, coarser ones where the right one is not. */
  private tiles(lane: Lane, span: Span, nsPerPixel: number, each: (tile: Tile, start: number, bin: number, from: number, to: number) => void): void {
    if (lane.kind === "late") return each(this.lateTile(lane.source), 0, 1, span.from, span.to);
    const shift = this.app.shift[lane.source] ?? 0, all = this.app.info!.sources[lane.source]!.length;
    const level = levelOf(nsPerPixel), long = extent(level);
    const first = Math.max(0, Math.floor((span.from - shift) / long)), last = Math.min(Math.floor((span.to - shift) / long), Math.floor(all / long));
    for (let n = first; n <= last; n++) {
      const tile = this.app.tiles.get(lane.tile, level, n);
      const start = n * long, from = start + shift, to = from + long;
      if (tile) { each(tile, start + shift, 4 ** level, from, to); continue; }
      for (let up = 1; up <= 12 && level + up <= 28; up++) {
        const wide = extent(level + up), k = Math.floor(start / wide);
        const coarse = this.app.tiles.peek(lane.tile, level + up, k);
        if (coarse) { each(coarse, k * wide + shift, 4 ** (level + up), from, to); break; }
      }
    }
  }

  private lateTiles: { of: Late; bySource: Map<number, Tile> } | null = null;
  /** Late wake-ups as a tile: they are all here. */
  private lateTile(source: number): Tile {
    const late = this.app.late;
    if (this.lateTiles?.of !== late) this.lateTiles = { of: late, bySource: new Map() };
    let tile = this.lateTiles.bySource.get(source);
    if (!tile) {
      const list = late.list.map((w, i) => ({ w, i })).filter(({ w }) => w.late && w.source === source);
      tile = itemsTile(Float64Array.from(list.map((l) => l.w.from)), Float64Array.from(list.map((l) => l.w.to)), Uint32Array.from(list.map((l) => l.i)), new Uint32Array(list.length));
      this.lateTiles.bySource.set(source, tile);
    }
    return tile;
  }

  private fillColumns(lane: Lane, width: number): Columns {
    const c = this.columns, { span } = this.app, npp = (span.to - span.from) / width, taken = this.taken(lane), shift = this.app.shift[lane.source] ?? 0;
    c.clear();
    this.tiles(lane, span, npp, (tile, start, bin, from, to) => {
      // Pixels at a border between tiles belong to both.
      const x0 = Math.floor((from - span.from) / npp), x1 = Math.ceil((to - span.from) / npp);
      // Items are in their source's own time.
      c.draw(tile, start - shift, bin, span.from - shift, npp, x0, x1, taken);
    });
    return c;
  }

  private paintLane(lane: Lane, y: number, w: number, h: number): void {
    const tall = Math.round(lane.height * this.ratio), { palette } = this.app;
    if (lane.kind === "head" || lane.tile === "") return this.simple(lane, y, w, h, tall);
    const c = this.fillColumns(lane, w), px = this.pixels;
    const most = lane.kind === "freq" ? this.topFrequency(lane) : 1;
    const { kind } = lane, { count, fill, id: ids } = c, top0 = c.top, colors = c.color;
    let known = -1, color = 0;
    for (let x = 0; x < w; x++) {
      top0[x] = tall;
      if (count[x] === 0) continue;
      const id = ids[x];
      // Neighbours are often the same.
      if (id !== known) {
        known = id;
        color = this.colorOf(lane, id);
      }
      let part = Math.max(0.25, Math.min(1, fill[x]));
      if (kind === "task") part *= id === 0 ? 1 : 0.6;
      else if (kind === "freq") part = id / most;
      else if (kind === "ev") part = Math.min(1, 0.35 + Math.log2(1 + count[x]) / 14);
      else if (kind === "late" || kind === "set") part = 1;
      colors[x] = color;
      top0[x] = tall - Math.max(Math.min(2, tall), Math.round(tall * part));
    }
    // Row by row: memory is written in order.
    for (let r = Math.max(0, -y), end = Math.min(tall, h - y); r < end; r++) {
      const row = (y + r) * w;
      for (let x = 0; x < w; x++) if (r >= top0[x]) px[row + x] = colors[x];
    }
    if (lane.kind === "run" || lane.kind === "task") {
      // The base line says that the lane goes on while nothing runs.
      const at = y + tall - 1;
      if (at >= 0 && at < h) for (let x = 0; x < w; x++) if (px[at * w + x] === palette.ground) px[at * w + x] = palette.rule;
    }
    if (lane.kind === "run") this.hatch(lane, y, w, h, tall);
  }

  private colorOf(lane: Lane, id: number): number {
    const { palette } = this.app;
    switch (lane.kind) {
      case "run": return this.app.isDimmed(id | 0) ? palette.rule : palette.task(id | 0);
      case "task": return id === 0 ? palette.task(lane.pid) : palette.state(id);
      case "freq": return palette.byHash(210);
      case "late": return palette.state(3);
      case "set": return palette.state(1);
      default: return palette.name(id);
    }
  }

  /** Stretches in which this CPU's events were lost. */
  private hatch(lane: Lane, y: number, w: number, h: number, tall: number): void {
    const shift = this.app.shift[lane.source] ?? 0, { span } = this.app, npp = (span.to - span.from) / w;
    for (const [from, to, cpu] of this.app.info!.sources[lane.source]!.lost) {
      if (cpu !== lane.cpu) continue;
      const a = Math.max(0, Math.floor((from + shift - span.from) / npp)), z = Math.min(w - 1, Math.ceil((to + shift - span.from) / npp));
      for (let x = a; x <= z; x++) for (let r = 0; r < tall; r++) {
        const at = y + r;
        if ((x + r) % 6 < 2 && at >= 0 && at < h) this.pixels[at * w + x] = this.app.palette.state(3);
      }
    }
  }

  private simple(lane: Lane, y: number, w: number, h: number, tall: number): void {
    const { span, palette } = this.app, npp = (span.to - span.from) / w;
    if (lane.kind === "head") {
      for (let x = 0; x < w; x++) { const at = y + tall - 1; if (at >= 0 && at < h) this.pixels[at * w + x] = palette.rule; }
      return;
    }
    const shift = this.app.shift[lane.source] ?? 0;
    for (const [t, , , text] of this.app.info!.sources[lane.source]!.markers) {
      const x = Math.floor((t + shift - span.from) / npp);
      if (x < 0 || x >= w) continue;
      const color = palette.byHash(hashText(text.slice(0, 12)));
      for (let r = 0; r < tall; r++) for (let k = 0; k < 2; k++) {
        const at = y + r;
        if (at >= 0 && at < h && x + k < w) this.pixels[at * w + x + k] = color;
      }
    }
  }

  private topFrequency(lane: Lane): number {
    let most = 1;
    this.tiles(lane, this.app.span, this.nsPerPixel, (t) => { for (const id of t.id) if (id > most) most = id; });
    return most;
  }

  name(lane: Lane, id: number): string {
    const source = this.app.info!.sources[lane.source]!;
    switch (lane.kind) {
      case "run": return taskName(this.app.info!, lane.source, id | 0);
      case "task": return STATES[id] ?? "";
      case "freq": return `${(id / 1000).toFixed(0)} MHz`;
      case "ev": return source.kinds.find((k) => k[0] === id)?.[1] ?? "event";
      case "late": return this.app.late.list[id]?.verdict || "late wake-up";
      case "set": return "match";
      default: return source.names[id] ?? "";
    }
  }

  /** Names on what is wide enough to bear one. */
  private texts(lane: Lane, y: number): void {
    const { ctx } = this, { palette } = this.app;
    if (lane.kind === "head") {
      ctx.font = "600 12px system-ui, sans-serif";
      ctx.fillStyle = palette.dim;
      ctx.textBaseline = "middle";
      ctx.fillText(lane.label, 4, y + lane.height / 2 - 1);
      return;
    }
    if (lane.kind === "markers") return this.markerTexts(lane, y);
    if (lane.height < 11 || lane.kind === "timers" || lane.kind === "set") return;
    ctx.font = `${lane.height > 15 ? 11 : 10}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    const taken = this.taken(lane);
    this.tiles(lane, this.app.span, this.nsPerPixel, (tile, _s, _b, from, to) => {
      if (tile.kind !== 1) return;
      const shift = this.app.shift[lane.source] ?? 0;
      for (let i = 0; i < tile.n; i++) {
        const a = tile.start[i] + shift, z = tile.end[i] + shift;
        // An item that spans tiles is named by the first of them that is in sight.
        if (a < from && from > this.app.span.from || z < from || a > to) continue;
        const x0 = Math.max(0, this.x(a)), x1 = Math.min(this.width, this.x(z));
        if (x1 - x0 < 34 || !taken(tile.id[i])) continue;
        const color = lane.kind === "run" ? palette.task(tile.id[i] | 0) : lane.kind === "task" ? (tile.id[i] === 0 ? palette.task(lane.pid) : palette.state(tile.id[i])) : lane.kind === "late" ? palette.state(3) : palette.name(tile.id[i]);
        let text = this.name(lane, tile.id[i]);
        if (lane.kind === "task" && tile.id[i] === 0) text = `CPU ${tile.aux[i]}`;
        const room = Math.floor((x1 - x0 - 6) / 6);
        if (text.length > room) text = text.slice(0, Math.max(1, room - 1)) + "\u2026";
        ctx.fillStyle = lane.kind === "freq" ? palette.text : ink(color);
        const drop = lane.kind === "task" && tile.id[i] !== 0 ? lane.height * 0.2 : 0;
        ctx.fillText(text, x0 + 3, y + lane.height / 2 + drop + 0.5);
      }
    });
    if (lane.kind === "run" || lane.kind === "fn") this.edges(lane, y);
  }

  /** Lines between neighbours of one colour. */
  private edges(lane: Lane, y: number): void {
    const { ctx } = this, shift = this.app.shift[lane.source] ?? 0;
    ctx.fillStyle = css(this.app.palette.ground);
    this.tiles(lane, this.app.span, this.nsPerPixel, (tile) => {
      if (tile.kind !== 1) return;
      for (let i = 0; i < tile.n; i++) {
        const x = this.x(tile.start[i] + shift);
        if (x > 0 && x < this.width && (tile.end[i] - tile.start[i]) / this.nsPerPixel > 4) ctx.fillRect(Math.round(x), y, 0.5, lane.height - 1);
      }
    });
  }

  private markerTexts(lane: Lane, y: number): void {
    const { ctx } = this, shift = this.app.shift[lane.source] ?? 0;
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.fillStyle = this.app.palette.text;
    let free = 0;
    for (const [t, , , text] of this.app.info!.sources[lane.source]!.markers) {
      const x = this.x(t + shift) + 5;
      if (x < free || x > this.width) continue;
      const shown = text.length > 60 ? text.slice(0, 59) + "\u2026" : text;
      ctx.fillText(shown, x, y + lane.height / 2);
      free = x + ctx.measureText(shown).width + 12;
    }
  }

  /** Arrows from who wakes to who is woken, where they can be told apart. */
  private arrows(visible: [Lane, number][]): void {
    const { span, info } = this.app;
    const source = visible.find(([l]) => l.kind === "run")?.[0].source ?? this.app.session.source;
    const shift = this.app.shift[source] ?? 0;
    const key = `${source} ${span.from} ${span.to}`;
    if (this.wakesAsked !== key && info!.sources[source]?.wakes) {
      this.wakesAsked = key;
      setTimeout(() => { if (this.wakesAsked === key) void this.askWakes(source, span.from, span.to); }, 60);
    }
    if (!this.wakes || this.wakes.source !== source) return;
    const { ctx, app } = this;
    const rows = new Map<string, number>();
    for (const [lane, y] of visible) {
      if (lane.source !== source) continue;
      if (lane.kind === "run") rows.set(`c${lane.cpu}`, y + lane.height / 2);
      if (lane.kind === "task") rows.set(`t${lane.pid}`, y + lane.height / 2);
    }
    ctx.lineWidth = 1;
    // Of arrows that cover each other one is drawn.
    const drawn = new Set<string>();
    for (const w of this.wakes.list) {
      const x = this.x(w.t + shift);
      if (x < 0 || x > this.width) continue;
      const task = rows.get(`t${w.pid}`);
      const to = task ?? (w.target === w.cpu ? undefined : rows.get(`c${w.target}`));
      const from = (w.context === 0 ? rows.get(`t${w.waker}`) : undefined) ?? rows.get(`c${w.cpu}`);
      if (from === undefined || to === undefined || from === to) continue;
      // A task that nobody chose is drawn only when there are few.
      if (task === undefined && this.wakes.list.length > 150) continue;
      const place = `${Math.round(x / 3)} ${from} ${to}`;
      if (drawn.has(place)) continue;
      drawn.add(place);
      ctx.strokeStyle = ctx.fillStyle = task === undefined ? app.palette.dim : app.palette.text;
      ctx.globalAlpha = task === undefined ? 0.5 : 0.85;
      const d = Math.sign(to - from);
      ctx.beginPath();
      ctx.moveTo(x, from);
      ctx.lineTo(x, to - d * 5);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x, to);
      ctx.lineTo(x - 3, to - d * 6);
      ctx.lineTo(x + 3, to - d * 6);
      ctx.fill();
      ctx.globalAlpha = 1;
    }
  }

  private async askWakes(source: number, from: number, to: number): Promise<void> {
    const shift = this.app.shift[source] ?? 0;
    try {
      const reply = await this.app.data.wakes(source, from - shift, to - shift);
      this.wakes = { source, from, to, list: reply.wakes };
      this.redraw();
    } catch { /* Said elsewhere. */ }
  }

  private ruler(): void {
    const { ctx } = this, { span, palette } = this.app;
    ctx.fillStyle = css(palette.ground);
    ctx.fillRect(0, 0, this.width, RULER - 2);
    const s = step(span.to - span.from, this.width / 130);
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "alphabetic";
    ctx.strokeStyle = palette.ruleCss;
    ctx.lineWidth = 1;
    // Enough decimals to tell neighbours apart.
    const digits = Math.min(9, Math.max(0, Math.ceil(9 - Math.log10(s) + 1e-9)));
    const zero = Number(this.app.base % BigInt(Math.max(1, Math.round(s))));
    for (let t = Math.ceil((span.from + zero) / s) * s - zero; t <= span.to; t += s) {
      const x = Math.round(this.x(t)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(x, RULER - 8);
      ctx.lineTo(x, this.height);
      ctx.globalAlpha = 0.5;
      ctx.stroke();
      ctx.globalAlpha = 1;
      ctx.fillStyle = palette.dim;
      const text = moment(this.app.base, t, digits).replace(/\.$/, "");
      ctx.fillText(text, x + 3, 13);
    }
  }

  private marks(): void {
    const { ctx } = this, { session, palette } = this.app;
    const line = (t: number, color: string, name: string) => {
      const x = Math.round(this.x(t)) + 0.5;
      if (x < -1 || x > this.width + 1) return;
      ctx.strokeStyle = color;
      ctx.lineWidth = 1.5;
      ctx.beginPath();
      ctx.moveTo(x, 0);
      ctx.lineTo(x, this.height);
      ctx.stroke();
      if (!name) return;
      ctx.fillStyle = color;
      ctx.fillRect(x - 1, 0, 14, 14);
      ctx.fillStyle = palette.isDark ? "#000" : "#fff";
      ctx.font = "700 11px system-ui, sans-serif";
      ctx.fillText(name, x + 2, 11);
    };
    if (session.a !== null && session.b !== null) {
      const a = this.x(Math.min(session.a, session.b)), b = this.x(Math.max(session.a, session.b));
      ctx.fillStyle = palette.accent;
      ctx.globalAlpha = 0.1;
      ctx.fillRect(a, 0, b - a, this.height);
      ctx.globalAlpha = 1;
    }
    if (this.app.selected) line(this.app.selected.time, palette.accent, "");
    if (session.a !== null) line(session.a, palette.isDark ? "#35c99f" : "#00795a", "A");
    if (session.b !== null) line(session.b, palette.isDark ? "#f28f52" : "#b84a00", "B");
  }

  /** What is at a place of the canvas. */
  hit(x: number, y: number): Hit | null {
    const scroll = this.scroller.scrollTop;
    const i = this.lanes.findIndex((l, n) => y >= this.tops[n]! - scroll && y < this.tops[n]! - scroll + l.height + GAP);
    const lane = this.lanes[i];
    if (!lane || lane.kind === "head" || y < RULER) return null;
    const t = this.time(x), near = this.nsPerPixel * 2.5, shift = this.app.shift[lane.source] ?? 0;
    if (lane.kind === "markers") {
      const m = this.app.info!.sources[lane.source]!.markers.findIndex((k) => Math.abs(k[0] + shift - t) < near * 2);
      if (m < 0) return null;
      const at = this.app.info!.sources[lane.source]!.markers[m]![0] + shift;
      return { lane, from: at, to: at, id: m, aux: 0, exact: true, count: 1, fill: 1 };
    }
    let best: Hit | null = null, distance = Infinity;
    this.tiles(lane, { from: t - near, to: t + near }, this.nsPerPixel, (tile, start, bin) => {
      if (tile.kind === 2) {
        const b = Math.floor((t - start) / bin);
        if (b >= 0 && b < tile.count.length && tile.count[b] > 0 && distance > 0) {
          best = { lane, from: start + b * bin, to: start + (b + 1) * bin, id: tile.id[b], aux: tile.aux[b], exact: false, count: tile.count[b], fill: tile.fill[b] };
        }
        return;
      }
      for (let k = 0; k < tile.n; k++) {
        const a = tile.start[k] + shift, z = tile.end[k] + shift;
        const d = t < a ? a - t : t > z ? t - z : 0;
        if (d < distance && d <= near) {
          distance = d;
          best = { lane, from: a, to: z, id: tile.id[k], aux: tile.aux[k], exact: true, count: 1, fill: 1 };
        }
      }
    });
    return best;
  }

  /** A hit in words, line by line. */
  words(hit: Hit): string[] {
    const { lane } = hit, at = `at ${moment(this.app.base, hit.from)} s`;
    if (lane.kind === "markers") {
      const m = this.app.info!.sources[lane.source]!.markers[hit.id]!;
      return [m[3], `by ${taskName(this.app.info!, lane.source, m[2])} on CPU ${m[1]}`, at];
    }
    const name = this.name(lane, hit.id);
    if (!hit.exact) {
      const share = lane.kind === "ev" || lane.kind === "set" ? "" : `, ${Math.round(hit.fill * 100)} % taken`;
      return [`mostly ${name}`, `${count(hit.count)} in ${length(hit.to - hit.from)}${share}`, at];
    }
    const long = hit.to > hit.from ? [`${length(hit.to - hit.from)}  (${exact(hit.to - hit.from)})`] : [];
    const more = lane.kind === "task" ? [`${hit.id === 0 ? "on" : "last on"} CPU ${hit.aux}`] : lane.kind === "timers" ? [`${KINDS[hit.aux & 15] ?? ""} on CPU ${hit.aux >> 4}`] : [];
    return [`${lane.kind === "task" ? `${lane.label}: ` : ""}${name}`, ...more, ...long, at];
  }

  private hands(): void {
    const c = this.canvas, { app } = this;
    const place = (e: { clientX: number; clientY: number }): [number, number] => {
      const box = c.getBoundingClientRect();
      return [e.clientX - box.left, e.clientY - box.top];
    };
    c.addEventListener("wheel", (e) => {
      e.preventDefault();
      const [x] = place(e), unit = e.deltaMode === 1 ? 30 : 1;
      if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        app.show(move(app.span, (e.deltaX || e.deltaY) * unit * this.nsPerPixel, app.all));
      } else {
        app.show(zoom(app.span, Math.exp(Math.max(-200, Math.min(200, e.deltaY * unit)) * 0.002), this.time(x), app.all));
      }
    }, { passive: false });
    const down = new Map<number, [number, number]>();
    let start: { x: number; y: number; span: Span; moved: boolean; range: boolean } | null = null;
    let pinch: { distance: number; time: number; span: Span } | null = null;
    c.addEventListener("pointerdown", (e) => {
      c.setPointerCapture(e.pointerId);
      const [x, y] = place(e);
      down.set(e.pointerId, [x, y]);
      if (down.size === 2) {
        const [p, q] = [...down.values()];
        pinch = { distance: Math.max(10, Math.abs(p[0] - q[0])), time: this.time((p[0] + q[0]) / 2), span: app.span };
        start = null;
      } else {
        start = { x, y, span: app.span, moved: false, range: y < RULER };
      }
      this.scroller.focus({ preventScroll: true });
    });
    c.addEventListener("pointermove", (e) => {
      const [x, y] = place(e);
      this.pointer = this.time(x);
      if (down.has(e.pointerId)) down.set(e.pointerId, [x, y]);
      if (pinch && down.size === 2) {
        const [p, q] = [...down.values()];
        const s = zoom(pinch.span, pinch.distance / Math.max(10, Math.abs(p[0] - q[0])), pinch.time, app.all);
        const middle = (p[0] + q[0]) / 2, npp = (s.to - s.from) / this.plotWidth;
        app.show(move(s, pinch.time - (s.from + middle * npp), app.all));
        return;
      }
      if (start) {
        if (Math.abs(x - start.x) + Math.abs(y - start.y) > 4) start.moved = true;
        if (start.moved && !start.range) {
          const npp = (start.span.to - start.span.from) / this.plotWidth;
          app.show(move(start.span, (start.x - x) * npp, app.all));
          if (e.pointerType === "touch") this.scroller.scrollTop += -(e.movementY || 0);
        }
        this.tip.hidden = true;
        return;
      }
      this.hover(x, y, e.clientX, e.clientY);
    });
    const up = (e: PointerEvent) => {
      down.delete(e.pointerId);
      if (pinch) { if (down.size === 0) pinch = null; return; }
      if (!start) return;
      const [x, y] = place(e), s = start;
      start = null;
      if (s.moved && s.range && Math.abs(x - s.x) > 4) {
        return app.show({ from: this.time(Math.min(x, s.x)), to: this.time(Math.max(x, s.x)) });
      }
      if (s.moved) return;
      const t = this.time(x);
      if (e.shiftKey) return app.mark("a", t);
      if (e.ctrlKey || e.metaKey || e.altKey) return app.mark("b", t);
      app.pick(this.hit(x, y), t);
    };
    c.addEventListener("pointerup", up);
    c.addEventListener("pointercancel", (e) => { down.delete(e.pointerId); start = null; pinch = null; });
    c.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    c.addEventListener("dblclick", (e) => {
      const [x, y] = place(e), hit = this.hit(x, y);
      if (hit?.exact && hit.to > hit.from) {
        const margin = (hit.to - hit.from) * 0.25;
        const wide = Math.max(hit.to - hit.from + 2 * margin, (app.span.to - app.span.from) / 50);
        const middle = (hit.from + hit.to) / 2;
        app.show(center({ from: middle - wide / 2, to: middle + wide / 2 }, middle, app.all));
      } else {
        app.show(center(app.span, hit ? (hit.from + hit.to) / 2 : this.time(x), app.all));
      }
    });
  }

  private hover(x: number, y: number, cx: number, cy: number): void {
    const hit = this.hit(x, y);
    this.tip.hidden = !hit;
    if (!hit) return;
    this.tip.replaceChildren(...this.words(hit).map((text) => { const p = document.createElement("p"); p.textContent = text; return p; }));
    const left = Math.min(cx + 14, innerWidth - this.tip.offsetWidth - 8), top = Math.min(cy + 16, innerHeight - this.tip.offsetHeight - 8);
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${Math.max(0, top)}px`;
  }
}
