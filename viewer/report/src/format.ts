import type { AxisModel } from "./model";

/** At most so many digits after the point, without trailing zeros. */
function trim(v: number, digits: number): string {
  const s = v.toFixed(digits);
  const t = s.includes(".") ? s.replace(/0+$/, "").replace(/\.$/, "") : s;
  return t === "-0" ? "0" : t;
}

/** As `plot::scale::format_number`: three significant digits, large numbers as 20k, 3M. */
export function number(v: number): string {
  const a = Math.abs(v);
  if (a === 0) return "0";
  if (a >= 1e15) return v.toExponential(0);
  if (a >= 1e9) return `${trim(v / 1e9, 2)}G`;
  if (a >= 1e6) return `${trim(v / 1e6, 2)}M`;
  if (a >= 1e4) return `${trim(v / 1e3, 1)}k`;
  if (a >= 100) return trim(v, 0);
  if (a >= 10) return trim(v, 1);
  if (a >= 1e-4) return trim(v, Math.max(0, 2 - Math.floor(Math.log10(a))));
  return v.toExponential(0);
}

/** As `plot::scale::format_bytes`. */
export function bytes(v: number): string {
  for (const [unit, bits] of [["G", 30], ["M", 20], ["K", 10]] as const) {
    if (Math.abs(v) >= 2 ** bits) return `${trim(v / 2 ** bits, 1)}${unit}`;
  }
  return trim(v, 1);
}

/** A value under the cursor: enough digits to be worth reading. */
export function value(axis: AxisModel, v: number | null | undefined): string {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  if (axis.scale === "category") return axis.categories[Math.round(v)] ?? "–";
  if (axis.bytes) return bytes(v);
  if (Number.isInteger(v) && Math.abs(v) < 1e7) return String(v);
  return String(Number(v.toPrecision(5)));
}

/** Tick labels: the digits that tell neighbours apart. */
export function ticks(axis: AxisModel, at: number[]): string[] {
  if (axis.scale === "category") return at.map((v) => (Number.isInteger(v) ? axis.categories[v] ?? "" : ""));
  if (axis.bytes) return at.map(bytes);
  if (axis.scale !== "linear" || at.length < 2) return at.map(number);
  const step = at[1]! - at[0]!;
  return at.map((v) => {
    if (v === 0) return "0";
    const a = Math.max(Math.abs(v), step);
    const [factor, unit] = a >= 1e9 ? [1e9, "G"] : a >= 1e6 ? [1e6, "M"] : a >= 1e4 ? [1e3, "k"] : [1, ""];
    const digits = Math.min(9, Math.max(1, Math.ceil(-Math.log10(step / factor) + 1e-9)));
    return trim(v / factor, digits) + unit;
  });
}

/** Places for ticks on a logarithmic or category axis; `null` leaves a linear one to uPlot. */
export function places(axis: AxisModel, min: number, max: number, wanted: number): number[] | null {
  if (axis.scale === "linear") return null;
  if (axis.scale === "category") {
    const every = Math.max(1, Math.ceil((max - min) / wanted));
    const all = axis.categories.map((_, i) => i).filter((i) => i >= min && i <= max);
    return all.filter((_, k) => k % every === 0);
  }
  const base = axis.scale === "log2" ? 2 : 10;
  const log = (v: number) => Math.log(v) / Math.log(base);
  const spans = log(max) - log(min);
  const every = Math.max(1, Math.ceil(spans / wanted));
  const sets = base === 2 || every > 1 ? [[1]] : [[1, 2, 5], [1, 3], [1]];
  const multiples = sets.find((m) => spans * m.length <= wanted * 1.2) ?? [1];
  const out: number[] = [];
  for (let e = Math.floor(log(min)); e <= Math.ceil(log(max)); e++) {
    if (((e % every) + every) % every !== 0) continue;
    for (const m of multiples) {
      const v = m * base ** e;
      if (v >= min * 0.999999 && v <= max * 1.000001) out.push(v);
    }
  }
  if (out.length >= 2) return out;
  // Less than a decade: round steps.
  const rough = (max - min) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((f) => f * power >= rough) ?? 10);
  for (let v = Math.ceil(min / step) * step; v <= max; v += step) if (v > 0 && !out.includes(v)) out.push(v);
  return out.sort((a, b) => a - b);
}
