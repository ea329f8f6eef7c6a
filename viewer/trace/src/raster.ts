/**
 * From tiles to pixel columns. Every item that touches a column is counted in it, and a
 * column remembers what took most of it: what is shorter than a pixel is a density, never nothing.
 */
import { BINS } from "./tile";
import type { Tile } from "./types";

/** One lane's columns. */
export class Columns {
  /** What is drawn: colour, and the row from which it is. */
  color: Uint32Array; top: Int32Array;
  id: Uint32Array; aux: Uint32Array; fill: Float32Array; count: Float32Array; best: Float32Array; width: number;
  constructor(width: number) {
    this.width = width;
    this.id = new Uint32Array(width);
    this.aux = new Uint32Array(width);
    this.fill = new Float32Array(width);
    this.count = new Float32Array(width);
    this.best = new Float32Array(width);
    this.color = new Uint32Array(width);
    this.top = new Int32Array(width);
  }
  clear(): void {
    this.fill.fill(0);
    this.count.fill(0);
    this.best.fill(-1);
  }
  private add(c: number, share: number, weight: number, id: number, aux: number, count: number): void {
    this.fill[c] += share;
    this.count[c] += count;
    if (weight > this.best[c]) { this.best[c] = weight; this.id[c] = id; this.aux[c] = aux; }
  }

  /**
   * Draws a tile. `from` is the time of the left edge, `x0`…`x1` the columns that it may touch;
   * `taken` says what counts as there (idle and sleeping do not).
   */
  draw(tile: Tile, tileStart: number, binLength: number, from: number, nsPerPixel: number, x0: number, x1: number, taken: (id: number) => boolean): void {
    const lo = Math.max(0, x0), hi = Math.min(this.width, x1) - 1;
    if (hi < lo) return;
    if (tile.kind === 2 && binLength <= nsPerPixel) {
      // A bin that lies across two columns is counted in its first.
      const scale = 1 / nsPerPixel, left = (tileStart - from) * scale, wide = binLength * scale;
      const first = Math.max(0, Math.floor((lo - left) / wide)), last = Math.min(BINS, Math.ceil((hi + 1 - left) / wide));
      const { count, fill, id, aux } = tile;
      for (let b = first; b < last; b++) {
        const n = count[b];
        if (n === 0) continue;
        const c = Math.floor(left + b * wide);
        if (c < lo || c > hi) continue;
        const share = wide * fill[b];
        this.fill[c] += share;
        this.count[c] += n;
        if (share > this.best[c]) { this.best[c] = share; this.id[c] = id[b]; this.aux[c] = aux[b]; }
      }
      return;
    }
    if (tile.kind === 2) {
      for (let b = 0; b < BINS; b++) {
        const count = tile.count[b];
        if (count === 0) continue;
        const a = (tileStart + b * binLength - from) / nsPerPixel, z = a + binLength / nsPerPixel;
        this.spread(a, z, lo, hi, tile.fill[b], tile.id[b], tile.aux[b], count);
      }
      return;
    }
    const { start, end, id, aux } = tile;
    for (let i = 0; i < tile.n; i++) {
      if (!taken(id[i])) continue;
      this.spread((start[i] - from) / nsPerPixel, (end[i] - from) / nsPerPixel, lo, hi, 1, id[i], aux[i], 1);
    }
  }

  private spread(a: number, z: number, lo: number, hi: number, fill: number, id: number, aux: number, count: number): void {
    if (a > hi + 1 || z < lo) return;
    const first = Math.max(lo, Math.floor(a)), last = Math.min(hi, Math.max(Math.ceil(z) - 1, Math.floor(a)));
    if (first === last) {
      const share = (Math.min(z, first + 1) - Math.max(a, first)) * fill;
      this.add(first, share, share, id, aux, count);
      return;
    }
    for (let c = first; c <= last; c++) {
      const share = (Math.min(z, c + 1) - Math.max(a, c)) * fill;
      this.add(c, share, share, id, aux, count);
    }
  }
}
