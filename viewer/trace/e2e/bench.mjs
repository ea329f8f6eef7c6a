// How fast latlab view is on a large file: time until the page shows it, frames while moving and zooming,
// memory of the server and of the page. Usage: LATLAB=… node e2e/bench.mjs FILE [PART…], parts: move zoom search.
// The display's rhythm of 60 a second is switched off: a frame's length is what it costs to make one.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { browser, endAll, open, serve, settled, shots, usable } from "./lib.mjs";

const file = process.argv[2], parts = process.argv.slice(3);
const does = (part) => parts.length === 0 || parts.includes(part);
const chrome = await browser(["--enable-precise-memory-info", "--js-flags=--expose-gc", "--disable-frame-rate-limit", "--disable-gpu-vsync"]);
const context = await chrome.newContext({ viewport: { width: 1600, height: 950 } });
// The browser is up, as a user's is: what is timed is the command and the page.
await (await context.newPage()).close();

const begin = performance.now();
const view = await serve("--no-open", file);
const address = performance.now() - begin;
const page = await open(context, view.url, { wait: false });
await usable(page);
const shown = performance.now() - begin, part = await page.evaluate(() => latlab.list.total);
await settled(page);
const all = performance.now() - begin;
const status = readFileSync(`/proc/${view.pid}/status`, "utf8");
const memory = (text) => Object.fromEntries([...text.matchAll(/(VmHWM|VmRSS|RssAnon|RssFile):\s+(\d+)/g)].map((m) => [m[1], Math.round(m[2] / 1024)]));
console.log(`address after ${address.toFixed(0)} ms; page can be used after ${shown.toFixed(0)} ms (${part} events), shows everything after ${all.toFixed(0)} ms (${await page.evaluate(() => latlab.list.total)} events)`);
console.log(`server when it shows: ${JSON.stringify(memory(status))} MB`);
await page.screenshot({ path: join(shots, "bench.png") });

/** Moves and zooms for a while, one step a frame; lengths of frames, and of drawing alone. */
const run = (name, steps, body) => page.evaluate(async ([steps, source]) => {
  const step = eval(source), frames = [];
  latlab.timeline.took.length = 0;
  let last = await new Promise(requestAnimationFrame);
  for (let i = 0; i < steps; i++) {
    step(i);
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return { frames, took: [...latlab.timeline.took] };
}, [steps, `(${body})`]).then(({ frames, took }) => {
  const q = (list, p) => { const s = [...list].sort((a, b) => a - b); return s[Math.min(s.length - 1, Math.floor(p * s.length))]; };
  const words = (list) => `median ${q(list, 0.5).toFixed(1)}, 99 % ${q(list, 0.99).toFixed(1)}, worst ${Math.max(...list).toFixed(1)} ms`;
  console.log(`${name}: frames ${words(frames)}; drawing ${words(took)}`);
});

const zoomTo = async (share) => {
  await page.evaluate((share) => { const a = latlab.all, w = (a.to - a.from) * share, m = (a.from + a.to) / 2; latlab.show({ from: m - w / 2, to: m + w / 2 }); }, share);
  await settled(page);
};
const moving = (i) => { const s = latlab.span, by = (s.to - s.from) * 0.01 * (i % 100 < 50 ? 1 : -1); latlab.show({ from: s.from + by, to: s.to + by }); };
for (const share of does("move") ? [0.5, 0.05, 0.005, 0.00001] : []) {
  await zoomTo(share);
  await run(`moving over ${share * 100} % of the trace`, 150, moving.toString());
}
if (does("zoom")) {
  await zoomTo(1);
  await run("zooming from everything to a thousandth and back", 200, ((i) => {
    const s = latlab.span, f = i < 100 ? 0.933 : 1 / 0.933, m = s.from + (s.to - s.from) * 0.4, w = (s.to - s.from) * f;
    latlab.show({ from: m - w * 0.4, to: m + w * 0.6 });
  }).toString());
}
if (does("search")) await searching();

async function searching() {
  const search = performance.now();
  await page.evaluate(async () => { document.getElementById("search").value = "sched_switch : next_prio < 100"; await latlab.search(); });
  console.log(`search of all events by an expression: ${(performance.now() - search).toFixed(0)} ms`);
  const scroll = performance.now();
  await page.evaluate(async () => { latlab.tab("events"); for (let i = 0; i < 50; i++) await latlab.list.fetch(Math.floor(latlab.list.total * i / 50)); });
  console.log(`50 places of the event list: ${((performance.now() - scroll) / 50).toFixed(1)} ms each`);
}
await settled(page);
const heap = await page.evaluate(() => { const before = performance.memory.usedJSHeapSize; gc?.(); return [before, performance.memory.usedJSHeapSize].map((n) => Math.round(n / 1e6)); });
const cdp = await context.newCDPSession(page);
const buffers = await cdp.send("Runtime.getHeapUsage");
console.log(`browser heap ${heap[0]} MB, ${heap[1]} MB after collection; with array buffers ${Math.round((buffers.usedSize + (buffers.backingStorageSize ?? 0)) / 1e6)} MB`);
console.log(`server at the end: ${JSON.stringify(memory(readFileSync(`/proc/${view.pid}/status`, "utf8")))} MB`);
console.log(page.problems.length ? `problems: ${page.problems}` : "no problem on the page");
await view.stop();
endAll();
await chrome.close();
