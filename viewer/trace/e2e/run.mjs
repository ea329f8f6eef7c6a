// The page in a real browser: a real trace is opened, zoomed, searched, marked, filtered; late wake-ups are
// followed; bad input is said on the page; nobody else is answered. Screenshots go to build/shots.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { app, chrome, context, lanes, line, score, shot, span, test, text, to, waking, written } from "./kit.mjs";
import { browser, endAll, fixture, latlab, looks, open, scratch, serve, settled, shots, usable } from "./lib.mjs";

/** How many different colours a lane shows. */
const colours = (page, key) => app(page, (k) => {
  const t = latlab.timeline, lane = t.lanes.findIndex((l) => l.key === k), y = t.tops[lane] - t.scroller.scrollTop + t.lanes[lane].height - 3;
  const ratio = t.canvas.width / t.canvas.clientWidth, data = t.ctx.getImageData(0, Math.round(y * ratio), t.canvas.width, 1).data;
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
  return seen.size;
}, key);

/** A request as no browser would send it. */
const raw = (url, { path, headers = {}, method = "GET" } = {}) => new Promise((done, fail) => {
  const u = new URL(url);
  const r = http.request({ host: u.hostname, port: u.port, path: path ?? u.pathname, method, headers }, (reply) => {
    let body = "";
    reply.on("data", (d) => { body += d; });
    reply.on("end", () => done({ status: reply.statusCode, headers: reply.headers, body }));
  });
  r.on("error", fail);
  r.end();
});

const server = await serve("--no-open", fixture("f6.dat"));

await test("a real trace is drawn, lane by lane", async () => {
  const page = await open(context, server.url);
  const names = await lanes(page);
  for (const lane of ["0.cpu0.run", "0.cpu1.run", "0.cpu0.irq0", "0.cpu0.soft0", "0.cpu1.ev", "0.timers"]) assert.ok(names.includes(lane), `${lane} of ${names}`);
  assert.ok(names.some((n) => /^0\.task\d+$/.test(n)), "tasks are chosen by themselves");
  assert.ok(await colours(page, "0.cpu0.run") >= 4, "several tasks are seen on CPU 0");
  assert.equal(await app(page, () => latlab.list.total), 1983);
  assert.equal(await page.locator(".row").first().locator(".n").innerText(), "0");
  assert.deepEqual(page.problems, []);
  await shot(page, "whole");
  await page.close();
});

await test("zooming by keys, wheel and ruler, from everything to nanoseconds", async () => {
  const page = await open(context, server.url);
  const all = await span(page), canvas = page.locator("canvas"), box = await canvas.boundingBox();
  await page.locator(".timeline").focus();
  await page.keyboard.press("w");
  const closer = await span(page);
  assert.ok(closer.to - closer.from < (all.to - all.from) * 0.75);
  await page.keyboard.press("d");
  assert.ok((await span(page)).from > closer.from);
  await page.keyboard.press("ArrowLeft");
  assert.ok(Math.abs((await span(page)).from - closer.from) < 1);
  await page.mouse.move(box.x + 400, box.y + 100);
  const at = await app(page, () => latlab.timeline.time(400));
  for (let i = 0; i < 12; i++) await page.mouse.wheel(0, -100);
  await page.waitForFunction((w) => latlab.span.to - latlab.span.from < w, (closer.to - closer.from) / 5);
  await settled(page);
  const here = await app(page, () => latlab.timeline.time(400));
  assert.ok(Math.abs(here - at) < (all.to - all.from) / 1000, "the place under the pointer stays");
  await page.mouse.move(box.x + 300, box.y + 8);
  await page.mouse.down();
  await page.mouse.move(box.x + 500, box.y + 8, { steps: 4 });
  await page.mouse.up();
  await settled(page);
  await shot(page, "zoomed");
  for (let i = 0; i < 60; i++) await page.keyboard.press("w");
  const narrow = await span(page);
  assert.ok(Math.abs(narrow.to - narrow.from - 10) < 0.01, "ten nanoseconds");
  await page.keyboard.press("0");
  const again = await span(page);
  assert.ok(Math.abs(again.to - again.from - (all.to - all.from)) < 1);
  assert.deepEqual(page.problems, []);
  await page.close();
});

await test("touch: one finger moves, two zoom", async () => {
  const phone = await chrome.newContext({ viewport: { width: 420, height: 800 }, hasTouch: true });
  const page = await open(phone, server.url);
  for (let i = 0; i < 5; i++) await page.locator(".timeline").press("w");
  await settled(page);
  const before = await span(page), box = await page.locator("canvas").boundingBox();
  const cdp = await phone.newCDPSession(page);
  const touch = (type, ...points) => cdp.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y], id) => ({ x: box.x + x, y: box.y + y, id })) });
  await touch("touchStart", [200, 100]);
  await touch("touchMove", [150, 100]);
  await touch("touchMove", [100, 100]);
  await touch("touchEnd");
  await page.waitForFunction((from) => latlab.span.from > from, before.from);
  const moved = await span(page);
  await touch("touchStart", [100, 100], [140, 100]);
  await touch("touchMove", [60, 100], [180, 100]);
  await touch("touchMove", [20, 100], [220, 100]);
  await touch("touchEnd");
  await page.waitForFunction((wide) => latlab.span.to - latlab.span.from < wide * 0.5, moved.to - moved.from);
  await shot(page, "phone");
  assert.deepEqual(page.problems, []);
  await phone.close();
});

await test("list and timeline follow each other", async () => {
  const page = await open(context, server.url);
  await page.locator(".row").nth(5).click();
  assert.equal(await app(page, () => latlab.selected.row), 5);
  await page.locator(".list").focus();
  await page.keyboard.press("End");
  await page.waitForFunction(() => latlab.selected.row === 1982);
  const box = await page.locator("canvas").boundingBox();
  const y = await app(page, () => { const t = latlab.timeline, i = t.lanes.findIndex((l) => l.key === "0.cpu1.run"); return t.tops[i] + 10; });
  await page.mouse.click(box.x + 600, box.y + y);
  await page.waitForFunction(() => latlab.selected.row !== 1982);
  const { time, wanted } = await app(page, () => ({ time: latlab.selected.time, wanted: latlab.timeline.time(600), npp: latlab.timeline.nsPerPixel }));
  assert.ok(Math.abs(time - wanted) < 5e7, "the list shows what was clicked");
  assert.equal(await page.locator(".row.selected").count(), 1);
  await page.mouse.dblclick(box.x + 900, box.y + y);
  await settled(page);
  assert.equal(await page.locator(".list").getAttribute("aria-rowcount"), "1983");
  await page.close();
});

await test("search by expression and by text, forward and back", async () => {
  const page = await open(context, server.url);
  await page.locator("#search").fill("sched_switch : next_comm ~ \"rustc*\"");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => latlab.selected);
  const hits = Number((await text(page, ".found")).replace(/\D/g, ""));
  const told = execFileSync(latlab, ["report", fixture("f6.dat"), "-F", "sched_switch : next_comm ~ \"rustc*\""]).toString().trim().split("\n").length - 1;
  assert.equal(hits, told, "as many as latlab report finds");
  const first = await app(page, () => latlab.selected.row);
  await page.locator(".timeline").focus();
  await page.keyboard.press("n");
  await page.waitForFunction((r) => latlab.selected.row > r, first);
  await page.keyboard.press("p");
  await page.waitForFunction((r) => latlab.selected.row === r, first);
  assert.ok((await lanes(page)).includes("0.set"), "matches have a lane");
  await page.locator("#only").check();
  await page.waitForFunction((n) => latlab.list.total === n, hits);
  await settled(page);
  await shot(page, "search");
  await page.locator("#search-kind").selectOption("text");
  await page.locator("#search").fill("hackbench.*sched_waking");
  await page.keyboard.press("Enter");
  await page.waitForFunction((n) => latlab.list.total !== n && latlab.list.total > 0, hits);
  await page.locator("#search-kind").selectOption("expression");
  await page.locator("#search").fill("sched_switch : no_such_field == 1");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /no_such_field/.test(document.querySelector(".trouble").textContent));
  assert.equal(await text(page, ".found"), "");
  await page.close();
});

await test("markers A and B, and the difference to the nanosecond", async () => {
  const page = await open(context, server.url);
  const box = await page.locator("canvas").boundingBox();
  await page.keyboard.down("Shift");
  await page.mouse.click(box.x + 200, box.y + 120);
  await page.keyboard.up("Shift");
  await page.keyboard.down("Control");
  await page.mouse.click(box.x + 700, box.y + 120);
  await page.keyboard.up("Control");
  const words = await text(page, "output.markers");
  const { a, b } = await app(page, () => ({ a: latlab.session.a, b: latlab.session.b }));
  assert.ok(b > a);
  assert.ok(words.replace(/\D/g, " ").includes(" ") && words.includes("B\u2212A"), words);
  assert.ok(words.includes(`(${Math.round(b - a).toLocaleString("en-US").replaceAll(",", "\u202f")} ns)`), words);
  // The same by keys, at the selected event.
  await page.locator(".row").nth(3).click();
  await page.locator(".timeline").focus();
  await page.keyboard.press("[");
  assert.equal(await app(page, () => latlab.session.a), await app(page, () => latlab.selected.time));
  await page.keyboard.press("m");
  await page.waitForFunction((a) => new URLSearchParams(location.hash.slice(1)).get("a") === String(Math.round(a * 1000) / 1000), await app(page, () => latlab.session.a));
  // What is selected and the markers are copied as text.
  await page.keyboard.press("c");
  const shown = await app(page, () => ({
    cells: [...latlab.box.detail.querySelectorAll("span")].map((s) => s.textContent),
    markers: latlab.box.markers.textContent,
  }));
  assert.ok(shown.cells.length > 3 && shown.markers.includes("B\u2212A"), JSON.stringify(shown));
  await page.waitForFunction(() => navigator.clipboard.readText().then((t) => t !== ""));
  assert.equal(await app(page, () => navigator.clipboard.readText()), `${shown.cells.join("\t")}\n${shown.markers}`);
  // The address has it all: another page shows the same.
  const other = await open(context, page.url());
  assert.deepEqual(await span(other), await span(page).then((s) => ({ from: Math.round(s.from * 1000) / 1000, to: Math.round(s.to * 1000) / 1000 })));
  assert.equal(await text(other, "output.markers"), await text(page, "output.markers"));
  await shot(other, "markers");
  await page.close();
  await other.close();
});

await test("kinds, tasks and CPUs are hidden and shown", async () => {
  const page = await open(context, server.url);
  await page.getByRole("tab", { name: "Show and hide" }).click();
  const total = await app(page, () => latlab.list.total);
  const row = page.locator("tr[data-name='sched:sched_switch']");
  const n = Number((await row.locator(".n").innerText()).replace(/\D/g, ""));
  await row.locator("input").uncheck();
  await page.waitForFunction((want) => latlab.list.total === want, total - n);
  await page.getByLabel("Show CPU 1").uncheck();
  await page.waitForFunction(() => !latlab.timeline.lanes.some((l) => l.cpu === 1));
  await shot(page, "hide");
  await page.getByRole("button", { name: "Show everything" }).click();
  await page.waitForFunction((want) => latlab.list.total === want, total);
  const hide = page.locator(".label.run button").first();
  await page.locator(".label.run").first().hover();
  await hide.click();
  assert.ok(!(await lanes(page)).includes("0.cpu0.run"));
  await page.getByRole("button", { name: "Show 1 hidden lanes" }).click();
  assert.ok((await lanes(page)).includes("0.cpu0.run"));
  await page.close();
});

await test("latency between two events, and the worst ones", async () => {
  const page = await open(context, server.url);
  await page.getByRole("tab", { name: "Latency" }).click();
  await page.getByRole("button", { name: "Measure" }).click();
  await page.locator("#worst-first").waitFor();
  const worst = Number((await page.locator("#worst-first td").first().innerText()).replace(/\D/g, ""));
  const max = Number((await page.locator(".latency-panel tbody tr").first().locator("td").nth(6).innerText()).replace(/\D/g, ""));
  assert.equal(worst, max);
  await page.locator("#worst-first").click();
  await page.waitForFunction((w) => Math.abs(latlab.session.b - latlab.session.a - w) < 2, worst);
  await settled(page);
  assert.equal(await page.locator(".u-wrap").count(), 2, "histogram and plot over time");
  await shot(page, "latency");
  assert.deepEqual(page.problems, []);
  await page.close();
});

await test("a late wake-up: found, followed, its budget beside an on-time one", async () => {
  const page = await open(context, server.url);
  await page.getByRole("tab", { name: "Late wake-ups" }).click();
  const pid = await app(page, () => latlab.info.sources[0].tasks.filter((t) => t[1] === "hackbench").sort((a, b) => b[3] - a[3])[0][0]);
  await page.locator("#late-task").selectOption(String(pid));
  await page.locator("#late-limit").fill("20us");
  await page.getByRole("button", { name: "Find" }).click();
  await page.waitForFunction(() => latlab.late.list.some((w) => w.late));
  await page.locator(".timeline").focus();
  await page.keyboard.press("l");
  await settled(page);
  assert.equal(await page.locator(".budget").isVisible(), true);
  const w = await app(page, () => { const w = latlab.late.list.find((k) => k.late); return { long: w.to - w.from, parts: w.parts.reduce((s, p) => s + p.to - p.from, 0) }; });
  assert.equal(w.parts, w.long, "the parts add up to the latency");
  assert.ok(await page.locator(".bar > span").count() >= 2);
  assert.ok((await lanes(page)).includes("0.late"));
  await shot(page, "late");
  await page.keyboard.press("l");
  await page.close();
});

await test("a trace is looked at while it is read", async () => {
  let first = true, go = () => {};
  const looked = new Promise((done) => { go = done; });
  const prepare = async (page) => {
    // What the server says half way through a large file.
    await page.route(/api\/info$/, async (route) => {
      const response = await route.fetch(), json = await response.json(), [source] = json.sources;
      if (first) { json.ready = false; json.handed = 0; source.length = Math.floor(source.length / 2); source.events = 1000; }
      first = false;
      await route.fulfill({ response, json });
    });
    await page.route(/api\/status$/, async (route) => { await looked; await route.continue(); });
  };
  const page = await open(context, server.url, { wait: false, prepare });
  await usable(page);
  assert.equal(await app(page, () => latlab.list.total), 1000);
  assert.ok(await app(page, () => latlab.all.to > latlab.info.sources[0].length * 1.9), "room for what comes");
  await page.locator(".timeline").press("w");
  const close = await span(page);
  await page.locator("#search").fill("sched_waking");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => latlab.selected);
  await shot(page, "growing");
  go();
  await settled(page);
  assert.equal(await app(page, () => latlab.list.total), 1983);
  assert.deepEqual(await span(page), close, "where the user looks stays");
  assert.equal(await text(page, ".reading"), "");
  assert.ok(await app(page, () => latlab.info.sources[0].whole === latlab.info.sources[0].length));
  assert.deepEqual(page.problems, []);
  await page.close();
});

await test("light and dark, print, and what a screen reader is told", async () => {
  const night = await chrome.newContext({ viewport: { width: 1200, height: 800 }, colorScheme: "dark" });
  const page = await open(night, server.url);
  await shot(page, "dark");
  const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.getByRole("button", { name: "Light or dark" }).click();
  const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.notEqual(dark, light);
  assert.equal(await page.getByRole("grid", { name: "Events" }).count(), 1);
  assert.equal(await page.getByRole("row").first().getAttribute("aria-rowindex"), "1");
  assert.equal(await page.getByRole("tab", { selected: true }).innerText(), "Events");
  const unnamed = await page.evaluate(() => [...document.querySelectorAll("button, input, select, a")].filter((e) => !e.hidden && !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length)).map((e) => e.outerHTML));
  assert.deepEqual(unnamed, []);
  const pdf = await page.pdf({ format: "A4" });
  assert.ok(pdf.length > 10_000, "the print has the timeline's picture");
  writeFileSync(join(shots, "print.pdf"), pdf);
  await night.close();
});

await test("keyboard only: from the first key to a marked event", async () => {
  const page = await open(context, server.url);
  await page.keyboard.press("/");
  await page.keyboard.type("irq_vectors");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => latlab.selected);
  await page.keyboard.press("Escape");
  await page.keyboard.press("f");
  await page.keyboard.press("[");
  await page.keyboard.press("n");
  await page.waitForFunction(() => latlab.selected.time !== latlab.session.a);
  await page.keyboard.press("]");
  assert.ok(await app(page, () => latlab.session.b > latlab.session.a));
  await page.keyboard.press("e");
  await page.keyboard.press("ArrowDown");
  await page.close();
});

await test("only the page itself is answered", async () => {
  const u = new URL(server.url), host = u.host, ok = { host };
  assert.equal((await raw(server.url, { headers: ok })).status, 200);
  assert.equal((await raw(server.url, { headers: { host: `localhost:${u.port}` } })).status, 200);
  const refused = async (what, status, more) => assert.equal((await raw(server.url, more)).status, status, what);
  const wrong = u.pathname.replace(/.\/$/, (c) => `${c[0] === "0" ? "1" : "0"}/`);
  await refused("a wrong token", 403, { headers: ok, path: wrong });
  await refused("no token", 403, { headers: ok, path: "/" });
  await refused("an empty token", 403, { headers: ok, path: "//" });
  await refused("a part of the token", 403, { headers: ok, path: `${u.pathname.slice(0, 9)}/` });
  await refused("data without a token", 403, { headers: ok, path: "/api/info" });
  await refused("a foreign host", 403, { headers: { host: `evil.example:${u.port}` } });
  await refused("the right name with another port", 403, { headers: { host: "127.0.0.1:1" } });
  await refused("a foreign origin", 403, { headers: { host, origin: "http://evil.example" } });
  await refused("a null origin", 403, { headers: { host, origin: "null" } });
  await refused("a foreign page's POST", 403, { headers: { host, "sec-fetch-site": "cross-site" }, method: "POST", path: `${u.pathname}api/tiles` });
  for (const path of ["../../etc/passwd", "..%2f..%2fetc/passwd", "%2e%2e/%2e%2e/etc/passwd", "api/../../../etc/passwd", "/etc/passwd", "view.js/../../x", "api/rows/../info"]) {
    const reply = await raw(server.url, { headers: ok, path: u.pathname + path });
    assert.ok([403, 404].includes(reply.status) && !reply.body.includes("root:"), `${path}: ${reply.status}`);
  }
  const page = await raw(server.url, { headers: ok });
  assert.match(page.headers["content-security-policy"], /default-src 'none'; script-src 'self'/);
  assert.equal(page.headers["access-control-allow-origin"], undefined);
  assert.equal(page.headers["x-content-type-options"], "nosniff");
  assert.equal((await raw(server.url, { headers: ok, method: "PUT" })).status, 400);
  assert.equal((await raw(server.url, { headers: ok, path: `${u.pathname}api/rows?s=9&first=-1&n=99999999999999999999` })).status, 422);
});

await test("a foreign page cannot read the trace, not even with the address", async () => {
  const page = await context.newPage();
  await page.goto("data:text/html,<h1>elsewhere</h1>");
  const got = await page.evaluate((u) => fetch(`${u}api/info`).then((r) => r.text(), () => "refused"), server.url);
  assert.equal(got, "refused");
  await page.close();
});

await test("what a trace says never becomes markup", async () => {
  const bad = "<img/src=x>", worse = "<b/onclick=x>";
  const path = written("hostile.txt", [
    waking("10.000001", 0, bad, 7, worse, 8), to("10.000010", 0, bad, 7, "S", worse, 8), line(worse, 8, 0, "10.000020", "tracing_mark_write: <script>window.hit=1</script><img src=x onerror=window.hit=1>"),
    to("10.000900", 0, worse, 8, "S", bad, 7),
  ]);
  const view = await serve("--no-open", path);
  const page = await open(context, view.url);
  await page.getByRole("tab", { name: "Show and hide" }).click();
  await page.getByRole("tab", { name: "Latency" }).click();
  await page.getByRole("tab", { name: "Events" }).click();
  const rows = await page.locator(".row").allInnerTexts();
  assert.ok(rows.some((r) => r.includes(`${worse}-8`)), rows.join("\n"));
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.equal(await page.locator(".row img, .row b, .label img, .label b, .detail img").count(), 0);
  await shot(page, "hostile");
  assert.deepEqual(page.problems, []);
  await page.close();
  await view.stop();
});

const bad = async (name, path, check) => test(name, async () => {
  const view = await serve("--no-open", path());
  const page = await open(context, view.url);
  await check(page);
  assert.deepEqual(page.problems, []);
  await page.close();
  assert.equal(await view.stop(), 0);
});
const notes = (page) => text(page, ".notes");

await bad("a trace that is cut off", () => {
  const path = join(scratch, "cut.dat");
  copyFileSync(fixture("f6.dat"), path);
  truncateSync(path, 100_000);
  return path;
}, async (page) => {
  assert.match(await notes(page), /Damaged/);
  assert.ok(await app(page, () => latlab.list.total) > 100);
});
await bad("a trace without sched events", () => written("nosched.txt", [line("a", 5, 0, "1.000001", "tracing_mark_write: one"), line("b", 6, 0, "1.000100", "tracing_mark_write: two"), line("a", 5, 1, "1.000200", "tracing_mark_write: three")]), async (page) => {
  assert.match(await notes(page), /no sched_switch events/);
  assert.ok(await colours(page, "0.cpu0.run") >= 2);
  assert.ok((await lanes(page)).includes("0.markers"));
});
await bad("one event", () => written("one.txt", [line("a", 5, 0, "1.000001", "tracing_mark_write: one")]), async (page) => {
  assert.equal(await app(page, () => latlab.list.total), 1);
  assert.ok(await app(page, () => latlab.span.to > latlab.span.from));
  await page.locator(".timeline").press("w");
  await page.locator(".row").first().click();
});
await bad("no event at all", () => {
  // The head of a recording with the pages of no CPU.
  const data = readFileSync(fixture("f6.dat"));
  const path = join(scratch, "none.dat");
  const table = data.indexOf("flyrecord\0") + 10;
  for (let cpu = 0; cpu < 2; cpu++) data.writeBigUInt64LE(0n, table + cpu * 16 + 8);
  writeFileSync(path, data);
  return path;
}, async (page) => {
  assert.match(await notes(page), /no event in it/);
  await page.locator(".timeline").press("w");
  await page.locator(".timeline").press("0");
});
await bad("time that goes backwards", () => written("back.txt", [to("5.000100", 0, "a", 5, "S", "b", 6), to("5.000050", 0, "b", 6, "S", "a", 5), to("5.000200", 0, "a", 5, "R", "b", 6)]), async (page) => {
  assert.match(await notes(page), /goes backwards 1 times/);
  assert.equal(await app(page, () => latlab.list.total), 3);
  assert.deepEqual((await page.locator(".row .task").allInnerTexts()).map((t) => t.trim()), ["a-5", "b-6", "a-5"]);
});
await bad("lost events are hatched and said", () => fixture("lost7.dat"), async (page) => {
  assert.match(await notes(page), /lost events at 1 places/);
  await shot(page, "lost");
});

await test("a file that is changed, cut or gone while it is open", async () => {
  const path = join(scratch, "open.dat");
  copyFileSync(fixture("f6.dat"), path);
  const view = await serve("--no-open", path);
  const page = await open(context, view.url, { failing: true });
  const said = (words) => page.waitForFunction((w) => new RegExp(w).test(document.querySelector(".trouble").textContent), words);
  assert.equal(await page.locator(".trouble").isVisible(), false);
  // Nobody does anything: the page sees for itself, and what it says else does not hide that.
  truncateSync(path, 60_000);
  await said("was truncated");
  await page.locator("#search").fill("sched_switch : no_such_field == 1");
  await page.keyboard.press("Enter");
  await said("was truncated.*no_such_field");
  rmSync(path);
  await page.locator(".list").press("End");
  await page.locator(".list").press("Home");
  // The answer to which the page says something comes last.
  await page.route(/api\/find/, async (route) => { await new Promise((done) => setTimeout(done, 300)); await route.continue(); });
  await page.locator("#search").fill("sched_switch");
  await page.keyboard.press("Enter");
  await said("was removed.*No match");
  await settled(page);
  assert.match(await text(page, ".trouble"), /was removed/, "it stands when all is answered");
  await shot(page, "gone");
  await view.stop();
  await said("no longer answers");
  await page.locator("#search").fill("irq");
  await page.keyboard.press("Enter");
  await said("no longer answers");
  await page.close();
});

await test("the page looks as committed", async () => {
  const view = await serve("--no-open", "--limit", "82us", fixture("f6.dat"));
  for (const colorScheme of ["light", "dark"]) {
    const context = await chrome.newContext({ viewport: { width: 1400, height: 900 }, deviceScaleFactor: 0.5, colorScheme });
    const page = await open(context, view.url);
    await page.waitForFunction(() => latlab.late.list.some((w) => w.late));
    await settled(page);
    assert.equal(await looks(page, `whole-${colorScheme}`), "");
    if (colorScheme === "light") {
      await page.locator(".timeline").focus();
      await page.keyboard.press("l");
      await settled(page);
      await page.waitForFunction(() => document.querySelector(".row.selected"));
      assert.equal(await looks(page, "late"), "");
      await page.keyboard.press("4");
      await page.getByRole("button", { name: "Draw" }).click();
      await page.waitForSelector(".field-panel .uplot");
      await settled(page);
      assert.equal(await looks(page, "field"), "");
    }
    await context.close();
  }
  await view.stop();
});

await test("labels of lanes do not overlap, and every control has a name", async () => {
  // Interrupts and softirqs that are not nested: lanes with a label follow each other.
  const events = ["irq_handler_entry: irq=33 name=eth0", "irq_handler_exit: irq=33 ret=handled", "softirq_entry: vec=3 [action=NET_RX]", "softirq_exit: vec=3 [action=NET_RX]"];
  const flat = await serve("--no-open", written("flat.txt", events.map((e, i) => line("a", 5, 0, `1.00000${i + 1}`, e))));
  const page = await open(context, flat.url);
  const clash = await app(page, () => {
    const text = [...document.querySelectorAll(".label span")].map((s) => { const r = document.createRange(); r.selectNodeContents(s); return r.getBoundingClientRect(); }).filter((r) => r.height > 0).sort((a, b) => a.top - b.top);
    return text.filter((r, i) => i > 0 && r.top < text[i - 1].bottom - 0.5).length;
  });
  assert.equal(clash, 0);
  const nameless = await app(page, () => [...document.querySelectorAll("button, input, select, a[href], [role=application], [role=tabpanel]")].filter((e) => !e.hidden && !(e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label")?.textContent.trim() || e.title)).map((e) => e.outerHTML.slice(0, 80)));
  assert.deepEqual(nameless, []);
  await page.close();
  await flat.stop();
});

await test("a field is drawn over time, and its points lead to events", async () => {
  const page = await open(context, server.url);
  await page.locator(".timeline").focus();
  await page.keyboard.press("4");
  assert.equal(await page.getByRole("tab", { selected: true }).innerText(), "Field over time");
  await page.locator("#field-kind").selectOption("sched_stat_runtime");
  await page.waitForSelector(".field-panel .uplot");
  assert.equal(await page.locator("#field-name").inputValue(), "runtime");
  const told = await text(page, ".field-panel p");
  const found = execFileSync(latlab, ["report", fixture("f6.dat"), "-e", "sched_stat_runtime"]).toString().trim().split("\n").length - 1;
  assert.ok(told.startsWith(`${found} values of runtime`), `${told}, ${found}`);
  const over = await page.locator(".field-panel .u-over").boundingBox();
  await page.mouse.click(over.x + over.width / 2, over.y + over.height / 2);
  await page.waitForFunction(() => /sched_stat_runtime/.test(document.querySelector(".detail").textContent));
  await page.locator("#field-kind").selectOption("sched_switch");
  await page.waitForFunction(() => /no number with a name/.test(document.querySelector(".field-panel").textContent));
  // The tabs by their own keys.
  await page.getByRole("tab", { name: "Field over time" }).focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.getByRole("tab", { selected: true }).innerText(), "Flame graph");
  assert.deepEqual(page.problems, []);
  await page.close();
});

await test("a port in use, and two viewers at once", async () => {
  const port = new URL(server.url).port;
  await assert.rejects(serve("--no-open", "--port", port, fixture("f6.dat")), (e) => /ended with 1/.test(e.message) && e.message.includes(port) && /hint/.test(e.message));
  const second = await serve("--no-open", fixture("f7-zstd.dat"));
  const [one, two] = [await open(context, server.url), await open(context, second.url)];
  assert.equal(await app(one, () => latlab.list.total), 1983);
  assert.equal(await app(two, () => latlab.list.total), 1177);
  const cross = await raw(second.url, { headers: { host: new URL(second.url).host }, path: new URL(server.url).pathname });
  assert.equal(cross.status, 403, "the token of one is not that of the other");
  await one.close();
  await two.close();
  await second.stop();
});

await test("a browser without WebGL", async () => {
  const plain = await browser(["--disable-3d-apis", "--disable-webgl"]);
  const page = await open(await plain.newContext(), server.url);
  assert.equal(await page.evaluate(() => document.createElement("canvas").getContext("webgl")), null);
  assert.ok(await colours(page, "0.cpu0.run") >= 4);
  await plain.close();
});

await test("two files with an offset, and an instance", async () => {
  const view = await serve("--no-open", fixture("f6.dat"), fixture("inst6.dat"), "--offset", "0", "--offset", "1ms");
  const page = await open(context, view.url);
  const names = await app(page, () => latlab.info.sources.map((s) => [s.name, s.offset]));
  assert.deepEqual(names.map((n) => n[0]), ["f6.dat", "inst6.dat", "inst6.dat [rinst]"]);
  assert.equal(names[1][1], 1e6);
  await page.getByRole("tab", { name: "Sources" }).click();
  await page.getByRole("button", { name: "Begin with the first" }).first().click();
  await settled(page);
  assert.equal(await app(page, () => latlab.shift[0] === latlab.shift[1]), true);
  await page.locator("#source").selectOption("2");
  await page.waitForFunction(() => latlab.list.source === 2);
  await page.getByRole("tab", { name: "Events" }).click();
  await settled(page);
  await shot(page, "files");
  assert.deepEqual(page.problems, []);
  await page.close();
  await view.stop();
});

await test("markers written by programs are a lane", async () => {
  const view = await serve("--no-open", fixture("mark6.dat"));
  const page = await open(context, view.url);
  assert.ok((await lanes(page)).includes("0.markers"));
  assert.ok(await app(page, () => latlab.info.sources[0].markers.length) >= 3);
  await page.close();
  await view.stop();
});

await test("a function graph is a flame chart", async () => {
  const path = join(scratch, "graph.txt");
  const calls = ["# tracer: function_graph", "#", "#     TIME        CPU  TASK/PID         DURATION                  FUNCTION CALLS", "#      |          |     |    |           |   |                     |   |   |   |"];
  let t = 100;
  const add = (duration, call) => { t += 0.000002; calls.push(` ${t.toFixed(6)} |   0)    cat-77     | ${duration.padStart(11)} | ${call}`); };
  for (let i = 0; i < 20; i++) { add("", " sys_read() {"); add("", "   vfs_read() {"); add("1.000 us", "     fget();"); add("4.000 us", "   }"); add("8.000 us", " }"); }
  writeFileSync(path, `${calls.join("\n")}\n`);
  const view = await serve("--no-open", path);
  const page = await open(context, view.url);
  const names = await lanes(page);
  for (const depth of [0, 1, 2]) assert.ok(names.includes(`0.cpu0.fn${depth}`), `${names}`);
  const functions = await app(page, () => latlab.info.sources[0].names);
  for (const f of ["sys_read", "vfs_read", "fget"]) assert.ok(functions.includes(f), `${functions}`);
  assert.ok(await colours(page, "0.cpu0.fn0") >= 2);
  await shot(page, "functions");
  assert.deepEqual(page.problems, []);
  await page.close();
  await view.stop();
});

await test("wake-ups that the trace shows from end to end are explained", async () => {
  const view = await serve("--no-open", "--limit", "82us", fixture("f6.dat"));
  const page = await open(context, view.url);
  await page.waitForFunction(() => latlab.late.list.some((w) => w.late));
  const bad = await app(page, () => latlab.late.list.filter((w) => w.parts.reduce((s, p) => s + p.to - p.from, 0) !== w.to - w.from).length);
  assert.equal(bad, 0, "the parts of every wake-up add up");
  await page.locator(".timeline").focus();
  await page.keyboard.press("l");
  await settled(page);
  assert.equal(await page.locator(".budget .bar").count(), 2, "late and on time");
  assert.ok((await text(page, ".budget-head")).includes("Late by"));
  await shot(page, "explained");
  assert.deepEqual(page.problems, []);
  await page.close();
  await view.stop();
});

await test("a run: its captures one by one, and its report", async () => {
  const run = join(scratch, "run");
  mkdirSync(join(run, "captures"), { recursive: true });
  writeFileSync(join(run, "run.json"), JSON.stringify({ schema_version: 1, command_line: ["latlab", "why"], complete: true, parts: [] }));
  copyFileSync(fixture("f6.dat"), join(run, "captures/001.dat"));
  copyFileSync(fixture("f7-zstd.dat"), join(run, "captures/002.dat"));
  const view = await serve("--no-open", "--limit", "60us", run);
  const page = await open(context, view.url);
  assert.equal(await app(page, () => latlab.list.total), 1983);
  await page.locator("#source").selectOption("1");
  await page.waitForFunction(() => latlab.list.total === 1177);
  await settled(page);
  assert.ok((await lanes(page)).every((l) => l.startsWith("1.")), "only the chosen capture is shown");
  await page.waitForFunction(() => latlab.late.list.some((w) => w.late));
  const third = await app(page, () => { const w = latlab.late.list[2]; return { source: w.source, long: w.to - w.from, late: w.late }; });
  assert.ok(third.late);
  await page.getByRole("link", { name: "Report" }).click();
  await page.getByRole("link", { name: "Look at the captures" }).click();
  await settled(page);
  assert.equal(await page.getByRole("tab", { selected: true }).innerText(), "Late wake-ups");
  // The report leads to each late wake-up.
  await page.getByRole("link", { name: "Report" }).click();
  const links = page.locator("#in-the-viewer tbody a");
  assert.ok(await links.count() >= 3);
  await shot(page, "report");
  await links.nth(2).click();
  await page.waitForFunction((w) => window.latlab?.session.source === w.source && Math.abs(latlab.session.b - latlab.session.a - w.long) < 2, third);
  await settled(page);
  assert.match(await text(page, ".budget-head"), /\(3 of \d+\)/);
  await page.waitForFunction((w) => latlab.selected?.time === latlab.session.b || latlab.selected?.source === w.source, third);
  assert.deepEqual(page.problems, []);
  await page.close();
  await view.stop();
});

await test("a session is kept as a file and opened again", async () => {
  const page = await open(context, server.url);
  for (let i = 0; i < 6; i++) await page.locator(".timeline").press("w");
  await page.locator(".row").nth(2).click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save session" }).click()]);
  const kept = await span(page), file = await download.path();
  await page.locator(".timeline").press("0");
  await page.locator("input[type=file]").setInputFiles({ name: "s.json", mimeType: "application/json", buffer: readFileSync(file) });
  await page.waitForFunction((w) => Math.abs(latlab.span.from - w.from) < 1 && Math.abs(latlab.span.to - w.to) < 1, kept);
  await page.locator("input[type=file]").setInputFiles({ name: "x.json", mimeType: "application/json", buffer: Buffer.from("{}") });
  await page.waitForFunction(() => /no session/.test(document.querySelector(".trouble").textContent));
  await page.close();
});

await test("frequencies are a lane where they were traced", async () => {
  const path = written("freq.txt", [line("a", 5, 0, "1.000001", "cpu_frequency: state=1000000 cpu_id=0"), line("a", 5, 0, "1.000100", "cpu_frequency: state=2000000 cpu_id=0"), line("a", 5, 0, "1.000300", "tracing_mark_write: end")]);
  const view = await serve("--no-open", path);
  const page = await open(context, view.url);
  assert.ok((await lanes(page)).includes("0.cpu0.freq"));
  const box = await page.locator("canvas").boundingBox();
  const [x, y] = await app(page, () => { const t = latlab.timeline, i = t.lanes.findIndex((l) => l.kind === "freq"); return [t.x(200_000), t.tops[i] + 8]; });
  await page.mouse.move(box.x + x, box.y + y);
  await page.waitForFunction(() => /2000 MHz/.test(document.querySelector(".tip").textContent));
  assert.deepEqual(page.problems, []);
  await page.close();
  await view.stop();
});

await test("an exported page needs nothing else", async () => {
  const out = join(scratch, "out.html");
  execFileSync(latlab, ["view", fixture("f6.dat"), "--export", out]);
  assert.ok(statSync(out).size < 3_000_000);
  const offline = await chrome.newContext({ offline: true, viewport: { width: 1400, height: 900 } });
  const page = await open(offline, `file://${out}`);
  assert.equal(await app(page, () => latlab.list.total), 1983);
  assert.ok(await colours(page, "0.cpu0.run") >= 4);
  await page.locator("#search-kind").selectOption("text");
  await page.locator("#search").fill("sched_switch");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => latlab.selected);
  // Expressions find what the same find in the file.
  await page.locator("#search-kind").selectOption("expression");
  for (const e of ["sched_switch : next_prio < 100 || prev_state & 1", "sched_wak* : comm ~ \"*c*\" && pid != 0 && CPU == 1", "irq_vectors", "sched : !(CPU == 0) && COMM =~ \"^rustc$\"", "TIME % 3 == 1", "prev_state == 1"]) {
    const told = execFileSync(latlab, ["report", fixture("f6.dat"), "-F", e]).toString().trim().split("\n").length - 1;
    await page.locator("#search").fill(e);
    await page.keyboard.press("Enter");
    await page.waitForFunction((n) => document.querySelector(".found").textContent === `${n.toLocaleString("en-US").replaceAll(",", "\u202f")} found`, told);
    assert.ok(told > 0, e);
  }
  await page.locator("#search").fill("sched_switch : nothing == 1");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /has a field "nothing"/.test(document.querySelector(".trouble").textContent));
  await page.getByRole("tab", { name: "Latency" }).click();
  await page.getByRole("button", { name: "Measure" }).click();
  await page.locator("#worst-first").click();
  await settled(page);
  await shot(page, "export");
  assert.deepEqual(page.problems, []);
  await offline.close();
});

await server.stop();
await import("./panels.mjs");
endAll();
await chrome.close();
console.log(`${score.passed} passed, ${score.failed} failed`);
process.exit(score.failed > score.repeated ? 1 : 0);
