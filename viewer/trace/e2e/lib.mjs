// Starts latlab view and a browser for the tests; ends both, whatever happens.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pixelmatch from "pixelmatch";
import { PNG } from "pngjs";
import { chromium } from "playwright-core";
import { compare, fonts } from "../../common/compare.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
export const top = join(here, "../../..");
export const latlab = process.env.LATLAB ?? join(top, "target/debug/latlab");
export const fixture = (name) => join(top, "fixtures/trace", name);
export const shots = process.env.SHOTS ?? join(here, "../build/shots");
export const scratch = mkdtempSync(join(tmpdir(), "latlab-view-"));
mkdirSync(shots, { recursive: true });
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));

/** Nothing, or how a page differs from the committed picture of it. */
export const looks = async (page, name) => {
  // The frame of the focus lies between pixels, and arrows of wake-ups are asked for a moment later.
  await page.evaluate(() => { document.activeElement?.blur(); return new Promise((done) => setTimeout(done, 300)); });
  await settled(page);
  return compare({ pixelmatch, PNG }, join(here, "../shots"), name, await page.screenshot(), shots);
};

const running = [];

/** Starts `latlab view`; its address, and how to end it. */
export async function serve(...args) {
  const child = spawn(latlab, ["view", "--json", ...args], { stdio: ["ignore", "pipe", "pipe"] });
  running.push(child);
  let text = "", errors = "";
  child.stderr.on("data", (d) => { errors += d; });
  const url = await new Promise((ready, fail) => {
    child.stdout.on("data", (d) => { text += d; if (text.includes("\n")) ready(JSON.parse(text).url); });
    child.on("exit", (code) => fail(new Error(`latlab view ended with ${code}: ${errors}`)));
  });
  return { url, pid: child.pid, stop: async () => { if (child.exitCode === null) { child.kill("SIGINT"); await once(child, "exit"); } return child.exitCode; } };
}

export async function browser(args = [], config = fonts) {
  const same = ["--force-color-profile=srgb", "--font-render-hinting=none", "--disable-lcd-text"];
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", ...same, ...args], env: { ...process.env, FONTCONFIG_FILE: config } });
}

/** Replies come up to a quarter of a second late, and the page's script has a fraction of the CPU: finds tests that
 * do not wait for what they look at (`SLOW=8 npm run e2e`). */
async function slow(context, page, factor) {
  await page.route(/\/api\//, async (r) => { await new Promise((done) => setTimeout(done, Math.random() * 250)); await r.fallback(); });
  await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: factor });
}

/** Opens a page and waits until it shows everything. Errors of the page are errors of the test. */
export async function open(context, url, { failing = false, wait = true, prepare = null } = {}) {
  const page = await context.newPage();
  // While working on the page: its files from there, without building latlab again.
  if (process.env.ASSETS) await page.route(/view\.(js|css)$/, (r) => r.fulfill({ path: join(process.env.ASSETS, new URL(r.request().url()).pathname.split("/").pop()) }));
  if (process.env.SLOW) await slow(context, page, Number(process.env.SLOW));
  await prepare?.(page);
  page.problems = [];
  page.on("pageerror", (e) => page.problems.push(String(e)));
  page.on("console", (m) => { if (m.type() === "error" && !failing) page.problems.push(m.text()); });
  await page.goto(url);
  if (wait) await settled(page);
  return page;
}

/** Until what is read so far is drawn: from then on the page can be used. */
export const usable = (page) => page.waitForFunction(() => window.latlab?.drawn && window.latlab.timeline.took.length > 0, null, { timeout: 60_000 });

export const settled = async (page) => {
  await page.waitForFunction(() => window.latlab?.quiet, null, { timeout: 60_000 });
  await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));
  await page.waitForFunction(() => window.latlab?.quiet);
};

export async function endAll() {
  for (const child of running) if (child.exitCode === null) child.kill("SIGKILL");
}
