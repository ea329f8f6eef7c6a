/** Colours: of a task by its number and name, the same in every view; of states and functions. */
export const dark = (): boolean => {
  const chosen = document.documentElement.dataset.theme;
  return (chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
};

/** A number's hash: neighbours get far apart hues. */
export function hash(n: number): number {
  let h = Math.imul(n ^ 0x9e3779b9, 0x85ebca6b) >>> 0;
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35) >>> 0;
  return (h ^ (h >>> 16)) >>> 0;
}
export function hashText(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193) >>> 0;
  return h;
}

/** `[r, g, b]` of a hue (degrees), saturation and lightness (0 to 1). */
export function hsl(h: number, s: number, l: number): [number, number, number] {
  const a = s * Math.min(l, 1 - l);
  const f = (n: number) => {
    const k = (n + h / 30) % 12;
    return Math.round(255 * (l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [f(0), f(8), f(4)];
}

export const pack = ([r, g, b]: readonly number[]): number => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
export const css = (c: number): string => `rgb(${c & 255} ${(c >> 8) & 255} ${(c >> 16) & 255})`;
/** Black or white, whichever can be read on a colour. */
export const ink = (c: number): string =>
  0.299 * (c & 255) + 0.587 * ((c >> 8) & 255) + 0.114 * ((c >> 16) & 255) > 130 ? "#000" : "#fff";

/** Colours of the present theme, remembered. */
export class Palette {
  private of = new Map<number, number>();
  ground: number; rule: number; dim: string; text: string; accent: string; bad: string; ruleCss: string;
  constructor(readonly isDark: boolean) {
    const style = getComputedStyle(document.documentElement);
    const get = (name: string) => style.getPropertyValue(name).trim();
    const hex = (t: string) => [1, 3, 5].map((i) => parseInt(t.slice(i, i + 2), 16) || 0);
    this.ground = pack(hex(get("--ground") || "#ffffff"));
    this.rule = pack(hex(get("--rule") || "#d9dee3"));
    this.ruleCss = get("--rule");
    this.dim = get("--dim");
    this.text = get("--ink");
    this.accent = get("--accent");
    this.bad = get("--bad");
  }
  byHash(h: number): number {
    let c = this.of.get(h);
    if (c === undefined) {
      const hue = h % 360, s = 0.5 + ((h >>> 9) % 30) / 100, l = (this.isDark ? 0.5 : 0.56) + (((h >>> 16) % 14) - 7) / 100;
      c = pack(hsl(hue, s, l));
      this.of.set(h, c);
    }
    return c;
  }
  task(pid: number): number { return pid === -1 ? this.rule : this.byHash(hash(pid)); }
  name(n: number): number { return this.byHash(hash(n + 7919)); }
  /** Running, waiting, sleeping, blocked, gone, unknown. */
  state(s: number): number {
    const [light, darkOnes] = [[0x2a9d5c, 0xe69f00, 0xb8c0c8, 0xc0392b, 0x444444, 0x999999], [0x35c97a, 0xf0b429, 0x4a5560, 0xe8604f, 0x888888, 0x777777]];
    const rgb = (this.isDark ? darkOnes : light)[s] ?? 0x888888;
    return pack([(rgb >> 16) & 255, (rgb >> 8) & 255, rgb & 255]);
  }
}
