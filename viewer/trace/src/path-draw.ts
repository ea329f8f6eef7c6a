/** The critical path over the lanes: segments stand out, and an arrow leads from each event that ended a wait. */
import type { App } from "./app";
import { css } from "./color";
import { RULER, type Lane } from "./lanes";
import type { Timeline } from "./timeline";
import type { Arrow, Part, WakeUp } from "./types";

/** Length of an arrow's head, pixels. */
const HEAD = 9;
/** Pixels between two arrows that would cover each other. */
const APART = 16;
/** Outlines of segments narrower than this are not drawn, pixels. */
const NARROW = 3;

/** An arrow with its place, pixels. */
export interface Placed { number: number; x: number; from: number; to: number }

/**
 * Arrows of one moment beside each other: one that would cover an earlier one is moved to the right, so that each
 * stays readable at any zoom. In order of time.
 */
export function apart(arrows: Placed[]): Placed[] {
  const out: Placed[] = [];
  for (const a of arrows) {
    let x = a.x;
    const [top, bottom] = [Math.min(a.from, a.to), Math.max(a.from, a.to)];
    for (const o of out) {
      const clear = Math.max(o.from, o.to) < top || Math.min(o.from, o.to) > bottom;
      if (!clear && Math.abs(o.x - x) < APART && o.x >= a.x - APART) x = Math.max(x, o.x + APART);
    }
    out.push({ ...a, x });
  }
  return out;
}

/** Intervals of a window that no segment covers. Segments in order of time. */
export function outside(segments: [number, number][], from: number, to: number): [number, number][] {
  const out: [number, number][] = [];
  let at = from;
  for (const [a, z] of segments) {
    if (a > at) out.push([at, Math.min(a, to)]);
    at = Math.max(at, z);
  }
  if (at < to) out.push([at, to]);
  return out.filter(([a, z]) => z > a);
}

/** Whether a segment is drawn in a lane: who had the CPU, and the state of the task whose time it is. */
const isIn = (lane: Lane, p: Part): boolean => (lane.kind === "task" ? lane.pid === p.pid : lane.kind === "run" && lane.cpu === p.cpu);

export class PathDraw {
  constructor(private t: Timeline, private app: App) {}

  draw(visible: [Lane, number][]): void {
    const w = this.app.latePanel.path.shown;
    if (!w || w.parts.length === 0) return;
    const shift = this.app.shift[w.source] ?? 0;
    const { span } = this.app;
    if (w.to + shift < span.from || w.from + shift > span.to) return;
    for (const [lane, y] of visible) {
      if (lane.source === w.source && (lane.kind === "run" || lane.kind === "task")) this.lane(w, lane, y, shift);
    }
    this.arrows(w, shift);
  }

  /** What belongs to the path stays as it is and has an outline; the rest of its time is paler. */
  private lane(w: WakeUp, lane: Lane, y: number, shift: number): void {
    const { ctx } = this.t, { palette } = this.app;
    const x = (ns: number) => Math.max(-2, Math.min(this.t.width + 2, this.t.x(w.from + shift + ns)));
    const own = w.parts.filter((p) => isIn(lane, p)).map((p): [number, number] => [x(p.from), x(p.to)]);
    ctx.fillStyle = css(palette.ground);
    ctx.globalAlpha = 0.6;
    for (const [a, z] of outside(own, x(0), x(w.to - w.from))) ctx.fillRect(a, y, z - a, lane.height);
    ctx.globalAlpha = 1;
    ctx.lineWidth = 2;
    ctx.strokeStyle = palette.text;
    // Neighbours share an outline.
    let open: [number, number] | null = null;
    const outline = () => {
      if (!open) return;
      const [a, z] = open;
      if (z - a >= NARROW) ctx.strokeRect(a + 1, y + 1, z - a - 2, lane.height - 2);
      else { ctx.fillStyle = palette.text; ctx.fillRect(a, y, Math.max(1.5, z - a), lane.height); }
    };
    for (const [a, z] of own) {
      if (open && a <= open[1] + 1) open[1] = z;
      else { outline(); open = [a, z]; }
    }
    outline();
  }

  /** The middle of a lane, also of one that is scrolled away; nothing for one that is hidden. */
  private middle(source: number, is: (lane: Lane) => boolean): number | undefined {
    const i = this.t.lanes.findIndex((l) => l.source === source && is(l));
    return i < 0 ? undefined : this.t.tops[i]! - this.t.scroller.scrollTop + this.t.lanes[i]!.height / 2;
  }

  private place(source: number, lane: "task" | "irq" | "soft", cpu: number, pid: number): number | undefined {
    const of = (kind: string) => this.middle(source, (l) => l.kind === kind && l.cpu === cpu && l.depth === 0);
    const run = () => of("run");
    if (lane === "irq") return of("irq") ?? run();
    if (lane === "soft") return of("soft") ?? run();
    return this.middle(source, (l) => l.kind === "task" && l.pid === pid) ?? run();
  }

  private ends(w: WakeUp, a: Arrow): [number, number] | null {
    const from = this.place(w.source, a.lane, a.cpu, a.by);
    const to = a.kind === "wakes" || a.kind === "hands_on" ? this.place(w.source, "task", a.target, a.pid) : this.place(w.source, a.begins_lane, a.target, -1);
    if (from === undefined || to === undefined) return null;
    // From a lane to itself there is nothing to draw: the table has it.
    return Math.abs(to - from) < HEAD ? null : [from, to];
  }

  private arrows(w: WakeUp, shift: number): void {
    const placed: Placed[] = [];
    w.arrows.forEach((a, i) => {
      const x = this.t.x(w.from + shift + a.at), ends = this.ends(w, a);
      if (ends && x > -APART && x < this.t.width + APART) placed.push({ number: i + 1, x, from: ends[0], to: ends[1] });
    });
    // So many that none could be told apart are drawn from the outermost on.
    const most = Math.floor(this.t.width / APART);
    for (const a of apart(placed.slice(0, most))) this.arrow(a);
  }

  private arrow(a: Placed): void {
    const { ctx } = this.t, { palette } = this.app, down = Math.sign(a.to - a.from);
    const top = Math.max(a.from, a.to) > RULER;
    if (!top) return;
    const line = () => {
      ctx.beginPath();
      ctx.moveTo(a.x, a.from);
      ctx.lineTo(a.x, a.to - down * HEAD);
      ctx.stroke();
    };
    const head = (more: number) => {
      ctx.beginPath();
      ctx.moveTo(a.x, a.to + down * more);
      ctx.lineTo(a.x - HEAD * 0.6 - more, a.to - down * (HEAD + more));
      ctx.lineTo(a.x + HEAD * 0.6 + more, a.to - down * (HEAD + more));
      ctx.fill();
    };
    // A rim of the ground's colour keeps it apart from any lane.
    ctx.strokeStyle = ctx.fillStyle = css(palette.ground);
    ctx.lineWidth = 5;
    line();
    head(2);
    ctx.strokeStyle = ctx.fillStyle = palette.text;
    ctx.lineWidth = 2;
    line();
    head(0);
    // Its number in the table, at its beginning.
    const text = String(a.number), r = text.length > 2 ? 10 : 8;
    ctx.beginPath();
    ctx.arc(a.x, a.from, r + 1.5, 0, 2 * Math.PI);
    ctx.fillStyle = css(palette.ground);
    ctx.fill();
    ctx.beginPath();
    ctx.arc(a.x, a.from, r, 0, 2 * Math.PI);
    ctx.fillStyle = palette.text;
    ctx.fill();
    ctx.fillStyle = css(palette.ground);
    ctx.font = "600 10px system-ui, sans-serif";
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText(text, a.x, a.from + 0.5);
    ctx.textAlign = "left";
  }
}
