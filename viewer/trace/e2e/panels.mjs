// The selected event with its fields and stacks, flame graphs, names of causes, keys alone, and what
// axe-core says of every tab. Run by run.mjs.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { app, chrome, context, lanes, shot, span, test, text } from "./kit.mjs";
import { fixture, latlab, looks, open, scratch, serve, settled } from "./lib.mjs";

/** A page as the committed pictures have it. */
const pictured = (colorScheme = "light") => chrome.newContext({ viewport: { width: 1400, height: 900 }, deviceScaleFactor: 0.5, colorScheme });
const report = (...args) => execFileSync(latlab, ["report", ...args]).toString().trim().split("\n").slice(1);
const fields = (page) => page.locator(".event-panel tbody tr").evaluateAll((rows) => Object.fromEntries(rows.map((r) => [r.cells[0].textContent, r.cells[1].textContent])));

await test("all fields of the selected event, whatever kind it is", async () => {
  const view = await serve("--no-open", fixture("f6.dat"));
  const small = await pictured(), page = await open(small, view.url);
  const kinds = await app(page, async () => {
    const rows = await latlab.data.rows(0, 0, 0, 500), seen = new Map();
    rows.forEach((r) => { if (!seen.has(r.kind)) seen.set(r.kind, r.row); });
    return [...seen.values()];
  });
  assert.ok(kinds.length > 8, `${kinds}`);
  for (const row of kinds) {
    await app(page, async (row) => { const [r] = await latlab.data.rows(0, 0, row, 1); latlab.select(0, r, "show"); }, row);
    await page.waitForFunction((row) => document.querySelector(".event-head")?.textContent.includes(`event ${row}`), row);
    const shown = await fields(page), pid = await app(page, () => latlab.selected.event.pid);
    assert.equal(shown.common_pid, String(pid));
    assert.ok("common_type" in shown && Object.keys(shown).length >= 5, JSON.stringify(shown));
  }
  // What the raw report of the same event says.
  await page.locator("#search").fill("sched_stat_runtime");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /sched_stat_runtime/.test(document.querySelector(".event-head h2").textContent) && document.querySelector(".event-head").textContent.includes(`event ${latlab.selected.row}`));
  await page.locator(".row.selected").waitFor();
  const at = Number(await text(page, ".row.selected .time"));
  const told = report(fixture("f6.dat"), "-R", "-F", "sched_stat_runtime").find((l) => Math.abs(Number(/ (\d+\.\d+): /.exec(l)[1]) - at) < 1.1e-6);
  const shown = await fields(page), runtime = /runtime=(\d+|0x[0-9a-f]+)/.exec(told)[1];
  assert.equal(shown.runtime, `${BigInt(runtime)} ns`, told);
  await settled(page);
  assert.equal(await looks(page, "event"), "");
  await page.getByRole("button", { name: "Close the fields" }).click();
  assert.equal(await page.locator(".event-panel").isVisible(), false);
  assert.deepEqual(page.problems, []);
  await small.close();
  await view.stop();
});

await test("stacks of an event, by the trace's symbols", async () => {
  const view = await serve("--no-open", fixture("stack6.dat"));
  const small = await pictured(), page = await open(small, view.url);
  await page.locator(".row").nth(1).click();
  const frames = page.locator(".stack li");
  await frames.first().waitFor();
  // Lines of the report: the stack that the same task recorded on the same CPU.
  const lines = execFileSync(latlab, ["report", fixture("stack6.dat")]).toString().split("\n");
  const head = lines.findIndex((l) => /opt cgu\.1-5928 .*kernel_stack/.test(l));
  const told = lines.slice(head + 1).slice(0, 7).map((l) => l.replace(/^=> /, ""));
  const shown = (await frames.allInnerTexts()).map((t) => t.trim());
  assert.equal(shown.length, 7);
  told.forEach((l, i) => assert.ok(l.replace(/ \(.*/, "") === shown[i].split(" ")[0].replace(/^0x/, ""), `${l}, ${shown[i]}`));
  assert.match(await text(page, ".stack h3"), /Kernel stack, innermost first \(7 frames\)/);
  await settled(page);
  await page.locator(".stack p").last().scrollIntoViewIfNeeded();
  assert.equal(await looks(page, "stack"), "");
  assert.deepEqual(page.problems, []);
  await small.close();
  await view.stop();
});

await test("a flame graph of function_graph: boxes, keys, table, range", async () => {
  const view = await serve("--no-open", fixture("graph6-x86_64.dat"));
  const small = await pictured(), page = await open(small, view.url);
  await page.locator(".timeline").focus();
  await page.keyboard.press("5");
  const box = page.locator(".flame [role=treeitem]");
  await box.first().waitFor();
  assert.match(await text(page, ".flame-panel p"), /function_graph tracer.*the visible range/);
  const n = await box.count();
  assert.ok(n > 20, `${n}`);
  await settled(page);
  assert.equal(await looks(page, "flame"), "");
  // Boxes lie within their parents, and none of one depth over another.
  const clash = await box.evaluateAll((all) => {
    const rects = all.map((b) => ({ level: b.ariaLevel, l: parseFloat(b.style.left), r: parseFloat(b.style.left) + parseFloat(b.style.width) }));
    return rects.filter((a, i) => rects.some((b, j) => j > i && a.level === b.level && Math.min(a.r, b.r) - Math.max(a.l, b.l) > 0.001)).length;
  });
  assert.equal(clash, 0);
  // By keys: into the widest box below, widen it, beside it, and back.
  await box.first().focus();
  await page.keyboard.press("ArrowDown");
  const chosen = () => page.locator(".flame [aria-selected=true]").getAttribute("aria-label");
  const below = await chosen();
  assert.notEqual(below, null);
  assert.ok(!below.startsWith("all:"), below);
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.style.width), "100%");
  assert.ok(await box.count() < n + 100 && await chosen() === below);
  assert.equal(await page.evaluate(() => document.querySelector(".flame-told").textContent), below);
  await page.keyboard.press("Escape");
  assert.equal(await box.count(), n);
  // The table has the same functions; its shares of time in the functions themselves add up.
  const itself = await page.locator(".flame-panel tbody tr td:nth-child(2)").allInnerTexts();
  const share = itself.reduce((s, t) => s + Number(/\(([\d.]+) %/.exec(t)[1]), 0);
  assert.ok(Math.abs(share - 100) < 0.05 * itself.length + 0.5, `${share}`);
  // Markers choose the range.
  await app(page, () => { const { from, to } = latlab.span; latlab.session.a = from; latlab.session.b = from + (to - from) / 4; latlab.marksChanged(); });
  await page.waitForFunction(() => /between markers A and B/.test(document.querySelector(".flame-panel p").textContent));
  assert.ok(await box.count() !== n);
  assert.deepEqual(page.problems, []);
  await small.close();
  await view.stop();
});

await test("flame graphs of stacks and calls, and what to record for one", async () => {
  for (const [file, words, root] of [["stack6.dat", /Kernel stacks/, "all: 142 events, 100.0 %"], ["function7-x86_64.dat", /function tracer/, "all: 32 calls, 100.0 %"]]) {
    const view = await serve("--no-open", fixture(file)), page = await open(context, `${view.url}#tab=flame`);
    await page.locator(".flame").waitFor();
    assert.match(await text(page, ".flame-panel p"), words);
    assert.equal(await page.locator(".flame [role=treeitem]").first().getAttribute("aria-label"), root);
    await shot(page, `flame-${file}`);
    await page.close();
    await view.stop();
  }
  const view = await serve("--no-open", fixture("f6.dat")), page = await open(context, `${view.url}#tab=flame`);
  await page.waitForFunction(() => /latlab record -T/.test(document.querySelector(".flame-panel").textContent));
  assert.equal(await page.locator(".flame").count(), 0);
  await page.close();
  await view.stop();
});

await test("an exported page has fields, stacks and the flame graph", async () => {
  for (const [file, row] of [["stack6.dat", 1], ["graph6-x86_64.dat", 0]]) {
    const out = join(scratch, `${file}.html`);
    execFileSync(latlab, ["view", fixture(file), "--export", out]);
    const page = await open(context, `file://${out}`);
    await page.locator(".row").nth(row).click();
    await page.locator(".event-panel tbody tr").first().waitFor();
    const shown = await fields(page);
    assert.equal(shown.common_pid, await app(page, () => String(latlab.selected.event.pid)));
    assert.ok(Object.keys(shown).length >= 2, JSON.stringify(shown));
    assert.equal(await page.locator(".stack li").count(), file === "stack6.dat" ? 7 : 0);
    await page.locator(".timeline").focus();
    await page.keyboard.press("5");
    assert.ok(await page.locator(".flame [role=treeitem]").count() > 5);
    assert.deepEqual(page.problems, []);
    await page.close();
  }
});

/** The late activation of chain7.dat, as a reader gets to it. */
const late = async (page) => {
  await page.getByRole("tab", { name: "Late wake-ups" }).click();
  const pid = await app(page, () => latlab.info.sources[0].tasks.find((t) => t[1] === "task")[0]);
  await page.locator("#late-task").selectOption(String(pid));
  await page.locator("#late-whole").selectOption("1");
  await page.locator("#late-limit").fill("2ms");
  await page.getByRole("button", { name: "Find" }).click();
  await page.waitForFunction(() => latlab.late.list.some((w) => w.late && w.activation));
  await page.locator(".timeline").focus();
  await page.keyboard.press("l");
  await settled(page);
  return pid;
};

await test("the critical path: segments, arrows and waits over the lanes and as a table", async () => {
  const view = await serve("--no-open", fixture("chain7.dat"));
  const page = await open(context, view.url);
  const pid = await late(page);
  const w = await app(page, () => latlab.late.list.find((w) => w.late));
  assert.equal(w.parts.reduce((s, p) => s + p.to - p.from, 0), w.to - w.from, "the segments add up to the response time");
  const names = await lanes(page), at = (name) => names.indexOf(name), helper = w.arrows.at(-1).by;
  assert.ok(at("0.path") >= 0 && at(`0.task${pid}`) === at("0.path") + 1 && at(`0.task${helper}`) === at("0.path") + 2, `${names}`);
  assert.match(await text(page, ".path tfoot"), /Sum = response time\s+3.\d+.\d+ ns\s+100 %/);
  const rows = await page.locator(".path tbody tr").allInnerTexts();
  assert.ok(rows.some((r) => /timer function: hrtimer_wakeup on CPU 0 wakes task-/.test(r)), `${rows}`);
  assert.ok(rows.some((r) => /second-\d+ on CPU 1 wakes helper-/.test(r)) && rows.some((r) => /task-\d+ waits 3\.\d+ ms\s*in anon_pipe_read/.test(r)), `${rows}`);
  // Each row leads to its place, with the mouse, the keyboard, and from the lane.
  const before = await span(page);
  await page.locator(".path tbody button").filter({ hasText: "wait: second" }).press("Enter");
  await settled(page);
  const there = await span(page), longest = w.parts.reduce((a, p) => (p.to - p.from > a.to - a.from ? p : a));
  assert.ok(there.from < w.from + longest.from && there.to > w.from + longest.to && there.to - there.from !== before.to - before.from);
  assert.equal(await page.locator(".path tr.selected").count(), 1);
  await page.locator(".timeline").focus();
  await page.keyboard.press(".");
  await settled(page);
  assert.ok((await span(page)).from > there.from, "the next segment");
  await page.keyboard.press(",");
  await settled(page);
  assert.deepEqual(await span(page), there);
  await page.locator(".path tbody tr.arrow button").last().click();
  await settled(page);
  const arrow = await span(page);
  assert.ok(Math.abs((arrow.from + arrow.to) / 2 - w.from - w.arrows.at(-1).at) < 1);
  // Without a breakdown there is no path.
  await page.getByRole("button", { name: "Close the latency breakdown" }).click();
  assert.ok(!(await lanes(page)).includes("0.path"));
  assert.deepEqual(page.problems, []);
  await page.close();
  await view.stop();
});

await test("the critical path looks as committed, and fits a narrow page", async () => {
  const view = await serve("--no-open", fixture("chain7.dat"));
  for (const [colorScheme, width] of [["light", 1400], ["dark", 1400], ["light", 480]]) {
    const context = await chrome.newContext({ viewport: { width, height: 900 }, deviceScaleFactor: width > 1000 ? 0.5 : 1, colorScheme });
    const page = await open(context, view.url);
    await late(page);
    await page.waitForFunction(() => latlab.selected !== null);
    assert.ok(await app(page, () => document.documentElement.scrollWidth <= innerWidth), "nothing is beside the page");
    assert.equal(await looks(page, `path-${colorScheme}-${width}`), "");
    await context.close();
  }
  await view.stop();
});

await test("the flame graph of the time without a CPU", async () => {
  const view = await serve("--no-open", fixture("chain7.dat"));
  const page = await open(context, view.url);
  const pid = await late(page);
  await page.getByRole("tab", { name: "Flame graph" }).click();
  await page.locator("#flame-of").selectOption(String(pid));
  await page.waitForFunction(() => /left its CPU/.test(document.querySelector(".flame-panel").textContent));
  const boxes = await page.locator(".flame [role=treeitem]").allInnerTexts();
  for (const name of ["anon_pipe_read", "sleeping"]) assert.ok(boxes.includes(name), `${boxes}`);
  await shot(page, "off-cpu");
  await page.locator("#flame-of").selectOption("");
  await page.waitForFunction(() => /number of events/.test(document.querySelector(".flame-panel").textContent));
  assert.deepEqual(page.problems, []);
  await page.close();
  await view.stop();
});

await test("causes are named as in reports", async () => {
  const view = await serve("--no-open", fixture("cyclictest-mark.dat"));
  const page = await open(context, view.url);
  await page.waitForFunction(() => latlab.late.list.some((w) => w.late));
  await page.locator(".timeline").focus();
  await page.keyboard.press("l");
  await settled(page);
  assert.match(await text(page, ".budget-head"), /timer function/);
  const parts = await text(page, ".budget-tables > .scroll table");
  assert.ok(/timer function/.test(parts) && /wake-up path/.test(parts) && !/hrtimer handler/.test(parts), parts);
  // A part is zoomed to by its button.
  const before = await span(page);
  await page.locator(".budget table button").first().press("Enter");
  assert.ok((await span(page)).to - (await span(page)).from < before.to - before.from);
  await page.close();
  await view.stop();
});

await test("who opens the page for the first time sees what can be done", async () => {
  const view = await serve("--no-open", "--limit", "82us", fixture("f6.dat"));
  const first = await chrome.newContext({ viewport: { width: 1400, height: 900 } }), page = await open(first, view.url);
  const panel = page.locator(".event-panel");
  assert.match(await panel.innerText(), /What you can do here/);
  await page.waitForFunction(() => latlab.late.list.some((w) => w.late));
  await panel.getByRole("button", { name: "Next late wake-up" }).click();
  await page.waitForFunction(() => !document.querySelector(".budget").hidden);
  // What is selected replaces it; another page has it again until it is closed.
  await page.waitForFunction(() => /Fields of the event/.test(document.querySelector(".event-panel").textContent));
  const again = await open(first, view.url);
  await again.getByRole("button", { name: "Close this hint" }).click();
  assert.equal(await again.locator(".event-panel").isVisible(), false);
  await again.reload();
  await settled(again);
  assert.equal(await again.locator(".event-panel").isVisible(), false, "closed is closed");
  await again.locator(".row").nth(3).click();
  await again.locator(".event-panel tbody tr").first().waitFor();
  await first.close();
  await view.stop();
});

await test("keys alone reach every control, and the focus is seen", async () => {
  const view = await serve("--no-open", fixture("f6.dat"));
  const small = await pictured(), page = await open(small, view.url);
  await page.locator(".row").nth(3).click();
  await page.locator(".event-panel tbody tr").first().waitFor();
  await app(page, () => document.activeElement.blur());
  // Each control that can be seen gets the focus by Tab, once around.
  const wanted = await app(page, () => {
    const all = [...document.querySelectorAll("button, input, select, a[href], [tabindex='0']")].filter((e) => e.offsetParent !== null && !e.closest("dialog") && !e.disabled);
    all.forEach((e, i) => { e.dataset.control = i; });
    return all.length;
  });
  const reached = new Set();
  let unseen = [];
  for (let i = 0; i < wanted + 5; i++) {
    await page.keyboard.press("Tab");
    const at = await app(page, () => {
      const e = document.activeElement, s = getComputedStyle(e), box = e.getBoundingClientRect();
      return { id: e.dataset.control, seen: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1 && Number(s.opacity) > 0.5 && box.width > 0, html: e.outerHTML.slice(0, 90) };
    });
    if (at.id !== undefined) reached.add(at.id);
    if (at.id !== undefined && !at.seen) unseen.push(at.html);
  }
  assert.equal(reached.size, wanted);
  assert.deepEqual([...new Set(unseen)], []);
  // A lane is hidden by its button.
  await page.locator(".label.run button").first().focus();
  await page.keyboard.press("Enter");
  assert.ok(!(await app(page, () => latlab.timeline.lanes.map((l) => l.key))).includes("0.cpu0.run"));
  // The next and the previous event; the timeline, the fields and the list by their letters.
  await page.keyboard.press("t");
  assert.equal(await app(page, () => document.activeElement.className), "timeline");
  const row = await app(page, () => latlab.selected.row);
  await page.keyboard.press("Shift+ArrowRight");
  await page.waitForFunction((r) => latlab.selected.row === r + 1, row);
  await page.keyboard.press("Shift+ArrowLeft");
  await page.waitForFunction((r) => latlab.selected.row === r, row);
  await page.keyboard.press("i");
  assert.equal(await app(page, () => document.activeElement.className), "event-panel");
  await page.keyboard.press("[");
  await page.keyboard.press("x");
  assert.equal(await app(page, () => latlab.session.a), null);
  await page.mouse.move(700, 2);
  await page.keyboard.press("?");
  const help = await text(page, "#help");
  for (const words of ["previous, the next one", "1 to 7", "the fields of the selected event", "in a flame graph"]) assert.ok(help.includes(words), help);
  await settled(page);
  assert.equal(await looks(page, "help"), "");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#help").isVisible(), false);
  await small.close();
  await view.stop();
});

await test("axe-core finds nothing in any tab, light or dark", async () => {
  const axe = readFileSync(fileURLToPath(new URL("../node_modules/axe-core/axe.min.js", import.meta.url)), "utf8");
  const found = [];
  for (const [file, scheme] of [["f6.dat", "light"], ["f6.dat", "dark"], ["graph6-x86_64.dat", "light"], ["stack6.dat", "dark"], ["chain7.dat", "light"], ["chain7.dat", "dark"]]) {
    const view = await serve("--no-open", "--limit", "82us", fixture(file));
    const night = await chrome.newContext({ viewport: { width: 1400, height: 900 }, colorScheme: scheme }), page = await open(night, view.url);
    await page.evaluate(axe);
    const check = async (what) => {
      await settled(page);
      const violations = await page.evaluate(async () => (await axe.run(document)).violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")} ${v.nodes[0].failureSummary}`));
      found.push(...violations.map((v) => `${file} ${scheme} ${what}: ${v}`));
    };
    await check("first");
    await page.locator(".row").nth(1).click();
    await page.locator(".event-panel tbody tr").first().waitFor();
    await page.locator(".timeline").focus();
    if (file === "f6.dat") { await page.waitForFunction(() => latlab.late.list.some((w) => w.late)); await page.keyboard.press("l"); }
    if (file === "chain7.dat") { await late(page); await page.locator(".path details").first().click(); }
    for (let i = 1; i <= 7; i++) {
      await page.keyboard.press(String(i));
      if (i === 3) await page.getByRole("button", { name: "Measure" }).click();
      if (i === 4) await page.getByRole("button", { name: "Draw" }).click();
      await page.waitForTimeout(200);
      await check(`tab ${i}`);
      await page.locator(".timeline").focus();
    }
    await page.keyboard.press("?");
    await check("help");
    await night.close();
    await view.stop();
  }
  assert.deepEqual(found, [], found.join("\n"));
});
