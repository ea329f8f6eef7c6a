import uPlot from "uplot";
import { places, ticks, value } from "./format";
import type { AxisModel, PlotModel, SeriesModel } from "./model";
import { color, faint, over, themeOf, under, type Theme } from "./paint";

const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3], [14, 4], [4, 2], [1, 4]];
/** Drawn by uPlot itself; the rest is painted. */
const own = (s: SeriesModel) => s.kind === "line" || s.kind === "step" || s.kind === "points";

/** The columns that uPlot draws: one x for all, holes where a series has no point. */
export function columns(plot: PlotModel): uPlot.AlignedData {
  const tables = plot.series.map((s) => {
    // What is painted takes part with its x only, so that the cursor has somewhere to go.
    const order = s.x.map((_, i) => i).filter((i) => s.x[i] !== null).sort((a, b) => s.x[a]! - s.x[b]!);
    const xs: number[] = [];
    const ys: (number | null)[] = [];
    for (const i of order) {
      const x = s.x[i]!;
      const y = s.y[i] ?? null;
      // A staircase may have two points at one x: the later one counts.
      if (xs.length > 0 && xs[xs.length - 1] === x) ys[ys.length - 1] = y;
      else { xs.push(x); ys.push(y); }
    }
    return [xs, ys] as uPlot.AlignedData;
  });
  if (tables.length === 0) return [[]];
  return tables.length === 1 ? tables[0]! : uPlot.join(tables);
}

function scaleOf(axis: AxisModel): uPlot.Scale {
  const log = axis.scale === "log10" || axis.scale === "log2";
  return {
    time: false,
    auto: false,
    distr: log ? 3 : 1,
    log: axis.scale === "log2" ? 2 : 10,
    min: axis.min,
    max: axis.max,
    range: (_u, min, max) => [min, max],
  };
}

function axisOf(axis: AxisModel, side: "x" | "y", theme: Theme, cells: boolean): uPlot.Axis {
  const font = "12px system-ui, sans-serif";
  const shown = (axis.scale !== "linear" && axis.scale !== "category") || side === "y";
  const o: uPlot.Axis = {
    scale: side,
    stroke: theme.dim,
    font,
    labelFont: font,
    labelSize: 18,
    grid: { show: shown && !cells && axis.scale !== "category", stroke: theme.grid, width: 1 },
    ticks: { stroke: theme.grid, width: 1, size: 4 },
    border: { show: true, stroke: theme.dim, width: 1 },
    space: side === "x" ? 70 : 34,
    values: (_u, at) => ticks(axis, at),
  };
  if (axis.label) o.label = axis.label;
  if (side === "x") o.size = 30;
  if (axis.scale !== "linear") {
    o.splits = (u, _i, min, max) => {
      const size = side === "x" ? u.width / 80 : u.height / (axis.scale === "category" ? 14 : 45);
      return places(axis, min, max, Math.max(2, Math.floor(size))) ?? [];
    };
    o.filter = (_u, at) => at;
  }
  if (side === "y") {
    o.size = (u, values) => {
      const widest = Math.max(2, ...(values ?? []).map((v) => (v ?? "").length));
      return Math.min(u.width * 0.45, 16 + widest * 7);
    };
  }
  return o;
}

function seriesOf(plot: PlotModel, s: SeriesModel, k: number, theme: Theme): uPlot.Series {
  const c = color(theme, k);
  const o: uPlot.Series = {
    label: s.name || plot.y.label || "value",
    stroke: c,
    width: 1.75,
    spanGaps: true,
    value: (_u, v) => value(plot.y, v),
    // Points beside lines are single cases: larger than the points of a line.
    points: { show: s.kind === "points" || (s.kind === "line" && s.x.length <= 60), size: s.kind === "points" && plot.series.some((o) => o.kind === "line") ? 9 : 5, fill: c, width: 0 },
  };
  const dash = DASHES[k % DASHES.length]!;
  if (dash.length > 0 && s.kind !== "points") o.dash = dash;
  if (s.kind === "step") {
    o.paths = uPlot.paths.stepped!({ align: 1 });
    if (plot.series.length === 1) o.fill = faint(c, 0.2);
  } else if (!own(s) || s.kind === "points") {
    o.paths = () => null;
    if (!own(s)) o.points = { show: false };
  }
  return o;
}

/** The cell or span under the cursor, in words; empty where there is none. */
export function under_cursor(plot: PlotModel, x: number, y: number): string {
  for (const s of plot.series) {
    if (s.kind === "spans") {
      const i = s.x.findIndex((from, i) => from !== null && from <= x && x <= (s.values?.[i] ?? from)
        && Math.abs((s.y[i] ?? NaN) - y) < 0.4);
      if (i >= 0) {
        const to = s.values?.[i] ?? s.x[i]!;
        const length = value(plot.x, to - s.x[i]!);
        return `${s.name}: ${value(plot.x, s.x[i])} to ${value(plot.x, to)} (${length})`;
      }
    }
    if (s.kind === "heat") {
      const i = nearest(s, x, y, plot.x.scale === "log10" || plot.x.scale === "log2");
      if (i >= 0) {
        return `${value(plot.x, s.x[i])}, ${value(plot.y, s.y[i])}: ${value({ ...plot.y, scale: "linear" }, s.values?.[i])} ${s.name}`;
      }
    }
  }
  return "";
}

function nearest(s: SeriesModel, x: number, y: number, log: boolean): number {
  let best = -1;
  let least = Infinity;
  const place = (v: number) => (log ? Math.log(Math.max(v, Number.MIN_VALUE)) : v);
  const closest = (all: (number | null)[], v: number, f: (v: number) => number) => {
    let found: number | null = null;
    for (const a of all) if (a !== null && (found === null || Math.abs(f(a) - f(v)) < Math.abs(f(found) - f(v)))) found = a;
    return found;
  };
  const [cx, cy] = [closest(s.x, x, place), closest(s.y, y, (v) => v)];
  s.x.forEach((sx, i) => {
    const d = sx === cx && s.y[i] === cy ? 0 : Infinity;
    if (d < least) [least, best] = [d, i];
  });
  return best;
}

/** Draws a plot into `box`, `width` wide. */
export function draw(plot: PlotModel, box: HTMLElement, width: number, readout: (words: string) => void): uPlot {
  const theme = themeOf(box);
  const cells = plot.series.some((s) => s.kind === "heat");
  const painted = plot.series.every((s) => !own(s));
  const lanes = plot.y.scale === "category" ? Math.min(900, 90 + (plot.y.max - plot.y.min) * 30) : 340;
  const names = plot.marks.filter((m) => m.at !== "y" && m.name).length;
  const opts: uPlot.Options = {
    width,
    height: lanes,
    padding: [names > 0 ? 20 + 15 * Math.min(3, names - 1) : 10, 14, 4, 4],
    scales: { x: scaleOf(plot.x), y: scaleOf(plot.y) },
    axes: [axisOf(plot.x, "x", theme, cells), axisOf(plot.y, "y", theme, cells)],
    series: [
      { label: plot.x.label || "x", value: (_u, v) => value(plot.x, v) },
      ...plot.series.map((s, k) => seriesOf(plot, s, k, theme)),
    ],
    legend: { show: !painted || plot.series.length > 1, live: !painted },
    cursor: {
      drag: { x: true, y: true, uni: 30 },
      points: { size: 7 },
      bind: { dblclick: (u) => () => { reset(u, plot); return null; } },
    },
    hooks: {
      drawAxes: [(u) => under(u, plot, theme)],
      draw: [(u) => over(u, plot, theme)],
      setCursor: [(u) => {
        const { left, top } = u.cursor;
        if (!painted || left === undefined || top === undefined) return;
        readout(left < 0 ? "" : under_cursor(plot, u.posToVal(left, "x"), u.posToVal(top, "y")));
      }],
    },
  };
  return new uPlot(opts, columns(plot), box);
}

/** Shows all of a plot again. */
export function reset(u: uPlot, plot: PlotModel): void {
  u.batch(() => {
    u.setScale("x", { min: plot.x.min, max: plot.x.max });
    u.setScale("y", { min: plot.y.min, max: plot.y.max });
  });
}

/** The limits after zooming by `factor` (below 1: closer) and moving by a share of the width. */
export function moved(axis: AxisModel, min: number, max: number, factor: number, shift: number): [number, number] {
  const log = axis.scale === "log10" || axis.scale === "log2";
  const [to, from] = log ? [Math.log, Math.exp] : [(v: number) => v, (v: number) => v];
  const [a, b] = [to(min), to(max)];
  const middle = (a + b) / 2 + shift * (b - a);
  const half = ((b - a) / 2) * factor;
  return [from(middle - half), from(middle + half)];
}
