// Builds crates/latlab-view/assets/view.{html,js,css}. With OUT=DIR they go there instead:
// scripts/test.d compares them with the committed ones.
import { build } from "esbuild";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = process.env.OUT ?? join(here, "../../crates/latlab-view/assets");
mkdirSync(out, { recursive: true });
const version = JSON.parse(readFileSync(join(here, "node_modules/uplot/package.json"), "utf8")).version;
const licence = `/*! latlab view; contains uPlot ${version}, MIT licence, Copyright (c) Leon Sorokin, https://github.com/leeoniya/uPlot */`;
const script = await build({
  entryPoints: [join(here, "src/main.ts")], bundle: true, format: "iife", minify: true, target: "es2021",
  charset: "ascii", legalComments: "none", write: false, banner: { js: licence },
});
// An exported page has the script inside: nothing may end the element early.
const js = script.outputFiles[0].text.trim().replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
const style = await build({
  entryPoints: [join(here, "src/style.css")], bundle: true, minify: true, target: "chrome100", write: false,
  legalComments: "none",
});
writeFileSync(join(out, "view.js"), js);
writeFileSync(join(out, "view.css"), style.outputFiles[0].text.trim().replaceAll("</style", "<\\/style"));
writeFileSync(join(out, "view.html"), readFileSync(join(here, "src/view.html"), "utf8"));
