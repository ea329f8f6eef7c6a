/** Tiles: decoding, a cache, and which ones a window needs. */
import type { Data, Tile, Want } from "./types";

/** Bins of a tile; a bin of level l is 4^l ns. */
export const BINS = 512;
export const LEVELS = 28;

const NONE = { f64: new Float64Array(0), u32: new Uint32Array(0), f32: new Float32Array(0) };

export function itemsTile(start: Float64Array, end: Float64Array, id: Uint32Array, aux: Uint32Array): Tile {
  return { kind: 1, n: start.length, start, end, id, aux, count: NONE.u32, fill: NONE.f32 };
}
export function binsTile(id: Uint32Array, aux: Uint32Array, count: Uint32Array, fill: Float32Array): Tile {
  return { kind: 2, n: id.length, start: NONE.f64, end: NONE.f64, id, aux, count, fill };
}

/** Tiles as they come over the wire. */
export function decode(buffer: ArrayBuffer): Tile[] {
  const view = new DataView(buffer);
  const tiles: Tile[] = [];
  let at = 0;
  const take = (bytes: number) => { const part = buffer.slice(at, at + bytes); at += bytes; return part; };
  while (at + 8 <= buffer.byteLength) {
    const kind = view.getUint32(at, true), n = view.getUint32(at + 4, true);
    at += 8;
    if (kind === 1) {
      tiles.push(itemsTile(new Float64Array(take(8 * n)), new Float64Array(take(8 * n)), new Uint32Array(take(4 * n)), new Uint32Array(take(4 * n))));
    } else {
      tiles.push(binsTile(new Uint32Array(take(4 * n)), new Uint32Array(take(4 * n)), new Uint32Array(take(4 * n)), new Float32Array(take(4 * n))));
    }
  }
  return tiles;
}

/** The level whose bins are not wider than a pixel. */
export function levelOf(nsPerPixel: number): number {
  const level = Math.floor(Math.log2(Math.max(1, nsPerPixel)) / 2 + 1e-9);
  return Math.min(LEVELS, Math.max(0, level));
}

/** Length of a tile in ns. */
export const extent = (level: number): number => BINS * 4 ** level;

/** Bytes of tiles that are kept. */
const KEEP = 64 << 20;

const size = (t: Tile) => 64 + (t.kind === 1 ? 24 : 16) * t.n;

export class Tiles {
  private known = new Map<string, { tile: Tile; era: number }>();
  private bytes = 0;
  private wanted = new Map<string, Want>();
  private asked = new Set<string>();
  private timer = 0;
  private running = 0;
  /** Answers of before this are not kept. */
  private era = 0;

  constructor(private data: Data, private arrived: () => void) {}

  /** A tile, or nothing yet: then it is asked for. */
  get(lane: string, level: number, number: number): Tile | undefined {
    const key = `${lane} ${level} ${number}`;
    const known = this.known.get(key);
    if (known) {
      // Most recently used last.
      this.known.delete(key);
      this.known.set(key, known);
      if (known.era === this.era) return known.tile;
    }
    if (!this.asked.has(key)) {
      this.wanted.set(key, { lane, level, number });
      if (!this.timer) this.timer = window.setTimeout(() => { this.timer = 0; void this.flush(); }, 0);
    }
    return known?.tile;
  }

  /** A tile if it is here. */
  peek(lane: string, level: number, number: number): Tile | undefined {
    return this.known.get(`${lane} ${level} ${number}`)?.tile;
  }

  /** Nothing is under way. */
  get quiet(): boolean { return this.wanted.size === 0 && this.asked.size === 0; }

  /** There is more to be seen: every tile is asked for again, and shown as it was until it comes. */
  refresh(): void { this.era++; }

  private async flush(): Promise<void> {
    // What was passed over while zooming is no longer wanted: the latest come first.
    if (this.running >= 2 || this.wanted.size === 0) return;
    const all = [...this.wanted].slice(-400);
    this.wanted.clear();
    for (const [key] of all) this.asked.add(key);
    this.running++;
    const era = this.era;
    try {
      const tiles = await this.data.tiles(all.map(([, want]) => want));
      if (era === this.era) all.forEach(([key], i) => { const t = tiles[i]; if (t) this.put(key, t); });
    } catch {
      // The server said why; asked again at the next drawing.
      await new Promise((wait) => setTimeout(wait, 500));
    } finally {
      this.running--;
      for (const [key] of all) this.asked.delete(key);
      this.arrived();
      void this.flush();
    }
  }

  private put(key: string, tile: Tile): void {
    const before = this.known.get(key);
    if (before) this.bytes -= size(before.tile);
    this.known.delete(key);
    this.known.set(key, { tile, era: this.era });
    this.bytes += size(tile);
    for (const [old, k] of this.known) {
      if (this.bytes <= KEEP) break;
      this.known.delete(old);
      this.bytes -= size(k.tile);
    }
  }
}
