/** What is taken out of the page, and back into it: the clipboard and session files. */
import type { App } from "./app";
import { el } from "./dom";
import { decode, encode } from "./state";

/** Copies what is selected, or marked with the mouse, and the markers. */
export async function copy(app: App): Promise<void> {
  const marked = getSelection()?.toString();
  const text = marked || [...app.box.detail.querySelectorAll("span")].map((s) => s.textContent).join("\t");
  const all = [text, app.box.markers.textContent].filter(Boolean).join("\n");
  try {
    await navigator.clipboard.writeText(all);
    app.say("");
  } catch {
    app.say("The browser does not let this page copy; mark the text and press Ctrl-C.");
  }
}

/** Saves the session as a file. */
export function download(app: App): void {
  const text = JSON.stringify({ latlab_view: 1, title: app.info?.title, session: encode(app.session) });
  const a = el("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: `${app.info?.title ?? "trace"}.session.json` });
  a.click();
  URL.revokeObjectURL(a.href);
}

/** Opens a saved session. */
export function load(app: App, text: string): void {
  try {
    const file = JSON.parse(text) as { latlab_view?: number; session?: string };
    if (file.latlab_view !== 1 || typeof file.session !== "string") throw new Error("no session");
    void app.restore(decode(file.session)).then(() => app.save());
  } catch {
    app.say("This file is no session of latlab view.");
  }
}
