/** Beside the list: all fields and stacks of the selected event; before one is selected, what can be done. */
import type { App } from "./app";
import { button, el, table } from "./dom";
import type { Detail, FieldText, Row, Stack } from "./types";

const CLOSED = "latlab-view-hints";
/** This browser may keep nothing. */
const keep = (f: () => string | null | void) => { try { return f(); } catch { return null; } };

export class EventPanel {
  readonly box = el("aside", { class: "event-panel", "aria-label": "Selected event", tabindex: 0 });
  private asked = 0;

  constructor(private app: App) { this.hints(); }

  focus(): void { if (!this.box.hidden) this.box.focus(); }

  /** What can be done, until the reader closes it or selects an event. */
  private hints(): void {
    this.box.hidden = keep(() => localStorage.getItem(CLOSED)) === "closed";
    const { app } = this;
    const step = (words: string, keys: string, does: string, act: () => void) => el("li", {}, el("span", {}, words, el("kbd", {}, keys)), button(does, words, act));
    this.box.replaceChildren(
      el("div", { class: "event-head" }, el("h2", {}, "What you can do here"),
        button("\u00d7", "Close this hint", () => { this.box.hidden = true; keep(() => localStorage.setItem(CLOSED, "closed")); }, { "aria-label": "Close this hint" })),
      el("p", {}, "Zoom with the wheel or W and S, move by dragging or with A and D. A click on the timeline or in the list selects an event: its fields and stacks are shown here."),
      el("ul", { class: "steps" },
        step("Who made a task late", "L", "Next late wake-up", () => app.latePanel.step(1)),
        step("Find an event, a task or a value", "/", "Search", () => document.getElementById("search")?.focus()),
        step("Time between two events", "3", "Latency", () => app.tab("latency")),
        step("Functions and stacks of the visible range", "5", "Flame graph", () => app.tab("flame")),
        step("All keys", "?", "Help", () => (document.getElementById("help") as HTMLDialogElement).showModal())));
  }

  /** Shows an event. */
  async show(source: number, row: Row): Promise<void> {
    const asked = ++this.asked;
    try {
      const detail = await this.app.data.event(source, row.row);
      if (asked !== this.asked) return;
      this.box.hidden = false;
      this.draw(row, detail);
    } catch (e) {
      if (asked === this.asked) this.app.say(e instanceof Error ? e.message : String(e));
    }
  }

  private draw(row: Row, detail: Detail): void {
    const own = detail.fields.filter((f) => !f.common), common = detail.fields.filter((f) => f.common);
    this.box.replaceChildren(
      el("div", { class: "event-head" }, el("h2", {}, detail.name), el("span", { class: "dim" }, `event ${row.row}`), button("\u00d7", "Close the fields of the event", () => { this.box.hidden = true; }, { "aria-label": "Close the fields of the event" })),
      own.length ? fields(own, "Fields of the event") : el("p", { class: "dim" }, "The trace does not describe the fields of this event."),
      ...detail.stacks.map((s) => this.stack(s, row)),
      ...(common.length ? [fields(common, "Fields of all events")] : []),
      ...(detail.stacks.length ? [] : [el("p", { class: "dim" }, "No stack was recorded with this event; latlab record -T records kernel stacks.")]));
  }

  private stack(stack: Stack, row: Row): HTMLElement {
    const of = stack.user ? "User stack" : "Kernel stack", n = stack.frames.length;
    return el("section", { class: "stack", "aria-label": of },
      el("h3", {}, `${of}, innermost first (${n} ${n === 1 ? "frame" : "frames"})`),
      el("ol", {}, ...stack.frames.map((f) => el("li", {}, el("span", {}, f.name), f.module ? el("span", { class: "dim" }, ` [${f.module}]`) : null, f.name.startsWith("0x") ? null : el("span", { class: "dim" }, ` ${f.address}`)))),
      stack.user ? el("p", { class: "dim" }, "Addresses: a trace has no symbols of user space.") : null,
      stack.row !== row.row ? el("p", { class: "dim" }, `Recorded as event ${stack.row}.`) : null);
  }
}

const fields = (list: FieldText[], caption: string): HTMLElement =>
  table(["field", "value", "type"], list.map((f) => [f.name, el("span", { class: "value" }, f.value, f.unit ? el("span", { class: "dim" }, ` ${f.unit}`) : null), el("span", { class: "dim" }, f.ty)]), caption);
