/** Which lanes there are, from top to bottom. */
import type { Info, SourceInfo } from "./types";
import type { Session } from "./state";

/** Height of the ruler above them, pixels. */
export const RULER = 24;
/** A lane with a label is as high as a line of it, so that labels do not overlap, pixels. */
export const LABELLED = 13;

export type LaneKind = "head" | "run" | "irq" | "soft" | "fn" | "freq" | "ev" | "task" | "timers" | "markers" | "late" | "path" | "set";
export interface Lane {
  /** Name, stable over sessions. */
  key: string;
  kind: LaneKind;
  label: string;
  height: number;
  source: number;
  cpu: number;
  pid: number;
  depth: number;
  /** Its tiles' name; empty where it is drawn from what is here already. */
  tile: string;
  /** Explains itself to who hovers or cannot see. */
  title: string;
}

export const taskName = (info: Info, source: number, pid: number): string => {
  if (pid === 0) return "idle";
  if (pid === -1) return "not known (events were lost)";
  const of = info.sources[source];
  if (!of) return `<...>-${pid}`;
  let names = known.get(of);
  if (!names) known.set(of, (names = new Map(of.tasks.map((t) => [t[0], t[1]]))));
  return `${names.get(pid) ?? "<...>"}-${pid}`;
};
/** Names by pid: they are asked for with every drawing. */
const known = new WeakMap<SourceInfo, Map<number, string>>();

/** Sources that are shown: all, or, of the captures of one run, one. */
export function shown(info: Info, session: Session): number[] {
  if (info.oneByOne) return [Math.min(session.source, info.sources.length - 1)];
  return info.sources.map((_, i) => i);
}

/** The tasks that are shown when nobody has chosen: those that ran longest. */
export function usualTasks(info: Info, session: Session): [number, number][] {
  return shown(info, session).flatMap((s) => {
    const tasks = (info.sources[s]?.tasks ?? []).filter((t) => t[0] > 0);
    return tasks.sort((a, b) => b[2] - a[2]).slice(0, 4).map((t): [number, number] => [s, t[0]]);
  });
}

export function lanes(info: Info, session: Session, tasks: [number, number][], lateCount: (source: number) => number, set: (source: number) => number, path: { source: number; tasks: number[] } | null = null): Lane[] {
  const out: Lane[] = [];
  const add = (kind: LaneKind, source: number, name: string, label: string, height: number, more: Partial<Lane> = {}) => {
    const key = `${source}.${name}`;
    out.push({ key, kind, label, height, source, cpu: -1, pid: -1, depth: 0, tile: key, title: label, ...more });
  };
  const several = shown(info, session).length > 1;
  for (const s of shown(info, session)) {
    const source = info.sources[s];
    if (!source || !source.read) continue;
    if (several || info.oneByOne) add("head", s, "head", source.name, 20, { tile: "", title: `Source ${source.name}` });
    if (lateCount(s) > 0) add("late", s, "late", "late wake-ups", 16, { title: "Late wake-ups, from intended to actual time" });
    const onPath = path?.source === s ? path.tasks : [];
    const addTask = (pid: number) => add("task", s, `task${pid}`, taskName(info, s, pid), 18, { pid, title: `States of ${taskName(info, s, pid)}` });
    if (path?.source === s) add("path", s, "path", "critical path", 20, { title: "Critical path of the selected late wake-up: who acts in each segment, with its share" });
    // The tasks of the path, as far as they are chosen, stand below it: its arrows are short then.
    for (const pid of onPath) if (tasks.some(([of, t]) => of === s && t === pid)) addTask(pid);
    if (set(s) > 0) add("set", s, "set", "matches", LABELLED, { tile: `${s}.set${set(s)}`, title: "Events that the search finds" });
    if (source.markers.length > 0) add("markers", s, "markers", "markers", 16, { tile: "", title: "Lines written to trace_marker" });
    for (const c of source.cpus) {
      if (session.cpus.includes(c.cpu)) continue;
      const cpu = `cpu${c.cpu}`;
      for (let d = c.irq - 1; d >= 0; d--) {
        add("irq", s, `${cpu}.irq${d}`, d === 0 ? `CPU ${c.cpu} interrupts` : "", d === 0 ? LABELLED : 8, { cpu: c.cpu, depth: d, title: `Interrupts of CPU ${c.cpu}, depth ${d}` });
      }
      for (let d = c.soft - 1; d >= 0; d--) {
        add("soft", s, `${cpu}.soft${d}`, d === 0 ? `CPU ${c.cpu} softirqs` : "", d === 0 ? LABELLED : 8, { cpu: c.cpu, depth: d, title: `Softirqs and deferred work of CPU ${c.cpu}, depth ${d}` });
      }
      add("run", s, `${cpu}.run`, `CPU ${c.cpu}`, 24, { cpu: c.cpu, title: `What ran on CPU ${c.cpu}` });
      for (let d = 0; d < c.functions; d++) {
        add("fn", s, `${cpu}.fn${d}`, d === 0 ? `CPU ${c.cpu} functions` : "", 13, { cpu: c.cpu, depth: d, title: `Functions on CPU ${c.cpu}, depth ${d}` });
      }
      if (c.freq) add("freq", s, `${cpu}.freq`, `CPU ${c.cpu} frequency`, 18, { cpu: c.cpu });
      add("ev", s, `${cpu}.ev`, `CPU ${c.cpu} events`, LABELLED, { cpu: c.cpu, title: `Every event of CPU ${c.cpu}` });
    }
    if (source.timers > 0) add("timers", s, "timers", "timer interrupts", LABELLED, { title: "Timer interrupts and timer functions of all CPUs" });
    for (const [of, pid] of tasks) {
      if (of === s && !onPath.includes(pid)) addTask(pid);
    }
  }
  return out.filter((l) => !session.hidden.includes(l.key));
}
