/** The timeline: where lanes lie, their pixels, and what is at a place. Names and lines over them: overlay.ts. */
import type { App } from "./app";
import { hashText } from "./color";
import { count, exact, length, moment } from "./format";
import { hands } from "./hands";
import { RULER, taskName, type Lane } from "./lanes";
import { Overlay } from "./overlay";
import { Columns } from "./raster";
import { extent, itemsTile, levelOf } from "./tile";
import type { Late, Tile, WakeUp } from "./types";
import type { Span } from "./window";

export const STATES = ["running", "waiting for a CPU", "sleeping", "blocked", "ended", "not known"];
const GAP = 2;

/** What lies under the pointer. */
export interface Hit { lane: Lane; from: number; to: number; id: number; aux: number; exact: boolean; count: number; fill: number }

export class Timeline {
  readonly canvas = document.createElement("canvas");
  readonly scroller = document.createElement("div");
  private labels = document.createElement("div");
  private spacer = document.createElement("div");
  readonly tip = document.createElement("div");
  readonly ctx: CanvasRenderingContext2D;
  private image: ImageData | null = null;
  private pixels = new Uint32Array(0);
  private columns = new Columns(1);
  width = 0;
  height = 0;
  private ratio = 1;
  lanes: Lane[] = [];
  tops: number[] = [];
  private frame = 0;
  /** How long drawings took, ms: for measuring. */
  readonly took: number[] = [];
  private overlay: Overlay;
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
    this.overlay = new Overlay(this, app);
    hands(this, app);
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
    this.overlay.draw(visible);
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

  taken(lane: Lane): (id: number) => boolean {
    if (lane.kind === "run") return (id) => id !== 0 && id !== 0xffffffff;
    if (lane.kind === "task") return (id) => id === 0 || id === 1 || id === 3;
    return () => true;
  }

  /** Calls `each` with every tile that is here for a window, coarser ones where the right one is not. */
  tiles(lane: Lane, span: Span, nsPerPixel: number, each: (tile: Tile, start: number, bin: number, from: number, to: number) => void): void {
    if (lane.kind === "late") return each(this.lateTile(lane.source), 0, 1, span.from, span.to);
    if (lane.kind === "path") return each(this.pathTile(), 0, 1, span.from, span.to);
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

  private path: { of: WakeUp; tile: Tile } | null = null;
  /** The segments of the critical path as a tile. */
  private pathTile(): Tile {
    const of = this.app.latePanel.path.shown;
    if (!of) return itemsTile(new Float64Array(0), new Float64Array(0), new Uint32Array(0), new Uint32Array(0));
    if (this.path?.of !== of) {
      const { parts, from } = of;
      this.path = { of, tile: itemsTile(Float64Array.from(parts.map((p) => from + p.from)), Float64Array.from(parts.map((p) => from + p.to)), Uint32Array.from(parts.map((_, i) => i)), new Uint32Array(parts.length)) };
    }
    return this.path.tile;
  }

  /** Scrolls a lane into sight. */
  reveal(lane: number): void {
    const top = this.tops[lane]!, bottom = top + this.lanes[lane]!.height, { scroller } = this;
    if (top - RULER < scroller.scrollTop) scroller.scrollTop = top - RULER;
    else if (bottom > scroller.scrollTop + this.height) scroller.scrollTop = bottom - this.height;
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
      else if (kind === "late" || kind === "path" || kind === "set") part = 1;
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
      case "path": return this.app.latePanel.pathColor(id);
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
      case "path": return this.app.latePanel.pathName(id);
      case "set": return "match";
      default: return source.names[id] ?? "";
    }
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
    const more = lane.kind === "task" ? [`${hit.id === 0 ? "on" : "last on"} CPU ${hit.aux}`] : lane.kind === "timers" ? [`${this.app.info!.spans[hit.aux & 15] ?? ""} on CPU ${hit.aux >> 4}`]
      : lane.kind === "irq" || lane.kind === "soft" ? [`${this.app.info!.spans[hit.aux] ?? ""} on CPU ${lane.cpu}`] : [];
    return [`${lane.kind === "task" ? `${lane.label}: ` : ""}${name}`, ...more, ...long, at];
  }

}
