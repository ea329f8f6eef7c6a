/** The stretch of time that is shown: zooming and moving it. Times are ns after the view's zero. */
export interface Span { from: number; to: number }

/** Narrowest window, ns. */
export const NARROWEST = 10;

/** Zooms by a factor (below 1: closer) round a time that stays where it is. */
export function zoom(s: Span, factor: number, at: number, all: Span): Span {
  const widest = (all.to - all.from) * 1.1 + 1000;
  const width = Math.min(widest, Math.max(NARROWEST, (s.to - s.from) * factor));
  const share = (at - s.from) / (s.to - s.from);
  return keep({ from: at - share * width, to: at + (1 - share) * width }, all);
}

export function move(s: Span, by: number, all: Span): Span {
  return keep({ from: s.from + by, to: s.to + by }, all);
}

export function center(s: Span, at: number, all: Span): Span {
  const half = (s.to - s.from) / 2;
  return keep({ from: at - half, to: at + half }, all);
}

/** At least a part of the trace stays in sight. */
export function keep(s: Span, all: Span): Span {
  const width = s.to - s.from;
  if (s.to < all.from + width * 0.02) return { from: all.from - width * 0.98, to: all.from + width * 0.02 };
  if (s.from > all.to - width * 0.02) return { from: all.to - width * 0.02, to: all.to + width * 0.98 };
  return s;
}
