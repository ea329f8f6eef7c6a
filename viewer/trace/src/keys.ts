/** What keys do, and the page's help about it. */
import type { App } from "./app";
import { button, el, table } from "./dom";
import { center, move, zoom } from "./window";

/** Tabs below the timeline, in the order of their keys: 1, 2, … */
export const TABS: [string, string][] = [
  ["events", "Events"], ["late", "Late wake-ups"], ["latency", "Latency"], ["field", "Field over time"], ["flame", "Flame graph"],
  ["show", "Show and hide"], ["sources", "Sources"],
];

const HELP: [string, string][] = [
  ["W / S, + / \u2212, wheel, pinch", "zoom"], ["A / D, \u2190 / \u2192, drag, Shift + wheel", "move"], ["\u2191 / \u2193, drag on labels", "scroll lanes"],
  ["drag on the ruler", "zoom to that interval"], ["0", "show everything"], ["click; Shift + \u2190 / \u2192", "select an event; the previous, the next one"], ["double click", "centre"],
  ["F", "centre the selected event"], ["Shift + click, [", "marker A"], ["Ctrl + click, ]", "marker B"], ["M", "zoom to the markers"], ["X", "remove the markers"], ["/", "search"],
  ["N / P", "next, previous match"], [". / ,", "next, previous segment of the critical path"], ["L / K", "next, previous late wake-up"], [`1 to ${TABS.length}`, "tabs below the timeline, also \u2190 and \u2192 on them"],
  ["Tab, Enter", "to buttons, lanes, plots and rows, and to press them"], ["E", "to the event list; \u2191 \u2193, Page, Home and End select there"], ["I", "to the fields of the selected event"], ["T", "to the timeline"],
  ["\u2191 \u2193 \u2190 \u2192, Enter, Esc", "in a flame graph: the box above, below or beside, widen it, show all"],
  ["C", "copy what is selected"], ["Esc", "leave a field; close this help"], ["?", "this help"],
];

/** The help. */
export function help(): HTMLDialogElement {
  const dialog: HTMLDialogElement = el("dialog", { id: "help", "aria-labelledby": "help-title" },
    el("h2", { id: "help-title" }, "Keyboard and mouse"), table(["keys or mouse", "what they do"], HELP.map((h) => [h[0], h[1]])), button("Close", "Close", () => dialog.close()));
  return dialog;
}

export function keys(app: App, e: KeyboardEvent): void {
  const target = e.target as HTMLElement;
  if (e.ctrlKey || e.metaKey || e.altKey || !app.info) return;
  if (["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName) || target.closest("dialog")) {
    // A search field would empty itself.
    if (e.key === "Escape" && !target.closest("dialog")) { e.preventDefault(); target.blur(); }
    return;
  }
  // Elsewhere the arrows scroll what has the focus.
  if (e.key.startsWith("Arrow") && target !== document.body && !target.closest(".timeline")) return;
  const { timeline, span, all } = app;
  const middle = (span.from + span.to) / 2, by = (span.to - span.from) * 0.15;
  const at = timeline.pointer !== null && timeline.pointer >= span.from && timeline.pointer <= span.to ? timeline.pointer : middle;
  const here = app.selected?.time ?? at;
  const scroll = (d: number) => { timeline.scroller.scrollTop += d; };
  const closer = (t: number) => app.show(zoom(span, 0.7, t, all)), further = (t: number) => app.show(zoom(span, 1 / 0.7, t, all));
  const shift = (d: number) => () => (e.shiftKey ? void app.list.go((app.place ?? -1) + Math.sign(d)) : app.show(move(span, d, all)));
  const act: Record<string, () => void> = {
    w: () => closer(at), s: () => further(at), "+": () => closer(middle), "=": () => closer(middle), "-": () => further(middle),
    a: () => app.show(move(span, -by, all)), d: () => app.show(move(span, by, all)), ArrowLeft: shift(-by), ArrowRight: shift(by),
    ArrowUp: () => scroll(-40), ArrowDown: () => scroll(40),
    "0": () => app.show({ ...all }), f: () => { if (app.selected) app.show(center(span, app.selected.time, all)); },
    "[": () => app.mark("a", here), "]": () => app.mark("b", here), x: () => { app.mark("a", null); app.mark("b", null); },
    m: () => { const { a, b } = app.session; if (a !== null && b !== null && a !== b) { const w = Math.abs(b - a) * 0.1; app.show({ from: Math.min(a, b) - w, to: Math.max(a, b) + w }); } },
    "/": () => document.getElementById("search")?.focus(), n: () => void app.find(false), p: () => void app.find(true),
    l: () => app.latePanel.step(1), k: () => app.latePanel.step(-1), ".": () => app.latePanel.path.step(1), ",": () => app.latePanel.path.step(-1), c: () => void app.copy(),
    e: () => { app.tab("events"); app.list.box.focus(); }, i: () => app.eventPanel.focus(), t: () => timeline.scroller.focus(),
    "?": () => (document.getElementById("help") as HTMLDialogElement).showModal(),
  };
  TABS.forEach(([id], i) => { act[String(i + 1)] = () => app.tab(id); });
  const f = act[e.key.length === 1 ? e.key.toLowerCase() : e.key];
  if (!f) return;
  e.preventDefault();
  f();
}
