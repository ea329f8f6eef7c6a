import type uPlot from "uplot";
import { number } from "./format";
import type { AxisModel, MarkModel, PlotModel, SeriesModel } from "./model";

/** Colours of the page's present theme. */
export interface Theme {
  series: string[];
  ink: string;
  dim: string;
  grid: string;
  mark: string;
}

export function themeOf(element: Element): Theme {
  const style = getComputedStyle(element);
  const get = (name: string) => style.getPropertyValue(`--plot-${name}`).trim();
  const series = [0, 1, 2, 3, 4, 5, 6].map((i) => get(`s${i}`));
  return { series, ink: get("ink"), dim: get("dim"), grid: get("grid"), mark: get("mark") };
}

export const color = (theme: Theme, k: number): string => theme.series[k % theme.series.length] ?? "#888";

/** `#rrggbb` with an opacity. */
export function faint(hex: string, alpha: number): string {
  return hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
}

/** Half-way between neighbours, by ratio on a logarithmic axis, as `plot::heat::edges`. */
export function edges(centres: number[], logarithmic = false): number[] {
  if (logarithmic && centres[0]! > 0) return edges(centres.map(Math.log2)).map((v) => 2 ** v);
  const n = centres.length;
  if (n === 0) return [];
  if (n === 1) return [centres[0]! - 0.5, centres[0]! + 0.5];
  const middle = (i: number) => (centres[i]! + centres[i + 1]!) / 2;
  const out = [2 * centres[0]! - middle(0)];
  for (let i = 0; i < n - 1; i++) out.push(middle(i));
  out.push(2 * centres[n - 1]! - middle(n - 2));
  return out;
}

const distinct = (v: (number | null)[]) =>
  [...new Set(v.filter((x): x is number => x !== null))].sort((a, b) => a - b);

/** The canvas position of a value; what the scale cannot show lies on its floor. */
function at(u: uPlot, v: number, side: "x" | "y"): number {
  const p = u.valToPos(v, side, true);
  if (Number.isFinite(p)) return p;
  return side === "x" ? u.bbox.left : u.bbox.top + u.bbox.height;
}

/** Draws what uPlot has no series for, below its series: bands, ribbons, bars, cells, spans, marks. */
export function under(u: uPlot, plot: PlotModel, theme: Theme): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const m of plot.marks) if (m.at === "band") band(u, m, theme);
  const bars = plot.series.map((s, i) => ({ s, i })).filter(({ s }) => s.kind === "bars");
  plot.series.forEach((s, k) => {
    if (u.series[k + 1]?.show === false) return;
    if (s.kind === "heat") heat(u, plot, s);
    else if (s.kind === "spans") spans(u, s, color(theme, k));
    else if (s.kind === "bars") drawBars(u, plot, s, bars.findIndex((b) => b.i === k), bars.length, color(theme, k), theme.ink);
    if (s.low && s.high && s.kind === "line") ribbon(u, s, faint(color(theme, k), 0.18));
    else if (s.low && s.high && s.kind !== "bars") whiskers(u, s, 0, color(theme, k));
  });
  ctx.restore();
}

/** Draws marks and their names above everything else. */
export function over(u: uPlot, plot: PlotModel, theme: Theme): void {
  const { ctx, bbox } = u;
  const px = devicePixelRatio;
  ctx.save();
  ctx.font = `${12 * px}px system-ui, sans-serif`;
  ctx.fillStyle = theme.mark;
  ctx.strokeStyle = theme.mark;
  ctx.lineWidth = px;
  ctx.setLineDash([3 * px, 3 * px]);
  const ends: number[] = [];
  const marks = [...plot.marks].sort((a, b) => (a.from ?? 0) - (b.from ?? 0));
  for (const m of marks) {
    if (m.from === null) continue;
    if (m.at === "y") {
      const y = at(u, m.from, "y");
      if (y < bbox.top || y > bbox.top + bbox.height) continue;
      stroke(ctx, bbox.left, y, bbox.left + bbox.width, y);
      ctx.textAlign = "right";
      ctx.fillText(m.name, bbox.left + bbox.width - 4 * px, y - 4 * px);
      continue;
    }
    const x = m.at === "band" ? (at(u, m.from, "x") + at(u, m.to ?? m.from, "x")) / 2 : at(u, m.from, "x");
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    if (m.at === "x") stroke(ctx, x, bbox.top, x, bbox.top + bbox.height);
    if (!m.name) continue;
    const half = ctx.measureText(m.name).width / 2;
    const center = Math.min(Math.max(x, half), ctx.canvas.width - half);
    let row = ends.findIndex((end) => end < center - half - 6 * px);
    if (row < 0) row = ends.length;
    if (row >= 4) continue;
    ends[row] = center + half;
    ctx.textAlign = "center";
    ctx.fillText(m.name, center, bbox.top - (5 + 15 * row) * px);
  }
  ctx.restore();
}

function stroke(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

function band(u: uPlot, m: MarkModel, theme: Theme): void {
  if (m.from === null || m.to === null || m.to === undefined) return;
  const [a, b] = [at(u, m.from, "x"), at(u, m.to, "x")];
  u.ctx.fillStyle = faint(theme.mark, 0.14);
  u.ctx.fillRect(Math.min(a, b), u.bbox.top, Math.abs(b - a), u.bbox.height);
}

const isLog = (axis: AxisModel) => axis.scale === "log10" || axis.scale === "log2";

/** Black or white, whichever can be read on a colour. */
export function inkOn(hex: string): string {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)) as [number, number, number];
  return 0.299 * r + 0.587 * g + 0.114 * b > 118 ? "#000" : "#fff";
}

function heat(u: uPlot, plot: PlotModel, s: SeriesModel): void {
  const [xs, ys] = [distinct(s.x), distinct(s.y)];
  const ex = edges(xs, isLog(plot.x)).map((v) => at(u, v, "x"));
  const ey = edges(ys, isLog(plot.y)).map((v) => at(u, v, "y"));
  const px = devicePixelRatio;
  u.ctx.font = `${12 * px}px system-ui, sans-serif`;
  u.ctx.textAlign = "center";
  u.ctx.textBaseline = "middle";
  const column = new Map(xs.map((v, i) => [v, i]));
  const row = new Map(ys.map((v, i) => [v, i]));
  s.x.forEach((x, i) => {
    const y = s.y[i];
    const c = s.colors?.[i];
    if (x === null || y === null || y === undefined || !c || s.values?.[i] == null) return;
    const [k, r] = [column.get(x)!, row.get(y)!];
    u.ctx.fillStyle = c;
    const [left, top] = [Math.round(ex[k]!), Math.round(ey[r + 1]!)];
    const [width, height] = [Math.round(ex[k + 1]!) - left, Math.round(ey[r]!) - top];
    u.ctx.fillRect(left, top, width, height);
    // The value where it fits.
    if (width < 40 * px || height < 16 * px) return;
    u.ctx.fillStyle = inkOn(c);
    u.ctx.fillText(number(s.values[i]!), left + width / 2, top + height / 2);
  });
}

function spans(u: uPlot, s: SeriesModel, c: string): void {
  u.ctx.fillStyle = c;
  s.x.forEach((from, i) => {
    const [lane, to] = [s.y[i], s.values?.[i]];
    if (from === null || lane === null || lane === undefined || to === null || to === undefined) return;
    const [a, b] = [at(u, from, "x"), at(u, to, "x")];
    const [top, bottom] = [at(u, lane + 0.36, "y"), at(u, lane - 0.36, "y")];
    u.ctx.fillRect(a, top, Math.max(devicePixelRatio, b - a), bottom - top);
  });
}

function barGap(plot: PlotModel): number {
  if (plot.x.scale === "category") return 1;
  let least = Infinity;
  for (const s of plot.series) {
    if (s.kind !== "bars") continue;
    for (let i = 1; i < s.x.length; i++) {
      const gap = (s.x[i] ?? NaN) - (s.x[i - 1] ?? NaN);
      if (gap > 0 && gap < least) least = gap;
    }
  }
  return Number.isFinite(least) ? least : 1;
}

function drawBars(u: uPlot, plot: PlotModel, s: SeriesModel, place: number, of: number, c: string, ink: string): void {
  const gap = barGap(plot);
  const width = (gap * 0.8) / of;
  u.ctx.fillStyle = faint(c, 0.85);
  const foot = at(u, 0, "y");
  s.x.forEach((x, i) => {
    const y = s.y[i];
    if (x === null || y === null || y === undefined) return;
    const left = x - gap * 0.4 + place * width;
    const [a, b, top] = [at(u, left, "x"), at(u, left + width * 0.94, "x"), at(u, y, "y")];
    u.ctx.fillRect(a, Math.min(top, foot), b - a, Math.abs(foot - top));
  });
  if (s.low && s.high) whiskers(u, s, -gap * 0.4 + place * width + width * 0.47, ink);
}

function ribbon(u: uPlot, s: SeriesModel, c: string): void {
  const whole = s.x.flatMap((x, i) => {
    const [low, high] = [s.low?.[i], s.high?.[i]];
    return x == null || low == null || high == null ? [] : [{ x, low, high }];
  });
  if (whole.length < 2) return;
  u.ctx.fillStyle = c;
  u.ctx.beginPath();
  for (const p of whole) u.ctx.lineTo(at(u, p.x, "x"), at(u, p.high, "y"));
  for (const p of whole.reverse()) u.ctx.lineTo(at(u, p.x, "x"), at(u, p.low, "y"));
  u.ctx.fill();
}

/** A line from the low to the high end of each point's interval, `shift` to the right of it. */
function whiskers(u: uPlot, s: SeriesModel, shift: number, c: string): void {
  u.ctx.strokeStyle = c;
  u.ctx.lineWidth = devicePixelRatio;
  s.x.forEach((x, i) => {
    const [low, high] = [s.low?.[i], s.high?.[i]];
    if (x == null || low == null || high == null) return;
    const px = at(u, x + shift, "x");
    stroke(u.ctx, px, at(u, low, "y"), px, at(u, high, "y"));
  });
}
