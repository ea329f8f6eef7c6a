// The first screen of a report of each kind against the committed pictures; that no page scrolls
// sideways at 1280 and 390 pixels; that sections open by link, without the script, and on paper.
// Usage: node e2e/shots.mjs DIR, where DIR has the pages; UPDATE_SHOTS=1 writes the pictures anew.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pixelmatch from "pixelmatch";
import { PNG } from "pngjs";
import { chromium } from "playwright-core";
import { compare, fonts } from "../../common/compare.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const dir = process.argv[2], out = process.env.SHOTS ?? join(here, "../build/shots");
/** What else is taken of a page beside its first screen. */
const NARROW = ["wakeup", "compare"], DARK = ["why-hunt"];
let passed = 0, failed = 0;
const result = (name, problem) => {
  if (problem) failed++;
  else passed++;
  if (problem) console.log(`FAIL ${name}: ${problem}`);
};

const chrome = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb", "--font-render-hinting=none", "--disable-lcd-text"],
  env: { ...process.env, FONTCONFIG_FILE: fonts },
});

async function look(name, { width, height, scheme = "light", as = name }) {
  // Half of the size: small files, and the layout is still seen.
  const context = await chrome.newContext({ viewport: { width, height }, deviceScaleFactor: 0.5, colorScheme: scheme, reducedMotion: "reduce" });
  const page = await context.newPage(), problems = [];
  page.on("pageerror", (e) => problems.push(String(e)));
  page.on("console", (m) => { if (m.type() === "error") problems.push(m.text()); });
  await page.goto(`file://${join(dir, `${name}.html`)}`);
  await page.evaluate(() => document.fonts.ready.then(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  result(`${as}, width`, wide > 0 ? `${wide} pixels wider than the window of ${width}` : "");
  result(`${as}, console`, problems.join("; "));
  return { context, page };
}

const names = readdirSync(dir).filter((f) => f.endsWith(".html")).map((f) => f.slice(0, -5)).sort();
for (const name of names) {
  const views = [{ width: 1280, height: 1000 }];
  views.push({ width: 390, height: 1000, as: `${name}-narrow`, only: !NARROW.includes(name) });
  if (DARK.includes(name)) views.push({ width: 1280, height: 1000, scheme: "dark", as: `${name}-dark` });
  for (const view of views) {
    const { context, page } = await look(name, view);
    const as = view.as ?? name;
    if (!view.only) result(as, compare({ pixelmatch, PNG }, join(here, "../shots"), as, await page.screenshot(), out));
    await context.close();
  }
}

// A link opens its section; paper has every section, also without the script.
for (const script of [true, false]) {
  const context = await chrome.newContext({ javaScriptEnabled: script });
  const page = await context.newPage();
  await page.goto(`file://${join(dir, "wakeup.html")}`);
  const machine = page.locator("#machine .pairs").first();
  result("closed at first", (await machine.isVisible()) ? "the machine is shown at once" : "");
  await page.locator("#machine summary").click();
  result("a click opens", (await machine.isVisible()) ? "" : "the machine is not shown");
  await page.locator("#machine summary").click();
  await page.emulateMedia({ media: "print" });
  const pages = (await page.pdf()).toString("latin1").split("/Type /Page\n").length - 1;
  result(`paper, script ${script}`, pages >= 3 ? "" : `${pages} pages: the sections are closed`);
  if (script) {
    await page.emulateMedia({ media: "screen" });
    await page.goto(`file://${join(dir, "wakeup.html")}#machine`);
    result("a link opens", (await machine.isVisible()) ? "" : "the machine is not shown");
  }
  await context.close();
}
await chrome.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
