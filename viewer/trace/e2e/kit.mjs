// What the tests of the page share: one browser, counting, and traces written as text.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { browser, scratch, shots } from "./lib.mjs";

const only = process.argv[2];
export const score = { passed: 0, failed: 0, repeated: 0 };
/** A browser on a busy machine may lose a page: so many tests that fail are run once more. */
const repeats = 3;
export const chrome = await browser();
export const context = await chrome.newContext({ viewport: { width: 1400, height: 900 }, permissions: ["clipboard-read", "clipboard-write"] });

/** A test of the page. One that fails prints `FAIL NAME`, and `repeated: NAME` when it passes the second time. */
export async function test(name, body) {
  if (only && !name.includes(only)) return;
  const attempt = async () => {
    const begun = Date.now();
    try {
      await body();
      console.log(`ok   ${name} (${Date.now() - begun} ms)`);
      return true;
    } catch (e) {
      console.log(`FAIL ${name}\n${e?.stack ?? e}`);
      return false;
    }
  };
  if (await attempt()) { score.passed++; return; }
  score.failed++;
  if (score.failed > repeats) return;
  for (const page of context.pages()) await page.close();
  if (!(await attempt())) return;
  score.repeated++;
  console.log(`repeated: ${name}`);
}
export const shot = (page, name) => page.screenshot({ path: join(shots, `${name}.png`) });
export const app = (page, f, arg) => page.evaluate(f, arg);
export const span = (page) => app(page, () => ({ ...latlab.span }));
export const lanes = (page) => app(page, () => latlab.timeline.lanes.map((l) => l.key));
export const text = (page, selector) => page.locator(selector).innerText();
/** A trace as text, as the kernel's `trace` file has it. */
export const written = (name, lines) => {
  const path = join(scratch, name);
  writeFileSync(path, `# tracer: nop\n#\n${lines.join("\n")}${lines.length ? "\n" : ""}`);
  return path;
};
export const line = (comm, pid, cpu, time, event) => `${comm.padStart(16)}-${String(pid).padEnd(7)} [${String(cpu).padStart(3, "0")}] d..2. ${time}: ${event}`;
export const to = (time, cpu, a, ap, state, b, bp) => line(a, ap, cpu, time, `sched_switch: prev_comm=${a} prev_pid=${ap} prev_prio=120 prev_state=${state} ==> next_comm=${b} next_pid=${bp} next_prio=120`);
export const waking = (time, cpu, a, ap, b, bp) => line(a, ap, cpu, time, `sched_waking: comm=${b} pid=${bp} prio=120 target_cpu=${String(cpu).padStart(3, "0")}`);
