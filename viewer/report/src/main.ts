/** Puts an interactive plot in place of each static one. Without this script the page is complete. */
import type uPlot from "uplot";
import { draw, moved, reset } from "./chart";
import { number } from "./format";
import { canBeLogarithmic, rescaled, type PlotModel } from "./model";

type Redraw = () => void;
const redraws: Redraw[] = [];

function button(text: string, title: string, click: () => void): HTMLButtonElement {
  const b = document.createElement("button");
  b.type = "button";
  b.textContent = text;
  b.title = title;
  b.addEventListener("click", click);
  return b;
}

/** A button that turns one axis from linear to logarithmic and back. */
function scaleButton(original: PlotModel, side: "x" | "y", change: (axis: PlotModel["x"]) => void): HTMLButtonElement {
  const log = original[side].scale === "log2" ? "log2" : "log10";
  let now = original[side].scale;
  const name = side === "x" ? "horizontal" : "vertical";
  const b = button("", `Scale of the ${name} axis`, () => {
    now = now === "linear" ? log : "linear";
    label();
    change(rescaled(original, side, now));
  });
  const label = () => { b.textContent = `${side}: ${now === "linear" ? "linear" : "logarithmic"}`; };
  label();
  return b;
}

function keys(u: uPlot, plot: PlotModel, event: KeyboardEvent): boolean {
  const zoom: Record<string, [number, number]> = {
    "+": [0.5, 0], "=": [0.5, 0], "-": [2, 0], ArrowLeft: [1, -0.2], ArrowRight: [1, 0.2],
  };
  if (event.key === "0" || event.key === "Home") {
    reset(u, plot);
    return true;
  }
  const move = zoom[event.key];
  const { min, max } = u.scales.x ?? {};
  if (!move || event.ctrlKey || event.metaKey || event.altKey || min == null || max == null) return false;
  const [a, b] = moved(plot.x, min, max, ...move);
  u.setScale("x", { min: a, max: b });
  return true;
}

/** The legend hides and shows series: by keyboard too. */
function legendKeys(box: HTMLElement): void {
  box.querySelectorAll<HTMLElement>(".u-legend .u-series:not(:first-child) th").forEach((th) => {
    th.tabIndex = 0;
    th.setAttribute("role", "button");
    const state = () => th.setAttribute("aria-pressed", String(!th.parentElement?.classList.contains("u-off")));
    state();
    th.addEventListener("click", () => setTimeout(state));
    th.addEventListener("keydown", (e) => {
      if (e.key === "Enter" || e.key === " ") {
        e.preventDefault();
        e.stopPropagation();
        th.click();
      }
    });
  });
}

/** What the colours of a heat map mean. */
function ramps(plot: PlotModel): HTMLElement[] {
  return plot.series.flatMap((s) => {
    if (!s.ramp || s.least == null || s.most == null) return [];
    const swatch = document.createElement("span");
    swatch.className = "ramp";
    swatch.style.background = `linear-gradient(to right, ${s.ramp.join(", ")})`;
    const all = document.createElement("span");
    all.className = "hint";
    all.append(`${s.name} ${number(s.least)} `, swatch, ` ${number(s.most)}`);
    return [all];
  });
}

function live(figure: HTMLElement): void {
  const data = figure.querySelector<HTMLScriptElement>("script[type='application/json']");
  const drawing = figure.querySelector<HTMLElement>(".drawing");
  if (!data?.textContent || !drawing) return;
  const original = JSON.parse(data.textContent) as PlotModel;
  if (!original.series.some((s) => s.x.length > 0)) return;
  let plot = original;
  let u: uPlot | undefined;

  const bar = document.createElement("div");
  bar.className = "toolbar";
  const words = document.createElement("span");
  words.className = "readout";
  const box = document.createElement("div");
  box.className = "live";
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", `${original.title}, interactive. Plus and minus zoom, arrows move, 0 shows all.`);

  const redraw = () => {
    u?.destroy();
    const width = Math.max(280, Math.floor(drawing.clientWidth));
    u = draw(plot, box, width, (text) => { words.textContent = text; });
    legendKeys(box);
  };
  for (const side of ["x", "y"] as const) {
    if (original[side].scale !== "log2" && canBeLogarithmic(original, side)) {
      bar.append(scaleButton(original, side, (axis) => { plot = { ...plot, [side]: axis }; redraw(); }));
    }
  }
  bar.append(button("Show all", "Undo zooming (0)", () => { if (u) reset(u, plot); }));
  const hint = document.createElement("span");
  hint.className = "hint";
  hint.textContent = "drag to zoom, double click to show all";
  bar.append(...ramps(original), hint, words);

  drawing.classList.add("has-live");
  drawing.append(bar, box);
  box.addEventListener("keydown", (e) => { if (u && keys(u, plot, e)) e.preventDefault(); });
  redraw();
  redraws.push(redraw);
  let width = drawing.clientWidth;
  new ResizeObserver(() => {
    if (drawing.clientWidth === width || drawing.clientWidth === 0) return;
    width = drawing.clientWidth;
    u?.setSize({ width: Math.max(280, Math.floor(width)), height: u.height });
  }).observe(drawing);
}

/** A button that turns the page from light to dark and back; the system's choice at first. */
function theme(): void {
  const b = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const all = () => redraws.forEach((f) => f());
  system.addEventListener("change", all);
  if (!b) return;
  const label = () => { b.textContent = dark() ? "Light" : "Dark"; };
  b.hidden = false;
  label();
  b.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    label();
    all();
  });
}

/** A link to a section opens it; paper has everything open. */
function sections(): void {
  const all = [...document.querySelectorAll<HTMLDetailsElement>("details.section")];
  const open = () => {
    const name = decodeURIComponent(location.hash.slice(1));
    const target = name ? document.getElementById(name)?.closest<HTMLDetailsElement>("details.section") : null;
    if (target) target.open = true;
  };
  addEventListener("hashchange", open);
  open();
  let shut: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    shut = all.filter((d) => !d.open);
    shut.forEach((d) => { d.open = true; });
  });
  addEventListener("afterprint", () => shut.forEach((d) => { d.open = false; }));
}

theme();
sections();
document.querySelectorAll<HTMLElement>("figure.plot").forEach((figure) => {
  try {
    live(figure);
  } catch (error) {
    // The static drawing stays.
    figure.querySelector(".drawing")?.classList.remove("has-live");
    console.error(error);
  }
});
