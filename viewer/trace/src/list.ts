/** The event list: as many rows as there are events, and only those in sight in the page. */
import type { App } from "./app";
import { count, moment } from "./format";
import type { Row } from "./types";

const ROW = 20;
/** Browsers cannot scroll further than some tens of millions of pixels. */
const TALLEST = 8_000_000;
const PAGE = 100;

export class List {
  readonly box = document.createElement("div");
  private body = document.createElement("div");
  private spacer = document.createElement("div");
  private pages = new Map<number, Row[]>();
  private asked = new Map<number, Promise<void>>();
  private era = 0;
  total = 0;
  /** First row in sight; kept apart from the scroll bar, whose steps are coarser. */
  private top = 0;
  private own = false;
  source = 0;
  set = 0;

  constructor(private app: App) {
    this.box.className = "list";
    this.box.tabIndex = 0;
    this.box.setAttribute("role", "grid");
    this.box.setAttribute("aria-label", "Events");
    this.body.className = "rows";
    this.box.append(this.spacer, this.body);
    this.box.addEventListener("scroll", () => {
      if (this.own) { this.own = false; return; }
      const span = this.spacer.offsetHeight - this.box.clientHeight;
      const most = Math.max(0, this.total - this.visible());
      this.top = span > 0 ? Math.round((this.box.scrollTop / span) * most) : 0;
      this.draw();
    });
    this.box.addEventListener("wheel", (e) => {
      if (this.total * ROW <= TALLEST) return;
      e.preventDefault();
      this.scrollTo(this.top + Math.round(e.deltaY / ROW) || this.top + Math.sign(e.deltaY));
    }, { passive: false });
    this.box.addEventListener("keydown", (e) => this.keys(e));
    this.body.addEventListener("click", (e) => this.clicked(e, false));
    this.body.addEventListener("dblclick", (e) => this.clicked(e, true));
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  private visible(): number { return Math.max(1, Math.floor(this.box.clientHeight / ROW)); }

  /** Shows the events of a source, or of a selection of them. */
  show(source: number, set: number, total: number): void {
    this.source = source;
    this.set = set;
    this.total = total;
    this.pages.clear();
    this.asked.clear();
    this.era++;
    this.spacer.style.height = `${Math.min(TALLEST, total * ROW)}px`;
    this.box.setAttribute("aria-rowcount", String(total));
    this.scrollTo(Math.min(this.top, Math.max(0, total - 1)));
  }

  scrollTo(row: number): void {
    const most = Math.max(0, this.total - this.visible());
    this.top = Math.min(most, Math.max(0, row));
    const span = this.spacer.offsetHeight - this.box.clientHeight;
    const at = most > 0 ? Math.round((this.top / most) * span) : 0;
    if (this.box.scrollTop !== at) { this.own = true; this.box.scrollTop = at; }
    this.draw();
  }

  /** Brings a row into sight. */
  reveal(place: number): void {
    const n = this.visible();
    if (place < this.top || place >= this.top + n) this.scrollTo(place - Math.floor(n / 2));
    else this.draw();
  }

  row(place: number): Row | undefined { return this.pages.get(Math.floor(place / PAGE))?.[place % PAGE]; }

  /** A row, read if need be. */
  async fetch(place: number): Promise<Row | undefined> {
    const page = Math.floor(place / PAGE);
    if (!this.pages.has(page)) await this.load(page);
    return this.row(place);
  }

  /** Reads a page of rows; whoever wants one that is under way waits for it. */
  private load(page: number): Promise<void> {
    const under = this.asked.get(page);
    if (under) return under;
    const done = this.read(page);
    this.asked.set(page, done);
    return done;
  }

  private async read(page: number): Promise<void> {
    const era = this.era;
    try {
      const rows = await this.app.data.rows(this.source, this.set, page * PAGE, PAGE);
      if (era !== this.era) return;
      this.pages.set(page, rows);
      if (this.pages.size > 60) this.pages.delete(this.pages.keys().next().value!);
      this.draw();
    } catch (e) {
      this.app.say(String(e instanceof Error ? e.message : e));
    } finally {
      // A list that was changed meanwhile asks for itself.
      if (era === this.era) this.asked.delete(page);
    }
  }

  draw(): void {
    if (!this.app.info) return;
    const n = Math.min(this.visible() + 1, this.total - this.top);
    const base = this.app.base, shift = this.app.shift[this.source] ?? 0, source = this.app.info.sources[this.source];
    const selected = this.app.selected;
    const rows: HTMLElement[] = [];
    for (let i = 0; i < n; i++) {
      const place = this.top + i, row = this.row(place);
      const line = document.createElement("div");
      line.className = "row";
      line.setAttribute("role", "row");
      line.setAttribute("aria-rowindex", String(place + 1));
      line.dataset.place = String(place);
      if (!row) {
        const page = Math.floor(place / PAGE);
        if (!this.pages.has(page)) void this.load(page);
        line.append(cell("n", count(place)), cell("text", "\u2026"));
      } else {
        const kind = source?.kinds.find((k) => k[0] === row.kind)?.[1] ?? `unknown ${row.kind}`;
        if (selected && selected.source === this.source && selected.row === row.row) {
          line.classList.add("selected");
          line.setAttribute("aria-selected", "true");
          line.id = "selected-row";
        }
        if (row.lost) line.classList.add("lost");
        line.append(
          cell("n", count(row.row)), cell("time", moment(base, row.t + shift)), cell("cpu", String(row.cpu)),
          cell("task", `${row.comm}-${row.pid}`), cell("event", kind),
          cell("text", (row.lost ? `[${row.lost > 0 ? row.lost : "some"} events lost before] ` : "") + row.text),
        );
      }
      rows.push(line);
    }
    this.body.replaceChildren(...rows);
    this.body.style.transform = `translateY(${this.box.scrollTop}px)`;
    if (rows.some((r) => r.id)) this.box.setAttribute("aria-activedescendant", "selected-row");
    else this.box.removeAttribute("aria-activedescendant");
  }

  private clicked(e: Event, twice: boolean): void {
    if (getSelection()?.toString() && !twice) return;
    const line = (e.target as HTMLElement).closest<HTMLElement>(".row");
    const row = line && this.row(Number(line.dataset.place));
    if (row) this.app.select(this.source, row, twice ? "center" : "show");
  }

  private keys(e: KeyboardEvent): void {
    const page = this.visible() - 1;
    const by: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const move = by[e.key];
    const end = e.key === "Home" ? 0 : e.key === "End" ? this.total - 1 : null;
    if ((move === undefined && end === null) || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    e.stopPropagation();
    void this.go(end ?? (this.app.place ?? this.top) + (move ?? 0));
  }

  /** Selects the event at a place of the list. */
  async go(place: number): Promise<void> {
    const to = Math.min(this.total - 1, Math.max(0, place));
    this.app.place = to;
    const row = await this.fetch(to);
    if (row) this.app.select(this.source, row, "show", to);
  }
}

function cell(name: string, text: string): HTMLElement {
  const c = document.createElement("span");
  c.className = name;
  c.setAttribute("role", "gridcell");
  c.textContent = text;
  return c;
}
