/** What hands do to the timeline: wheel, mouse, touch. */
import type { App } from "./app";
import { RULER } from "./lanes";
import type { Timeline } from "./timeline";
import { center, move, zoom, type Span } from "./window";

export function hands(t: Timeline, app: App): void {
  const c = t.canvas;
  const place = (e: { clientX: number; clientY: number }): [number, number] => {
    const box = c.getBoundingClientRect();
    return [e.clientX - box.left, e.clientY - box.top];
  };
  c.addEventListener("wheel", (e) => {
    e.preventDefault();
    const [x] = place(e), unit = e.deltaMode === 1 ? 30 : 1;
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      app.show(move(app.span, (e.deltaX || e.deltaY) * unit * t.nsPerPixel, app.all));
    } else {
      app.show(zoom(app.span, Math.exp(Math.max(-200, Math.min(200, e.deltaY * unit)) * 0.002), t.time(x), app.all));
    }
  }, { passive: false });
  const down = new Map<number, [number, number]>();
  let start: { x: number; y: number; span: Span; moved: boolean; range: boolean } | null = null;
  let pinch: { distance: number; time: number; span: Span } | null = null;
  c.addEventListener("pointerdown", (e) => {
    c.setPointerCapture(e.pointerId);
    const [x, y] = place(e);
    down.set(e.pointerId, [x, y]);
    if (down.size === 2) {
      const [p, q] = [...down.values()];
      pinch = { distance: Math.max(10, Math.abs(p[0] - q[0])), time: t.time((p[0] + q[0]) / 2), span: app.span };
      start = null;
    } else {
      start = { x, y, span: app.span, moved: false, range: y < RULER };
    }
    t.scroller.focus({ preventScroll: true });
  });
  c.addEventListener("pointermove", (e) => {
    const [x, y] = place(e);
    t.pointer = t.time(x);
    if (down.has(e.pointerId)) down.set(e.pointerId, [x, y]);
    if (pinch && down.size === 2) {
      const [p, q] = [...down.values()];
      const s = zoom(pinch.span, pinch.distance / Math.max(10, Math.abs(p[0] - q[0])), pinch.time, app.all);
      const middle = (p[0] + q[0]) / 2, npp = (s.to - s.from) / t.plotWidth;
      app.show(move(s, pinch.time - (s.from + middle * npp), app.all));
      return;
    }
    if (start) {
      if (Math.abs(x - start.x) + Math.abs(y - start.y) > 4) start.moved = true;
      if (start.moved && !start.range) {
        const npp = (start.span.to - start.span.from) / t.plotWidth;
        app.show(move(start.span, (start.x - x) * npp, app.all));
        if (e.pointerType === "touch") t.scroller.scrollTop += -(e.movementY || 0);
      }
      t.tip.hidden = true;
      return;
    }
    hover(t, x, y, e.clientX, e.clientY);
  });
  const up = (e: PointerEvent) => {
    down.delete(e.pointerId);
    if (pinch) { if (down.size === 0) pinch = null; return; }
    if (!start) return;
    const [x, y] = place(e), s = start;
    start = null;
    if (s.moved && s.range && Math.abs(x - s.x) > 4) {
      return app.show({ from: t.time(Math.min(x, s.x)), to: t.time(Math.max(x, s.x)) });
    }
    if (s.moved) return;
    const at = t.time(x);
    if (e.shiftKey) return app.mark("a", at);
    if (e.ctrlKey || e.metaKey || e.altKey) return app.mark("b", at);
    app.pick(t.hit(x, y), at);
  };
  c.addEventListener("pointerup", up);
  c.addEventListener("pointercancel", (e) => { down.delete(e.pointerId); start = null; pinch = null; });
  c.addEventListener("pointerleave", () => { t.tip.hidden = true; });
  c.addEventListener("dblclick", (e) => {
    const [x, y] = place(e), hit = t.hit(x, y);
    if (hit?.exact && hit.to > hit.from) {
      const margin = (hit.to - hit.from) * 0.25;
      const wide = Math.max(hit.to - hit.from + 2 * margin, (app.span.to - app.span.from) / 50);
      const middle = (hit.from + hit.to) / 2;
      app.show(center({ from: middle - wide / 2, to: middle + wide / 2 }, middle, app.all));
    } else {
      app.show(center(app.span, hit ? (hit.from + hit.to) / 2 : t.time(x), app.all));
    }
  });
}

function hover(t: Timeline, x: number, y: number, cx: number, cy: number): void {
  const hit = t.hit(x, y);
  t.tip.hidden = !hit;
  if (!hit) return;
  t.tip.replaceChildren(...t.words(hit).map((text) => { const p = document.createElement("p"); p.textContent = text; return p; }));
  const left = Math.min(cx + 14, innerWidth - t.tip.offsetWidth - 8), top = Math.min(cy + 16, innerHeight - t.tip.offsetHeight - 8);
  t.tip.style.left = `${Math.max(0, left)}px`;
  t.tip.style.top = `${Math.max(0, top)}px`;
}
