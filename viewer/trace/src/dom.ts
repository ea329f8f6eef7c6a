/** Small helpers for elements. Text is always text: nothing of a trace becomes markup. */
type Child = Node | string | null | undefined | false;
type Props = { [key: string]: string | number | boolean | ((e: Event) => void) | undefined };

export function el<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (typeof value === "function") e.addEventListener(key.replace(/^on/, ""), value);
    else if (value === true) e.setAttribute(key, "");
    else if (value !== false && value !== undefined) e.setAttribute(key, String(value));
  }
  for (const child of children) if (child) e.append(child);
  return e;
}

export const button = (text: string, title: string, click: () => void, props: Props = {}): HTMLButtonElement =>
  el("button", { type: "button", title, onclick: () => click(), ...props }, text);

/** A table with a head. */
export function table(head: string[], rows: (Child[] | HTMLTableRowElement)[], caption = ""): HTMLTableElement {
  return el("table", {}, caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, ...head.map((h) => el("th", { scope: "col" }, h)))),
    el("tbody", {}, ...rows.map((r) => (r instanceof HTMLTableRowElement ? r : el("tr", {}, ...r.map((c) => el("td", {}, c)))))));
}
