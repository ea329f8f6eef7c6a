/** What is drawn over the lanes' pixels: names, arrows of wake-ups, the ruler, markers. */
import type { App } from "./app";
import { css, ink } from "./color";
import { moment, step } from "./format";
import { RULER, type Lane } from "./lanes";
import { PathDraw } from "./path-draw";
import type { Timeline } from "./timeline";
import type { Wake } from "./types";

/** Pixels between two arrows of wake-ups, on the average: what is closer is not drawn. */
const APART = 12;

export class Overlay {
  private wakes: { source: number; from: number; to: number; list: Wake[] } | null = null;
  private wakesAsked = "";

  private path: PathDraw;

  constructor(private t: Timeline, private app: App) { this.path = new PathDraw(t, app); }

  draw(visible: [Lane, number][]): void {
    for (const [lane, y] of visible) this.texts(lane, y);
    this.unread(visible);
    // The arrows of the path replace those of all wake-ups.
    if (this.app.latePanel.path.shown) this.path.draw(visible);
    else this.arrows(visible);
    this.ruler();
    this.marks();
  }

  /** Names on what is wide enough to bear one. */
  private texts(lane: Lane, y: number): void {
    const { ctx } = this.t, { palette } = this.app;
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
    const taken = this.t.taken(lane);
    this.t.tiles(lane, this.app.span, this.t.nsPerPixel, (tile, _s, _b, from, to) => {
      if (tile.kind !== 1) return;
      const shift = this.app.shift[lane.source] ?? 0;
      for (let i = 0; i < tile.n; i++) {
        const a = tile.start[i] + shift, z = tile.end[i] + shift;
        // An item that spans tiles is named by the first of them that is in sight.
        if (a < from && from > this.app.span.from || z < from || a > to) continue;
        const x0 = Math.max(0, this.t.x(a)), x1 = Math.min(this.t.width, this.t.x(z));
        if (x1 - x0 < 34 || !taken(tile.id[i])) continue;
        const color = lane.kind === "run" ? palette.task(tile.id[i] | 0) : lane.kind === "task" ? (tile.id[i] === 0 ? palette.task(lane.pid) : palette.state(tile.id[i])) : lane.kind === "late" ? palette.state(3) : lane.kind === "path" ? this.app.latePanel.pathColor(tile.id[i]) : palette.name(tile.id[i]);
        let text = this.t.name(lane, tile.id[i]);
        if (lane.kind === "task" && tile.id[i] === 0) text = `CPU ${tile.aux[i]}`;
        const room = Math.floor((x1 - x0 - 6) / 6);
        if (text.length > room) text = text.slice(0, Math.max(1, room - 1)) + "\u2026";
        ctx.fillStyle = lane.kind === "freq" ? palette.text : ink(color);
        const drop = lane.kind === "task" && tile.id[i] !== 0 ? lane.height * 0.2 : 0;
        ctx.fillText(text, x0 + 3, y + lane.height / 2 + drop + 0.5);
      }
    });
    if (lane.kind === "run" || lane.kind === "fn" || lane.kind === "path") this.edges(lane, y);
  }

  /** Lines between neighbours of one colour. */
  private edges(lane: Lane, y: number): void {
    const { ctx } = this.t, shift = this.app.shift[lane.source] ?? 0;
    ctx.fillStyle = css(this.app.palette.ground);
    this.t.tiles(lane, this.app.span, this.t.nsPerPixel, (tile) => {
      if (tile.kind !== 1) return;
      for (let i = 0; i < tile.n; i++) {
        const x = this.t.x(tile.start[i] + shift);
        if (x > 0 && x < this.t.width && (tile.end[i] - tile.start[i]) / this.t.nsPerPixel > 4) ctx.fillRect(Math.round(x), y, 0.5, lane.height - 1);
      }
    });
  }

  private markerTexts(lane: Lane, y: number): void {
    const { ctx } = this.t, shift = this.app.shift[lane.source] ?? 0;
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.fillStyle = this.app.palette.text;
    let free = 0;
    for (const [t, , , text] of this.app.info!.sources[lane.source]!.markers) {
      const x = this.t.x(t + shift) + 5;
      if (x < free || x > this.t.width) continue;
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
    const { t: { ctx }, app } = this;
    const rows = new Map<string, number>();
    for (const [lane, y] of visible) {
      if (lane.source !== source) continue;
      if (lane.kind === "run") rows.set(`c${lane.cpu}`, y + lane.height / 2);
      if (lane.kind === "task") rows.set(`t${lane.pid}`, y + lane.height / 2);
    }
    // Of arrows that cover each other one is drawn.
    const arrows = new Map<string, { x: number; from: number; to: number; chosen: boolean }>();
    for (const w of this.wakes.list) {
      const x = this.t.x(w.t + shift);
      if (x < 0 || x > this.t.width) continue;
      const task = rows.get(`t${w.pid}`);
      const to = task ?? (w.target === w.cpu ? undefined : rows.get(`c${w.target}`));
      const from = (w.context === 0 ? rows.get(`t${w.waker}`) : undefined) ?? rows.get(`c${w.cpu}`);
      if (from === undefined || to === undefined || from === to) continue;
      arrows.set(`${Math.round(x / 3)} ${from} ${to}`, { x, from, to, chosen: task !== undefined });
    }
    // So many that they hide what is below them are none; those to tasks that nobody chose go first.
    const most = this.t.width / APART, chosen = [...arrows.values()].filter((a) => a.chosen);
    if (chosen.length > most) return;
    ctx.lineWidth = 1;
    for (const a of arrows.size > most ? chosen : arrows.values()) {
      ctx.strokeStyle = ctx.fillStyle = a.chosen ? app.palette.text : app.palette.dim;
      ctx.globalAlpha = a.chosen ? 0.85 : 0.5;
      const d = Math.sign(a.to - a.from);
      ctx.beginPath();
      ctx.moveTo(a.x, a.from);
      ctx.lineTo(a.x, a.to - d * 5);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(a.x, a.to);
      ctx.lineTo(a.x - 3, a.to - d * 6);
      ctx.lineTo(a.x + 3, a.to - d * 6);
      ctx.fill();
      ctx.globalAlpha = 1;
    }
  }

  private async askWakes(source: number, from: number, to: number): Promise<void> {
    const shift = this.app.shift[source] ?? 0;
    try {
      const reply = await this.app.data.wakes(source, from - shift, to - shift);
      this.wakes = { source, from, to, list: reply.wakes };
      this.t.redraw();
    } catch { /* Said elsewhere. */ }
  }

  private ruler(): void {
    const { ctx } = this.t, { span, palette } = this.app;
    ctx.fillStyle = css(palette.ground);
    ctx.fillRect(0, 0, this.t.width, RULER - 2);
    const s = step(span.to - span.from, this.t.width / 130);
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "alphabetic";
    ctx.strokeStyle = palette.ruleCss;
    ctx.lineWidth = 1;
    // Enough decimals to tell neighbours apart.
    const digits = Math.min(9, Math.max(0, Math.ceil(9 - Math.log10(s) + 1e-9)));
    const zero = Number(this.app.base % BigInt(Math.max(1, Math.round(s))));
    for (let t = Math.ceil((span.from + zero) / s) * s - zero; t <= span.to; t += s) {
      const x = Math.round(this.t.x(t)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(x, RULER - 8);
      ctx.lineTo(x, this.t.height);
      ctx.globalAlpha = 0.5;
      ctx.stroke();
      ctx.globalAlpha = 1;
      ctx.fillStyle = palette.dim;
      const text = moment(this.app.base, t, digits).replace(/\.$/, "");
      ctx.fillText(text, x + 3, 13);
    }
  }

  private marks(): void {
    const { ctx } = this.t, { session, palette } = this.app;
    const line = (t: number, color: string, name: string) => {
      const x = Math.round(this.t.x(t)) + 0.5;
      if (x < -1 || x > this.t.width + 1) return;
      ctx.strokeStyle = color;
      ctx.lineWidth = 1.5;
      ctx.beginPath();
      ctx.moveTo(x, 0);
      ctx.lineTo(x, this.t.height);
      ctx.stroke();
      if (!name) return;
      ctx.fillStyle = color;
      ctx.fillRect(x - 1, 0, 14, 14);
      ctx.fillStyle = palette.isDark ? "#000" : "#fff";
      ctx.font = "700 11px system-ui, sans-serif";
      ctx.fillText(name, x + 2, 11);
    };
    if (session.a !== null && session.b !== null) {
      const a = this.t.x(Math.min(session.a, session.b)), b = this.t.x(Math.max(session.a, session.b));
      ctx.fillStyle = palette.accent;
      ctx.globalAlpha = 0.1;
      ctx.fillRect(a, 0, b - a, this.t.height);
      ctx.globalAlpha = 1;
    }
    if (this.app.selected) line(this.app.selected.time, palette.accent, "");
    if (session.a !== null) line(session.a, palette.isDark ? "#35c99f" : "#00795a", "A");
    if (session.b !== null) line(session.b, palette.isDark ? "#f28f52" : "#b84a00", "B");
  }

  /** What is not read yet is not empty. */
  private unread(visible: [Lane, number][]): void {
    for (const [lane, y] of visible) {
      const source = this.app.info!.sources[lane.source]!, shift = this.app.shift[lane.source] ?? 0;
      if (source.whole <= source.length) continue;
      const from = Math.max(0, this.t.x(source.length + shift)), to = Math.min(this.t.width, this.t.x(source.whole + shift));
      this.t.ctx.fillStyle = this.app.palette.ruleCss;
      this.t.ctx.globalAlpha = 0.5;
      if (to > from) this.t.ctx.fillRect(from, y, to - from, lane.height);
      this.t.ctx.globalAlpha = 1;
    }
  }
}
