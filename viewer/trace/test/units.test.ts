import { describe, expect, test } from "vitest";
import { cut, frames } from "../src/embedded";
import { compile, glob, type Kind, type Valued } from "../src/expression";
import { functions, places } from "../src/flame";
import { count, exact, length, moment, parse, step } from "../src/format";
import { control } from "../src/late";
import { Columns } from "../src/raster";
import { decode as decodeSession, empty, encode } from "../src/state";
import { BINS, binsTile, decode, extent, itemsTile, levelOf } from "../src/tile";
import { entries, outer, percent, share, sum, tasks } from "../src/path";
import { apart, outside } from "../src/path-draw";
import type { Arrow, Part, WakeUp } from "../src/types";
import { center, keep, move, zoom } from "../src/window";
import { family, hash, hashText, ink, luminance, pack } from "../src/color";
import { numbers } from "../src/field";

const items = (...list: [number, number, number][]) =>
  itemsTile(Float64Array.from(list.map((i) => i[0])), Float64Array.from(list.map((i) => i[1])), Uint32Array.from(list.map((i) => i[2])), new Uint32Array(list.length));
const all = () => true;

describe("times", () => {
  test("are written with a fitting unit", () => {
    expect([0, 999, 1500, 12_345, 250_000, 2_500_000, 61e9, 9000e9].map(length)).toEqual(
      ["0 ns", "999 ns", "1.500 \u00b5s", "12.35 \u00b5s", "250.0 \u00b5s", "2.500 ms", "61.00 s", "2.500 h"]);
    expect(length(-1500)).toBe("\u22121.500 \u00b5s");
    expect(exact(1234567)).toBe("1\u202f234\u202f567 ns");
    expect(count(10_000_000)).toBe("10\u202f000\u202f000");
  });
  test("are exact however long the machine has been up", () => {
    // 300 days in ns is beyond 2^53.
    expect(moment(25_920_000_000_000_000n, 1)).toBe("25920000.000000001");
    expect(moment(0n, -5)).toBe("-0.000000005");
    expect(moment(923_632_241_000n, 0, 6)).toBe("923.632241");
  });
  test("are read as people type them", () => {
    expect(["1.5ms", "200us", "3", "2 s", "-7ns"].map(parse)).toEqual([1.5e6, 2e5, 3000, 2e9, -7]);
    expect([parse("x"), parse("1 week"), parse("")]).toEqual([null, null, null]);
  });
  test("ticks are 1, 2 or 5", () => {
    expect([step(1000, 10), step(1001, 10), step(3.3e9, 8), step(10, 5)]).toEqual([100, 200, 5e8, 2]);
  });
});

describe("the window", () => {
  const whole = { from: 0, to: 1e9 };
  test("zooms round the pointer", () => {
    const s = zoom({ from: 0, to: 1000 }, 0.5, 250, whole);
    expect(s).toEqual({ from: 125, to: 625 });
    expect(zoom({ from: 0, to: 12 }, 0.001, 6, whole).to - zoom({ from: 0, to: 12 }, 0.001, 6, whole).from).toBeCloseTo(10);
    const far = zoom(whole, 1e6, 5, whole);
    expect(far.to - far.from).toBeLessThan(1.2e9);
  });
  test("does not leave the trace", () => {
    expect(keep({ from: -5000, to: -4000 }, whole).to).toBeCloseTo(20);
    expect(keep({ from: 2e9, to: 3e9 }, whole).from).toBeCloseTo(1e9 - 2e7);
    expect(move({ from: 10, to: 20 }, 5, whole)).toEqual({ from: 15, to: 25 });
    expect(center({ from: 0, to: 100 }, 500, whole)).toEqual({ from: 450, to: 550 });
  });
});

describe("tiles", () => {
  test("a bin is not wider than a pixel, and at most four fit into one", () => {
    for (const npp of [0.01, 1, 3.9, 4, 100, 1e6, 1e15]) {
      const bin = 4 ** levelOf(npp);
      expect(bin).toBeLessThanOrEqual(Math.max(1, npp));
      if (npp >= 1) expect(npp / bin).toBeLessThan(4);
    }
  });
  test("are decoded as they come", () => {
    const buffer = new ArrayBuffer(8 + 2 * 24 + 8 + BINS * 16), view = new DataView(buffer);
    view.setUint32(0, 1, true); view.setUint32(4, 2, true);
    [5, 9, 8, 12].forEach((t, i) => view.setFloat64(8 + 8 * i, t, true));
    [1, 2, 3, 4].forEach((n, i) => view.setUint32(40 + 4 * i, n, true));
    view.setUint32(56, 2, true); view.setUint32(60, BINS, true);
    view.setUint32(64 + 4 * 7, 42, true);
    view.setFloat32(64 + 4 * (3 * BINS + 7), 0.5, true);
    const [one, two] = decode(buffer);
    expect([[...one!.start], [...one!.end], [...one!.id], [...one!.aux]]).toEqual([[5, 9], [8, 12], [1, 2], [3, 4]]);
    expect([two!.n, two!.id[7], two!.fill[7]]).toEqual([BINS, 42, 0.5]);
  });
  test("an exported page cuts them out of its lanes", () => {
    const lane: [number[], number[], number[], number[]] = [[0, 600, 5000], [10, 700, 5001], [1, 2, 3], [0, 0, 0]];
    expect([...cut(lane, 0, 0).id]).toEqual([1]);
    expect([...cut(lane, 0, 1).id]).toEqual([2]);
    const dense = cut(lane, 2, 0, 1);
    expect(dense.kind).toBe(2);
    expect(dense.count[Math.floor(5000 / 16)]).toBe(1);
    expect(extent(2)).toBe(8192);
  });
});

describe("drawing", () => {
  test("nothing vanishes between two pixels", () => {
    const c = new Columns(10);
    c.clear();
    c.draw(items([55_000, 55_001, 7]), 0, 1, 0, 10_000, 0, 10, all);
    expect([...c.count]).toEqual([0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    expect(c.id[5]).toBe(7);
    expect(c.fill[5]).toBeCloseTo(1e-4);
  });
  test("a column is named for what took most of it", () => {
    const c = new Columns(2);
    c.clear();
    c.draw(items([0, 30, 1], [30, 90, 2], [90, 200, 3]), 0, 1, 0, 100, 0, 2, all);
    expect([...c.id]).toEqual([2, 3]);
    expect([...c.fill].map((f) => Math.round(f * 100))).toEqual([100, 100]);
    expect([...c.count]).toEqual([3, 1]);
  });
  test("idle is not drawn, and only the tile's own columns are touched", () => {
    const c = new Columns(4);
    c.clear();
    c.draw(items([0, 100, 0], [100, 400, 5]), 0, 1, 0, 100, 2, 3, (id) => id !== 0);
    expect([...c.count]).toEqual([0, 0, 1, 0]);
  });
  test("densities add up to a column", () => {
    const c = new Columns(1), fill = new Float32Array(BINS).fill(0.5), n = new Uint32Array(BINS).fill(3);
    c.clear();
    c.draw(binsTile(new Uint32Array(BINS).fill(9), new Uint32Array(BINS), n, fill), 0, 1, 0, BINS, 0, 1, all);
    expect([c.count[0], c.id[0], Math.round(c.fill[0]! * 100)]).toEqual([3 * BINS, 9, 50]);
  });
});

test("a session survives its address", () => {
  const s = { ...empty(), from: 1.5, to: 2e9, a: 7, b: null, event: [0, 12] as [number, number], tasks: [[0, 42]] as [number, number][], hidden: ["0.cpu0.ev"], kinds: [3], search: "sched_switch : next_prio < 100 && COMM ~ \"a&b=#\"", searchKind: "text" as const, only: true, tab: "late", offsets: [0, -5], theme: "dark" };
  expect(decodeSession(`#${encode(s)}`)).toEqual(s);
  expect(encode(empty())).toBe("");
  expect(decodeSession("#w=9,1&a=x&tab=<script>&h=<b>,ok.1&theme=url(x)")).toEqual({ ...empty(), hidden: ["ok.1"] });
});

test("colours are stable, far apart for neighbours, and readable", () => {
  expect(hash(1234)).toBe(hash(1234));
  expect(Math.abs((hash(100) % 360) - (hash(101) % 360))).toBeGreaterThan(5);
  expect(hashText("a")).not.toBe(hashText("b"));
  expect([ink(pack([255, 255, 255])), ink(pack([0, 0, 0]))]).toEqual(["#000", "#fff"]);
  for (let c = 0; c < 0x1000000; c += 0x10305) {
    const of = luminance(c) + 0.05;
    expect(ink(c) === "#000" ? of / 0.05 : 1.05 / of).toBeGreaterThan(4.5);
  }
});

test("a family is the name without numbers, CPUs and devices", () => {
  for (const [comm, of] of [["kworker/0:1", "kworker"], ["rustc", "rustc"], ["lto cgu.01", "lto"], ["irq/33-eth0", "irq"], ["cpu2", "cpu"], ["7z", "7z"], ["", ""]]) expect(family(comm!)).toBe(of);
});

test("numbers with a name are found in what an event says", () => {
  expect([...numbers("comm=sh-2 pid=4136 runtime=3255 [ns]")]).toEqual([["pid", 4136], ["runtime", 3255]]);
  expect([...numbers("fd: 0x00000003, buf: 0x7ffefbee4a78, ratio=-1.5")]).toEqual([["fd", 3], ["buf", 0x7ffefbee4a78], ["ratio", -1.5]]);
  expect([...numbers("rustc:3866 [120] S ==> sleep:4139 [120] at=0xffffffffffffffff name=3abc")]).toEqual([]);
});

test("boxes of a flame graph lie within their parents, and a recursive function counts once", () => {
  const node = (parent: number, name: string, value: number) => ({ parent, name, value });
  const flame = { origin: "function_graph" as const, partial: false, nodes: [node(0, "all", 10), node(0, "a", 4), node(0, "b", 5), node(2, "b", 3), node(2, "c", 1), node(3, "b", 2)] };
  const at = places(flame);
  expect(at.map((p) => [p.depth, p.x, p.self])).toEqual([[0, 0, 1], [1, 0, 4], [1, 4, 1], [2, 4, 1], [2, 7, 1], [3, 4, 2]]);
  expect(functions(flame, at)).toEqual([["b", 5, 4], ["a", 4, 4], ["c", 1, 1]]);
});

test("frames are read from the text of a stack", () => {
  expect(frames("<stack trace >\n=> tick_stop (ffff8f)\n=> ffffffff81000e06")).toEqual([
    { name: "tick_stop", module: "", address: "ffff8f" }, { name: "0xffffffff81000e06", module: "", address: "ffffffff81000e06" }]);
  expect(frames("prev_comm=a => b (1)")).toEqual([]);
});

const part = (from: number, to: number, pid: number, depth: number): Part => ({ from, to, stage: "", cause: "task", who: "", actor: "other", cpu: 0, pid, state: "running", depth });

describe("the critical path", () => {
  const arrow = (at: number, by: number, pid: number): Arrow => ({ kind: "wakes", at, cpu: 1, by, who: "", lane: "task", pid, target: 0, begins: "", begins_lane: "task", depth: 0 });
  const w: WakeUp = {
    source: 0, pid: 5, comm: "task", cpu: 0, from: 1000, to: 1100, activation: true, late: true, verdict: "",
    parts: [part(0, 10, 5, 0), part(10, 40, 7, 2), part(40, 99, 6, 1), part(99, 100, 5, 0)], arrows: [arrow(40, 7, 6), arrow(99, 6, 5)], off: [{ from: 10, to: 99, pid: 5, cpu: 0, waits: true, depth: 0 }],
  };
  test("is a list of segments and arrows in order of time, and adds up", () => {
    expect(entries(w).map((e) => ("part" in e ? `p${e.index}` : "arrow" in e ? `a${e.number}` : `off${e.off.pid}`))).toEqual(["p0", "off5", "p1", "a1", "p2", "a2", "p3"]);
    expect([sum(w), share(w, w.parts[1]!)]).toEqual([100, 0.3]);
    expect([0, 0.004, 0.01, 0.596].map(percent)).toEqual(["0 %", "<1 %", "1 %", "60 %"]);
  });
  test("names the tasks by how many waits lie between, the late one first", () => {
    expect(tasks(w)).toEqual([5, 6, 7]);
    expect(tasks({ ...w, parts: [] })).toEqual([5]);
  });
  test("a stack is named by what lies below the scheduler", () => {
    expect([outer(["__schedule", "schedule", "futex_wait_queue", "do_futex"]), outer(["schedule"]), outer([])]).toEqual(["futex_wait_queue", "schedule", ""]);
  });
  test("arrows that would cover each other lie beside each other, others stay", () => {
    const at = (number: number, x: number, from: number, to: number) => ({ number, x, from, to });
    expect(apart([at(1, 100, 0, 50), at(2, 101, 40, 90), at(3, 101, 60, 80), at(4, 300, 0, 50)]).map((a) => a.x)).toEqual([100, 116, 132, 300]);
    expect(apart([at(1, 100, 0, 20), at(2, 100, 30, 50)]).map((a) => a.x)).toEqual([100, 100]);
  });
  test("what no segment covers is known", () => {
    expect(outside([[2, 4], [4, 5], [7, 20]], 0, 10)).toEqual([[0, 2], [5, 7]]);
    expect(outside([], 3, 9)).toEqual([[3, 9]]);
    expect(outside([[0, 10]], 0, 10)).toEqual([]);
  });
});

test("a late wake-up is compared with the middle on-time one of its task", () => {
  const w = (late: boolean, pid: number, ns: number): WakeUp => ({ source: 0, pid, comm: "", cpu: 0, from: 0, to: ns, late, verdict: "", activation: false, arrows: [], off: [], parts: [part(0, ns, pid, 0)] });
  const late = w(true, 5, 900);
  const list = [late, w(false, 5, 30), w(false, 5, 10), w(false, 5, 20), w(false, 6, 1)];
  expect(control({ limit: 0, causes: [], stacks: [], list }, late)?.to).toBe(20);
  expect(control({ limit: 0, causes: [], stacks: [], list: [late] }, late)).toBeNull();
});

describe("expressions", () => {
  const kinds = new Map<number, Kind>([
    [1, { name: "sched_switch", system: "sched", fields: ["prev_comm", "prev_pid", "next_prio", "where"], letters: "tnno" }],
    [2, { name: "sched_waking", system: "sched", fields: ["comm", "pid"], letters: "tn" }],
    [3, { name: "print", system: "ftrace", fields: ["ip", "buf"], letters: "nt" }],
  ]);
  const row = (kind: number, values: Valued["values"], more: Partial<Valued> = {}): Valued => ({ row: 0, t: 5, cpu: 1, pid: 7, comm: "cc1", kind, text: "", values, ...more });
  const rows = [row(1, ["a", 7, 99, 0]), row(1, ["b:c", -1, 120, 0], { cpu: 0 }), row(2, ["rustc", 0]), row(3, [["18446744071578845184"], "x"])];
  const hits = (text: string) => rows.flatMap((r, i) => (compile(text, kinds, 1000n)(r) ? [i] : []));
  test("choose events by name, system and pattern", () => {
    expect([hits("sched_switch"), hits("sched"), hits("sched_w*, print"), hits("sched:sched_switch"), hits("ftrace/print")]).toEqual([[0, 1], [0, 1, 2], [2, 3], [0, 1], [3]]);
  });
  test("compare numbers and texts as the command line does", () => {
    expect([hits("sched_switch : next_prio < 100"), hits("prev_pid == -1"), hits("CPU == 0 || pid == 0"), hits("sched : COMM ~ \"cc?\" && !(CPU == 0)")]).toEqual([[0], [1], [1, 2], [0, 2]]);
    expect([hits("prev_comm == \"b:c\""), hits("comm =~ \"^r.*c$\""), hits("comm !~ \"x\""), hits("comm == rustc")]).toEqual([[1], [2], [2], [2]]);
    expect([hits("TIME == 1005"), hits("next_prio & 0x60 == 0x60 && 1 << 3 == 010"), hits("next_prio % 2 - 1 == 0"), hits("next_prio / 0 == 0")]).toEqual([[0, 1, 2, 3], [0, 1], [0], [0, 1]]);
    // A number beyond 2^53, as the kernel's addresses are: signed, as in the file.
    expect([hits("ip == 0xffffffff81000000"), hits("ip < 0")]).toEqual([[3], [3]]);
  });
  test("that make no sense say why", () => {
    const why = (text: string) => { try { compile(text, kinds, 0n); return ""; } catch (e) { return (e as Error).message; } };
    expect(why("nothing")).toMatch(/no event .* named "nothing"/);
    expect(why("sched_switch : nothing == 1")).toMatch(/has a field "nothing"/);
    expect(why("sched_switch : prev_comm == 1")).toMatch(/prev_comm is text/);
    expect(why("sched_switch : where == 1")).toMatch(/where is no number/);
    expect(why("sched_switch : prev_pid ~ \"x\"")).toMatch(/is a number, not text/);
    expect(why("sched_switch : (1")).toMatch(/bracket/);
    expect(why("sched_switch : 1 1")).toMatch(/follows the end/);
    expect(why("sched_switch : @")).toMatch(/does not belong/);
    expect(why("sched_switch : ")).toMatch(/too early/);
  });
  test("patterns", () => {
    expect([glob("a*b?", "axxbc"), glob("a.c", "abc"), glob("*", ""), glob("?", "")]).toEqual([true, false, true, false]);
  });
});
