// Builds crates/latlab-report/assets/report.{js,css,js.sha256}; with --tests the tests into build/.
// With OUT=DIR the assets go there instead: scripts/test.d compares them with the committed ones.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = process.env.OUT ?? join(here, "../../crates/latlab-report/assets");

if (process.argv.includes("--tests")) {
  const tests = readdirSync(join(here, "test")).map((f) => join(here, "test", f));
  await build({
    entryPoints: tests, bundle: true, format: "esm", platform: "node",
    outdir: join(here, "build"), outExtension: { ".js": ".mjs" },
  });
} else {
  mkdirSync(out, { recursive: true });
  const version = JSON.parse(readFileSync(join(here, "node_modules/uplot/package.json"), "utf8")).version;
  const licence = `/*! latlab report; contains uPlot ${version}, MIT licence, Copyright (c) Leon Sorokin, https://github.com/leeoniya/uPlot */`;
  const result = await build({
    entryPoints: [join(here, "src/main.ts")], bundle: true, format: "iife", minify: true,
    target: "es2020", charset: "ascii", legalComments: "none", write: false,
    banner: { js: licence },
  });
  // Inside a page nothing may end the element early.
  const js = result.outputFiles[0].text.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
  const css = await build({
    entryPoints: [join(here, "src/style.css")], bundle: true, minify: true, target: "chrome100", write: false,
    legalComments: "none",
  });
  const hash = createHash("sha256").update(js).digest("base64");
  writeFileSync(join(out, "report.js"), js);
  writeFileSync(join(out, "report.css"), css.outputFiles[0].text.trim());
  writeFileSync(join(out, "report.js.sha256"), `sha256-${hash}\n`);
}
