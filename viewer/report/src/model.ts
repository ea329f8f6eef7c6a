/** A plot as `latlab_report::json` writes it. */
export interface PlotModel {
  id: string;
  title: string;
  x: AxisModel;
  y: AxisModel;
  series: SeriesModel[];
  marks: MarkModel[];
}

export type ScaleName = "linear" | "log10" | "log2" | "category";

export interface AxisModel {
  label: string;
  scale: ScaleName;
  categories: string[];
  bytes: boolean;
  min: number;
  max: number;
}

export type Kind = "line" | "step" | "points" | "bars" | "heat" | "spans";
type Numbers = (number | null)[];

export interface SeriesModel {
  name: string;
  kind: Kind;
  x: Numbers;
  y: Numbers;
  low?: Numbers;
  high?: Numbers;
  values?: Numbers;
  colors?: string[] | null;
  /** Of a heat map: smallest and largest value, and the colours between them. */
  least?: number | null;
  most?: number | null;
  ramp?: string[];
}

export interface MarkModel {
  at: "x" | "y" | "band";
  from: number | null;
  to?: number | null;
  name: string;
}

/** Whether a scale can show every value of the plot on that axis. */
export function canBeLogarithmic(plot: PlotModel, side: "x" | "y"): boolean {
  const axis = plot[side];
  if (axis.scale === "category" || axis.bytes) return false;
  if (plot.series.some((s) => s.kind === "spans" || s.kind === "heat")) return false;
  // Empty bins of a histogram lie on the floor; anything else has to be above zero.
  const filled = (s: SeriesModel) => side === "y" && (s.kind === "step" || s.kind === "bars");
  return plot.series.every((s) => s[side].every((v) => v === null || v > 0 || (v === 0 && filled(s))))
    && plot.series.some((s) => s[side].some((v) => v !== null && v > 0));
}

/** The same axis on another scale, with limits that suit it. */
export function rescaled(plot: PlotModel, side: "x" | "y", scale: ScaleName): AxisModel {
  const axis = plot[side];
  if (axis.scale === scale) return axis;
  const values = plot.series.flatMap((s) => [...s[side], ...(side === "y" ? [...(s.low ?? []), ...(s.high ?? [])] : [])])
    .filter((v): v is number => v !== null);
  const marks = plot.marks.flatMap((m) => (m.at === "y") === (side === "y") ? [m.from, m.to ?? null] : [])
    .filter((v): v is number => v !== null);
  let min = Infinity;
  let max = -Infinity;
  for (const v of [...values, ...marks]) {
    if (scale !== "linear" && v <= 0) continue;
    if (v < min) min = v;
    if (v > max) max = v;
  }
  if (scale === "linear") {
    if (side === "y") [min, max] = [Math.min(0, min), max + (max - Math.min(0, min)) * 0.04];
  } else if (side === "y") {
    [min, max] = [min >= 1 && min < 10 ? 0.7 : min * 0.6, max * 1.3];
  }
  if (!(max > min)) [min, max] = scale === "linear" ? [min - 1, min + 1] : [min / 2, min * 2];
  return { ...axis, scale, min, max };
}
