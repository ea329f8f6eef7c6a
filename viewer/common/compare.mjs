// Screenshots against the committed ones, for both pages. The caller brings pixelmatch and pngjs.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** One font everywhere: DejaVu, which the drawings use too. */
export const fonts = fileURLToPath(new URL("fonts.conf", import.meta.url));

/** Share of pixels that may differ beyond antialiasing: below a word in small print. */
const SHARE = 0.0005;

/**
 * Compares a PNG with DIR/NAME.png, or writes it with UPDATE_SHOTS=1. Returns a sentence if they
 * differ, and leaves the new picture and the difference in OUT.
 */
export function compare({ pixelmatch, PNG }, dir, name, bytes, out) {
  const path = join(dir, `${name}.png`);
  if (process.env.UPDATE_SHOTS) {
    mkdirSync(dir, { recursive: true });
    // Small files: 16 steps of each colour, far below what counts as a difference, and no alpha.
    const picture = PNG.sync.read(bytes);
    for (let i = 0; i < picture.data.length; i++) picture.data[i] = Math.round(picture.data[i] / 17) * 17;
    writeFileSync(path, PNG.sync.write(picture, { colorType: 2, deflateLevel: 9 }));
    return "";
  }
  if (!existsSync(path)) return `${name}: ${path} is missing; UPDATE_SHOTS=1 writes it`;
  const [old, now] = [PNG.sync.read(readFileSync(path)), PNG.sync.read(bytes)];
  mkdirSync(out, { recursive: true });
  writeFileSync(join(out, `${name}.png`), bytes);
  if (old.width !== now.width || old.height !== now.height) return `${name}: ${now.width}x${now.height} instead of ${old.width}x${old.height}`;
  const diff = new PNG({ width: old.width, height: old.height });
  const n = pixelmatch(old.data, now.data, diff.data, old.width, old.height, { threshold: 0.15 });
  if (n <= SHARE * old.width * old.height) return "";
  writeFileSync(join(out, `${name}-diff.png`), PNG.sync.write(diff));
  return `${name}: ${n} pixels differ (${((100 * n) / (old.width * old.height)).toFixed(2)} %); see ${join(out, `${name}-diff.png`)}, and UPDATE_SHOTS=1 if it is meant`;
}
