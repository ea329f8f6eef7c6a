import { App } from "./app";
import { Embedded } from "./embedded";
import { Server } from "./server";

const root = document.getElementById("app")!;
const inside = document.getElementById("latlab-data");
try {
  const app: App = new App(inside?.textContent ? new Embedded(JSON.parse(inside.textContent)) : new Server((s) => app.warn(s)), root);
  // For the tests and the measuring script: what is shown, and how long drawing took.
  (window as unknown as { latlab: App }).latlab = app;
  app.start().catch((e: unknown) => app.say(e instanceof Error ? e.message : String(e)));
} catch (e) {
  root.textContent = e instanceof Error ? e.message : String(e);
}
