/**
 * Colours: of a task by its family, the same in every view; of states and functions.
 *
 * Hues: Okabe and Ito, "Color Universal Design" (2008), without yellow and black, as
 * `plot/palette.rs` of the report has them; lightness tells members of a family apart.
 */
import type { Info } from "./types";

const HUES = {
  light: [0x0072b2, 0xd55e00, 0x009e73, 0xa8508a, 0xb27a00, 0x3f9fd8],
  dark: [0x56b4e9, 0xf08a4b, 0x2fc79e, 0xde9cc4, 0xe6b333, 0x9cc7ff],
};
/** How far a colour is mixed with the ground: three members of a family, then the next families of the same hue. */
const SHADES = [0.2, 0.36, 0.5];

/** The family of a task: its name up to a number, a CPU or a device (`kworker/0:1` is a kworker). */
export const family = (comm: string): string => /^[^\d/:.\s-]+/.exec(comm)?.[0] ?? comm;

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

export const pack = ([r, g, b]: readonly number[]): number => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
export const css = (c: number): string => `rgb(${c & 255} ${(c >> 8) & 255} ${(c >> 16) & 255})`;
/** Relative luminance, 0 to 1 (WCAG 2.2). */
export function luminance(c: number): number {
  const part = (at: number) => { const v = ((c >> at) & 255) / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * part(0) + 0.7152 * part(8) + 0.0722 * part(16);
}
/** Black or white, whichever has the higher contrast on a colour: at least 4.5 on any. */
export const ink = (c: number): string => ((luminance(c) + 0.05) ** 2 > 1.05 * 0.05 ? "#000" : "#fff");

/** Colours of the present theme, remembered. */
export class Palette {
  private of = new Map<number, number>();
  private tasks = new Map<number, number>();
  private families = new Map<string, number>();
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
  private shade(hue: number, shade: number): number {
    const c = HUES[this.isDark ? "dark" : "light"][hue % HUES.light.length]!, part = SHADES[shade % SHADES.length]!;
    const mix = (at: number, ground: number) => Math.round(((c >> at) & 255) * (1 - part) + ground * part);
    return pack([mix(16, this.ground & 255), mix(8, (this.ground >> 8) & 255), mix(0, (this.ground >> 16) & 255)]);
  }
  byHash(h: number): number {
    let c = this.of.get(h);
    if (c === undefined) this.of.set(h, (c = this.shade(h % 997, (h >>> 16) % SHADES.length)));
    return c;
  }
  /** Gives each family of tasks a hue: those that ran longest get different ones. */
  assign(info: Info): void {
    const time = new Map<string, number>();
    const all = info.sources.flatMap((s) => s.tasks);
    for (const [, name, ns] of all) time.set(family(name), (time.get(family(name)) ?? 0) + ns);
    const order = new Map([...time].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name], i) => [name, i]));
    this.tasks.clear();
    this.families = new Map([...order].map(([name, at]) => [name, this.shade(at, Math.floor(at / HUES.light.length))]));
    for (const [pid, name] of all) {
      const at = order.get(family(name)) ?? 0;
      this.tasks.set(pid, this.shade(at, Math.floor(at / HUES.light.length) + hash(pid) % 2));
    }
  }
  task(pid: number): number { return pid === -1 ? this.rule : (this.tasks.get(pid) ?? this.byHash(hash(pid))); }
  /** The colour of a task that is known by name alone; nothing for what is no task. */
  comm(name: string): number | undefined { return this.families.get(family(name)); }
  name(n: number): number { return this.byHash(hash(n + 7919)); }
  /** Running, waiting, sleeping, blocked, gone, unknown. */
  state(s: number): number {
    const [light, darkOnes] = [[0x009e73, 0xe8b84a, 0xc4ccd3, 0xb84a00, 0x444444, 0x999999], [0x2fc79e, 0xe6b333, 0x4a5560, 0xf08a4b, 0x888888, 0x777777]];
    const rgb = (this.isDark ? darkOnes : light)[s] ?? 0x888888;
    return pack([(rgb >> 16) & 255, (rgb >> 8) & 255, rgb & 255]);
  }
}
