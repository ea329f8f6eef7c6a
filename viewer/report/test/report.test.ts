import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, number, places, ticks, value } from "../src/format";
import { canBeLogarithmic, rescaled, type AxisModel, type PlotModel, type SeriesModel } from "../src/model";
import { columns, moved, under_cursor } from "../src/chart";
import { edges, faint, inkOn } from "../src/paint";

const axis = (o: Partial<AxisModel> = {}): AxisModel =>
  ({ label: "", scale: "linear", categories: [], bytes: false, min: 0, max: 1, ...o });
const series = (o: Partial<SeriesModel>): SeriesModel => ({ name: "s", kind: "line", x: [], y: [], ...o });
const plot = (o: Partial<PlotModel>): PlotModel =>
  ({ id: "p", title: "p", x: axis(), y: axis(), series: [], marks: [], ...o });

test("numbers are written as in the static drawings", () => {
  assert.deepEqual([0, 0.5, 14.13, 150, 20000, 3_100_000, 0.00031].map(number),
    ["0", "0.5", "14.1", "150", "20k", "3.1M", "0.00031"]);
  assert.deepEqual([512, 32768, 1572864].map(bytes), ["512", "32K", "1.5M"]);
  assert.equal(value(axis(), null), "–");
  assert.equal(value(axis({ scale: "category", categories: ["a", "b"] }), 1), "b");
  assert.deepEqual(ticks(axis(), [1_000_000, 1_000_100]), ["1M", "1.0001M"]);
});

test("ticks of a logarithmic axis fit the space", () => {
  const log = axis({ scale: "log10" });
  assert.deepEqual(places(log, 2, 300_000, 6), [10, 100, 1000, 10_000, 100_000]);
  assert.deepEqual(places(log, 3, 90, 6), [5, 10, 20, 50]);
  assert.ok(places(log, 14, 17, 6)!.length >= 3, "zoomed into less than a decade");
  assert.deepEqual(places(axis({ scale: "log2" }), 1024, 8192, 10), [1024, 2048, 4096, 8192]);
  assert.equal(places(axis(), 0, 1, 5), null);
});

test("a histogram can turn linear and back", () => {
  const h = plot({
    x: axis({ scale: "log10", min: 10, max: 1200 }), y: axis({ scale: "log10", min: 0.7, max: 300_000 }),
    series: [series({ kind: "step", x: [10, 20, 1190], y: [200_000, 0, 3] })],
  });
  assert.ok(canBeLogarithmic(h, "x") && canBeLogarithmic(h, "y"), "empty bins do not forbid it");
  const linear = rescaled(h, "y", "linear");
  assert.deepEqual([linear.scale, linear.min, linear.max], ["linear", 0, 208_000]);
  assert.equal(rescaled({ ...h, y: linear }, "y", "log10").min, 0.7);
  const negative = plot({ series: [series({ x: [-1, 1], y: [1, 2] })] });
  assert.ok(!canBeLogarithmic(negative, "x"));
  assert.ok(!canBeLogarithmic(plot({ series: [series({ kind: "heat", x: [1], y: [1] })] }), "x"));
});

test("series with different x share one table", () => {
  const p = plot({ series: [series({ x: [1, 3], y: [10, 30] }), series({ x: [2, 3, 3], y: [20, 31, 32] })] });
  const data = columns(p);
  assert.deepEqual(data[0], [1, 2, 3]);
  assert.deepEqual(data[1], [10, undefined, 30]);
  assert.deepEqual(data[2], [undefined, 20, 32]);
  assert.deepEqual(columns(plot({})), [[]]);
});

test("the cursor names the span and the cell", () => {
  const spans = plot({
    y: axis({ scale: "category", categories: ["CPU 0", "CPU 1"] }),
    series: [series({ name: "kworker", kind: "spans", x: [4], y: [1], values: [8] })],
  });
  assert.equal(under_cursor(spans, 5, 1.2), "kworker: 4 to 8 (4)");
  assert.equal(under_cursor(spans, 9, 1.2), "");
  const heat = plot({
    y: axis({ scale: "category", categories: ["cpu", "vm"] }),
    series: [series({ name: "µs", kind: "heat", x: [1, 2, 1, 2], y: [0, 0, 1, 1], values: [5, 6, 7, 8] })],
  });
  assert.equal(under_cursor(heat, 1.9, 0.8), "2, vm: 8 µs");
});

test("zooming keeps the middle, on each scale", () => {
  assert.deepEqual(moved(axis(), 0, 100, 0.5, 0), [25, 75]);
  assert.deepEqual(moved(axis(), 0, 100, 1, 0.2), [20, 120]);
  const [a, b] = moved(axis({ scale: "log10" }), 1, 10_000, 0.5, 0);
  assert.ok(Math.abs(a - 10) < 1e-9 && Math.abs(b - 1000) < 1e-9);
});

test("cells touch", () => {
  assert.deepEqual(edges([1, 2, 4]), [0.5, 1.5, 3, 5]);
  assert.deepEqual(edges([1, 4, 16], true), [0.5, 2, 8, 32]);
  assert.deepEqual([inkOn("#00204d"), inkOn("#ffea46")], ["#fff", "#000"]);
  assert.equal(faint("#0072B2", 0.5), "#0072B280");
});
