// node pictures.mjs RUN DIR: screenshots of a run of latlab why: the beginning of its report, and its worst
// wake-up in the viewer, as DIR/report.png and DIR/viewer.png (scripts/pictures).
import { join, resolve } from "node:path";
import { browser, endAll, open, serve, settled } from "./lib.mjs";

const [run, out] = process.argv.slice(2).map((path) => resolve(path));
// With the fonts of the system: nothing is compared with them.
const chrome = await browser([], "/etc/fonts/fonts.conf");
try {
  const context = await chrome.newContext({ viewport: { width: 1100, height: 800 }, colorScheme: "light" });
  const report = await context.newPage();
  await report.goto(`file://${join(run, "report.html")}`);
  await report.screenshot({ path: join(out, "report.png") });

  const server = await serve("--no-open", run);
  const page = await open(context, server.url);
  await page.locator("canvas").click({ position: { x: 5, y: 5 } });
  await page.keyboard.press("l");
  await settled(page);
  await page.screenshot({ path: join(out, "viewer.png") });
  if (page.problems.length) throw new Error(page.problems.join("\n"));
} finally {
  endAll();
  await chrome.close();
}
process.exit(0);
