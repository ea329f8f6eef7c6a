/** Times as people read them. */

/** A length of time with three or four digits. */
export function length(ns: number): string {
  const sign = ns < 0 ? "\u2212" : "", v = Math.abs(ns);
  const of = (x: number, unit: string) => `${sign}${x >= 100 ? x.toFixed(x >= 1000 ? 0 : 1) : x.toFixed(x >= 10 ? 2 : 3)} ${unit}`;
  if (v < 1e3) return `${sign}${Number.isInteger(v) ? v : v.toFixed(1)} ns`;
  if (v < 1e6) return of(v / 1e3, "\u00b5s");
  if (v < 1e9) return of(v / 1e6, "ms");
  if (v < 120e9) return of(v / 1e9, "s");
  if (v < 7200e9) return of(v / 60e9, "min");
  return of(v / 3600e9, "h");
}

/** ns with separators, to be compared and copied. */
export const exact = (ns: number): string => `${Math.round(ns).toLocaleString("en-US").replaceAll(",", "\u202f")} ns`;

/** A moment as the trace prints it: seconds with nine decimals. `base` is the time of 0, in ns. */
export function moment(base: bigint, t: number, digits = 9): string {
  const all = base + BigInt(Math.round(t));
  const sign = all < 0n ? "-" : "", v = all < 0n ? -all : all;
  return `${sign}${v / 1000000000n}.${String(v % 1000000000n).padStart(9, "0").slice(0, digits)}`;
}

/** Steps of an axis: 1, 2, 5 · 10^n ns, at most `most` of them. */
export function step(span: number, most: number): number {
  const least = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least) ?? power * 10;
}

/** A time as typed: `1.5ms`, `200us`, `3` (µs). */
export function parse(text: string): number | null {
  const m = /^\s*(-?[\d.]+)\s*(ns|us|\u00b5s|ms|s)?\s*$/.exec(text);
  if (!m) return null;
  const n = Number(m[1]) * { ns: 1, us: 1e3, "\u00b5s": 1e3, ms: 1e6, s: 1e9 }[m[2] ?? "us"]!;
  return Number.isFinite(n) ? n : null;
}

export const count = (n: number): string => n.toLocaleString("en-US").replaceAll(",", "\u202f");
