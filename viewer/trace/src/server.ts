/** The server as a source of data. Addresses are relative: the token is part of the page's own. */
import { decode } from "./tile";
import type { Data, Detail, Flame, Info, Late, Latency, Query, Row, Status, Tile, Wake, Want } from "./types";

export class Server implements Data {
  live = true;
  private open = 0;
  /** Called with each answer: with what the server says is wrong with the files, or that it is gone, or with nothing. */
  constructor(private trouble: (sentence: string) => void) {}

  pending() { return this.open; }

  private async ask(path: string, body?: string): Promise<Response> {
    let reply: Response;
    try {
      reply = await fetch(path, { method: body === undefined ? "GET" : "POST", body, cache: "no-store" });
    } catch {
      const gone = "latlab view no longer answers: it was ended. What is on the screen can still be read.";
      this.trouble(gone);
      throw new Error(gone);
    }
    this.trouble(reply.headers.get("Latlab-Trouble") ?? "");
    if (reply.status === 422) throw new Error(((await reply.json()) as { error: string }).error);
    if (!reply.ok) throw new Error(`${reply.status}: ${await reply.text()}`);
    return reply;
  }

  private async json<T>(path: string, body?: string): Promise<T> {
    this.open++;
    try {
      return (await (await this.ask(path, body)).json()) as T;
    } finally {
      this.open--;
    }
  }

  info() { return this.json<Info>("api/info"); }
  async status() { return (await (await this.ask("api/status")).json()) as Status; }
  async tiles(want: Want[]): Promise<Tile[]> {
    const body = want.map((w) => `${w.lane} ${w.level} ${w.number}`).join("\n");
    return decode(await (await this.ask("api/tiles", body)).arrayBuffer());
  }
  select(source: number, query: Query) {
    return this.json<{ set: number; count: number }>(`api/select?s=${source}`, JSON.stringify(query));
  }
  rows(source: number, set: number, first: number, n: number) {
    return this.json<Row[]>(`api/rows?s=${source}&set=${set}&first=${first}&n=${n}`);
  }
  place(source: number, set: number, at: { t: number } | { row: number }) {
    const what = "t" in at ? `t=${Math.round(at.t)}` : `row=${at.row}`;
    return this.json<{ event: number; place: number }>(`api/place?s=${source}&set=${set}&${what}`);
  }
  async find(source: number, set: number, row: number, back: boolean) {
    return (await this.json<{ row: Row | null }>(`api/find?s=${source}&set=${set}&row=${row}&back=${back ? 1 : 0}`)).row;
  }
  wakes(source: number, from: number, to: number) {
    return this.json<{ more: number; wakes: Wake[] }>(`api/wakes?s=${source}&from=${Math.floor(from)}&to=${Math.ceil(to)}`);
  }
  event(source: number, row: number) { return this.json<Detail>(`api/event?s=${source}&row=${row}`); }
  flame(source: number, from: number, to: number, pid: number | null) {
    return this.json<Flame>(`api/flame?s=${source}&from=${from}&to=${to}${pid === null ? "" : `&off=${pid}`}`);
  }
  late() { return this.json<Late>("api/late"); }
  lateOf(source: number, pid: number, limit: number, whole: boolean) {
    return this.json<Late>(`api/late?s=${source}&pid=${pid}&limit=${Math.round(limit)}${whole ? "&whole=1" : ""}`);
  }
  latency(source: number, a: string, b: string, ka: string, kb: string) {
    const q = new URLSearchParams({ s: String(source), a, b, ka, kb });
    return this.json<Latency>(`api/latency?${q.toString()}`);
  }
}
