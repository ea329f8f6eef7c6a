import { App } from "./app";
import { Embedded } from "./embedded";
import { Server } from "./server";

const root = document.getElementById("app")!;
const inside = document.getElementById("latlab-data");
const say = (sentence: string) => {
  const p = document.querySelector<HTMLElement>(".trouble");
  if (p) { p.textContent = sentence; p.hidden = false; }
};
try {
  const app = new App(inside?.textContent ? new Embedded(JSON.parse(inside.textContent)) : new Server(say), root);
  // For the tests and the measuring script: what is shown, and how long drawing took.
  (window as unknown as { latlab: App }).latlab = app;
  app.start().catch((e: unknown) => say(e instanceof Error ? e.message : String(e)));
} catch (e) {
  root.textContent = e instanceof Error ? e.message : String(e);
}
