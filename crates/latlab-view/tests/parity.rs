//! Answers of the viewer on committed traces, as they were before the analyses were joined:
//! `fixtures/parity/view.tsv`, one figure a line, `trace, command, key, value`.
//!
//! Keys are the field's terms; [`figures`] is all that knows the layout of the answers. A figure of 0
//! is not written. `UPDATE_PARITY=1 cargo test -p latlab-view --test parity` writes the file anew.

use latlab_model::latency::{SystemContext, UserStacks};
use latlab_trace::TraceFile;
use latlab_view::api::{Door, Request, answer};
use latlab_view::{Input, View};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Differences that are printed.
const SHOWN: usize = 20;
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Traces, and the limit in ns over which a wake-up is late where no marker tells.
const TRACES: [(&str, u64); 13] = [
    ("cyclictest-mark.dat", 0),
    ("events7-armv7-zlib.dat", 20_000),
    ("events7-x86_64.dat", 20_000),
    ("f6.dat", 20_000),
    ("f7-zstd.dat", 20_000),
    ("graph6-armv7.dat", 0),
    ("graph6-x86_64.dat", 0),
    ("inst6.dat", 20_000),
    ("latlab-v7-none-lost.dat", 0),
    ("lost7.dat", 0),
    ("mark6.dat", 0),
    ("rt-load.dat", 30_000),
    ("rt-lossy.dat", 30_000),
];

fn fixtures(dir: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(dir)
}

/// What the page gets for an address behind the token; with a body it is a POST.
fn ask(view: &View<'_>, url: &str, body: Option<&str>) -> Vec<u8> {
    let door = Door { port: 8123, token: TOKEN.into(), report: None };
    let full = format!("/{TOKEN}/{url}");
    let request = Request {
        post: body.is_some(),
        url: &full,
        host: "127.0.0.1:8123",
        body: body.unwrap_or_default().as_bytes(),
        ..Request::default()
    };
    let reply = answer(view, &door, &request);
    assert_eq!(reply.status, 200, "{url}: {}", String::from_utf8_lossy(&reply.body));
    reply.body.into_owned()
}

fn of_trace(name: &str, limit_ns: u64) -> Vec<String> {
    let data = fs::read(fixtures("trace").join(name)).unwrap();
    let file = TraceFile::parse(&data).unwrap();
    let around = SystemContext { limit_ns, ..SystemContext::default() };
    let inputs =
        vec![Input { name: name.into(), file: &file, offset: 0, stacks: UserStacks::default() }];
    let view = View::new(name, inputs, around, false);
    view.read();
    let mut figures = Figures::default();
    figures::all(&view, &mut figures);
    let line = |(k, v): (&String, &String)| format!("{name}\tview\t{k}\t{v}");
    figures.0.iter().map(line).collect()
}

#[test]
fn what_the_page_is_told_is_as_before() {
    let found: Vec<String> =
        TRACES.iter().flat_map(|(name, limit)| of_trace(name, *limit)).collect();
    let path = fixtures("parity").join("view.tsv");
    if std::env::var_os("UPDATE_PARITY").is_some() {
        fs::write(&path, found.join("\n") + "\n").unwrap();
        return;
    }
    let golden = fs::read_to_string(&path).unwrap();
    let was: BTreeSet<&str> = golden.lines().collect();
    let is: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let mut all: Vec<String> = was.difference(&is).map(|l| format!("- {l}")).collect();
    all.extend(is.difference(&was).map(|l| format!("+ {l}")));
    all.sort_by(|a, b| a[2..].cmp(&b[2..]));
    let shown = all.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(
        all.is_empty(),
        "{} differences from {}, the first:\n{shown}",
        all.len(),
        path.display()
    );
}

/// Figures by their key.
#[derive(Default)]
struct Figures(BTreeMap<String, String>);

impl Figures {
    fn text(&mut self, key: String, value: impl Into<String>) {
        let before = self.0.insert(key.clone(), value.into());
        assert!(before.is_none(), "{key} is there twice");
    }
    /// A whole number; 0 is not written.
    fn count(&mut self, key: String, value: i128) {
        if value != 0 {
            self.text(key, value.to_string());
        }
    }
}

/// From today's answers to figures.
mod figures {
    use super::{Figures, ask};
    use latlab_view::View;
    use serde_json::Value;
    use std::collections::BTreeMap;

    /// Pairs of events of which the latency is asked.
    const PAIRS: [(&str, &str); 5] = [
        ("sched_waking", "sched_switch"),
        ("hrtimer_start", "hrtimer_expire_entry"),
        ("irq_handler_entry", "irq_handler_exit"),
        ("softirq_raise", "softirq_entry"),
        ("softirq_entry", "softirq_exit"),
    ];
    /// Rows of the event list that are looked at, evenly over the trace.
    const ROWS: u64 = 12;
    /// Over this, ns, a wake-up of the task that ran most often is late.
    const TASK_LIMIT: u64 = 50_000;

    fn list(value: &Value) -> &[Value] {
        value.as_array().unwrap_or_else(|| panic!("{value} is not a list"))
    }
    fn word(value: &Value) -> &str {
        value.as_str().unwrap_or_else(|| panic!("{value} is not a text"))
    }
    fn whole(value: &Value) -> i128 {
        let n = value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
        n.unwrap_or_else(|| panic!("{value} is not a whole number"))
    }
    fn json(view: &View<'_>, url: &str) -> Value {
        serde_json::from_slice(&ask(view, url, None)).unwrap()
    }

    /// Everything.
    pub fn all(view: &View<'_>, f: &mut Figures) {
        let info = json(view, "api/info");
        for (n, source) in list(&info["sources"]).iter().enumerate() {
            overview(f, n, source);
            lanes(view, f, n, source);
            rows(view, f, n, source);
            latencies(view, f, n, source);
            wakes(view, f, n);
            let often = list(&source["tasks"]).iter().filter(|t| t[0] != 0);
            if let Some(task) = often.max_by_key(|t| (t[3].as_u64(), t[0].as_i64())) {
                let url = format!("api/late?s={n}&pid={}&limit={TASK_LIMIT}", task[0]);
                late(f, &format!("{n}/late-of-task/{}", task[0]), &json(view, &url));
            }
        }
        late(f, "late", &json(view, "api/late"));
    }

    /// How much of what there is.
    fn overview(f: &mut Figures, n: usize, source: &Value) {
        let origin: i128 = word(&source["origin"]).parse().unwrap();
        f.count(format!("{n}/first_ns"), origin);
        for key in ["length", "events", "timers", "wakes"] {
            f.count(format!("{n}/{key}"), whole(&source[key]));
        }
        f.count(format!("{n}/markers"), list(&source["markers"]).len() as i128);
        for (i, loss) in list(&source["lost"]).iter().enumerate() {
            for (key, value) in ["from", "to", "cpu", "count"].iter().zip(list(loss)) {
                f.count(format!("{n}/loss/{i:03}/{key}"), whole(value));
            }
        }
        for cpu in list(&source["cpus"]) {
            for (name, key) in [
                ("events", "events"),
                ("irq_depth", "irq"),
                ("softirq_depth", "soft"),
                ("call_depth", "functions"),
            ] {
                f.count(format!("{n}/cpu/{}/{name}", cpu["cpu"]), whole(&cpu[key]));
            }
        }
        for kind in list(&source["kinds"]) {
            f.count(format!("{n}/kind/{}/{}", word(&kind[2]), word(&kind[1])), whole(&kind[3]));
        }
        for task in list(&source["tasks"]) {
            let begin = format!("{n}/task/{}", task[0]);
            f.text(format!("{begin}/name"), word(&task[1]));
            f.count(format!("{begin}/run_ns"), whole(&task[2]));
            f.count(format!("{begin}/runs"), whole(&task[3]));
        }
    }

    /// A lane's tiles that cover the trace: a level at which they are one to four.
    fn lanes(view: &View<'_>, f: &mut Figures, n: usize, source: &Value) {
        let length = whole(&source["length"]).max(1) as u64;
        let level = (0..28).find(|l| 512u64 << (2 * l + 2) > length).unwrap();
        let tile_ns = 512u64 << (2 * level);
        let mut lanes = vec!["timers".to_owned()];
        for cpu in list(&source["cpus"]) {
            let id = &cpu["cpu"];
            lanes.extend(["run", "ev", "freq"].map(|l| format!("cpu{id}.{l}")));
            for (lane, key) in [("irq", "irq"), ("soft", "soft"), ("fn", "functions")] {
                lanes.extend((0..whole(&cpu[key])).map(|d| format!("cpu{id}.{lane}{d}")));
            }
        }
        lanes.extend(list(&source["tasks"]).iter().map(|t| format!("task{}", t[0])));
        for lane in lanes {
            for number in 0..=(length / tile_ns) {
                let body = ask(view, "api/tiles", Some(&format!("{n}.{lane} {level} {number}")));
                tile(
                    f,
                    &format!("{n}/lane/{lane}/tile{number}"),
                    &body,
                    &lane,
                    number * tile_ns,
                    tile_ns,
                );
            }
        }
    }

    /// Whether an item is drawn as taken: idle, unknown and sleeping are not.
    fn is_taken(lane: &str, id: u32) -> bool {
        if lane.starts_with("task") {
            return matches!(id, 0 | 1 | 3);
        }
        !lane.ends_with(".run") || (id != 0 && id != u32::MAX)
    }

    /// Items and the time that they take within the tile.
    fn tile(f: &mut Figures, begin: &str, body: &[u8], lane: &str, from: u64, width: u64) {
        let u32_at = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
        let f64_at = |at: usize| f64::from_le_bytes(body[at..at + 8].try_into().unwrap());
        let (kind, count) = (u32_at(0), u32_at(4) as usize);
        if kind == 2 {
            let counts = 8 + 8 * count;
            let touched: u64 = (0..count).map(|i| u64::from(u32_at(counts + 4 * i))).sum();
            let fills = (0..count).map(|i| f32::from_bits(u32_at(counts + 4 * (count + i))));
            let busy = fills.map(f64::from).sum::<f64>() * (width / 512) as f64;
            f.count(format!("{begin}/touched"), touched.into());
            f.text(format!("{begin}/about_busy_ns"), format!("{busy:.4e}"));
            return;
        }
        let (mut taken, mut busy) = (0, 0.0);
        let mut states: BTreeMap<u32, f64> = BTreeMap::new();
        for i in 0..count {
            let id = u32_at(8 + 16 * count + 4 * i);
            let start = f64_at(8 + 8 * i).max(from as f64);
            let end = f64_at(8 + 8 * count + 8 * i).min((from + width) as f64);
            let length = (end - start).max(0.0);
            if is_taken(lane, id) {
                taken += 1;
                busy += length;
            }
            *states.entry(id).or_default() += length;
        }
        f.count(format!("{begin}/items"), taken);
        f.count(format!("{begin}/busy_ns"), busy as i128);
        if lane.starts_with("task") {
            for (id, state) in [(0, "running"), (1, "waiting"), (2, "sleeping"), (3, "blocked")] {
                let ns = states.get(&id).copied().unwrap_or(0.0);
                f.count(format!("{begin}/{state}_ns"), ns as i128);
            }
        }
    }

    /// Rows of the event list and how many events an expression lets pass.
    fn rows(view: &View<'_>, f: &mut Figures, n: usize, source: &Value) {
        let events = whole(&source["events"]) as u64;
        for i in 0..ROWS.min(events) {
            let at = i * events / ROWS.min(events);
            let rows = json(view, &format!("api/rows?s={n}&first={at}&n=1"));
            let row = &list(&rows)[0];
            f.text(format!("{n}/row/{at:06}"), format!("{} ns cpu {}", row["t"], row["cpu"]));
        }
        let kinds = list(&source["kinds"]);
        if kinds.iter().any(|k| k[1] == "sched_switch") {
            let query = r#"{"expressions":["sched_switch : next_pid == 0"]}"#;
            let body = ask(view, &format!("api/select?s={n}"), Some(query));
            let selected: Value = serde_json::from_slice(&body).unwrap();
            f.count(format!("{n}/selected/switches-to-idle"), whole(&selected["count"]));
        }
    }

    fn latencies(view: &View<'_>, f: &mut Figures, n: usize, source: &Value) {
        let has = |name: &str| list(&source["kinds"]).iter().any(|k| k[1] == name);
        for (a, b) in PAIRS.iter().filter(|(a, b)| has(a) && has(b)) {
            let latency = json(view, &format!("api/latency?s={n}&a={a}&b={b}"));
            let begin = format!("{n}/latency/{a}-{b}");
            f.count(format!("{begin}/count"), whole(&latency["count"]));
            f.count(format!("{begin}/open"), whole(&latency["open"]));
            let names = ["min", "p50", "p99", "p99.9", "max"];
            for (name, value) in names.iter().zip(list(&latency["quantiles"])) {
                f.count(format!("{begin}/{name}_ns"), whole(value));
            }
            for bin in list(&latency["bins"]) {
                f.count(format!("{begin}/from_ns/{}", bin[0]), whole(&bin[1]));
            }
            for (i, worst) in list(&latency["worst"]).iter().take(3).enumerate() {
                f.count(format!("{begin}/worst/{i}/ns"), whole(&worst["ns"]));
                f.count(format!("{begin}/worst/{i}/at"), whole(&worst["from"]));
            }
        }
    }

    /// Wake-ups in twenty stretches of the trace: how many, of whom and to which CPU.
    fn wakes(view: &View<'_>, f: &mut Figures, n: usize) {
        let info = json(view, "api/info");
        let length = whole(&info["sources"][n]["length"]);
        let (mut more, mut tasks, mut cpus) = (0, BTreeMap::new(), BTreeMap::new());
        for i in 0..20 {
            let (from, to) = (length * i / 20, length * (i + 1) / 20 - i128::from(i < 19));
            let answer = json(view, &format!("api/wakes?s={n}&from={from}&to={to}"));
            more += whole(&answer["more"]);
            for wake in list(&answer["wakes"]) {
                *tasks.entry(whole(&wake["pid"])).or_insert(0) += 1;
                *cpus.entry(whole(&wake["target"])).or_insert(0) += 1;
            }
        }
        f.count(format!("{n}/woken/too-many-to-show"), more);
        tasks.iter().for_each(|(t, times)| f.count(format!("{n}/woken/task/{t}"), *times));
        cpus.iter().for_each(|(c, times)| f.count(format!("{n}/woken/to-cpu/{c}"), *times));
    }

    /// Wake-ups with the parts of their latency, added up by stage, cause and who.
    fn late(f: &mut Figures, begin: &str, answer: &Value) {
        let mut on_time = 0;
        for wake in list(&answer["list"]) {
            if wake["late"] != true {
                on_time += 1;
                continue;
            }
            let (source, cpu, from) = (&wake["source"], &wake["cpu"], &wake["from"]);
            let key = format!("{begin}/{source}/{}-cpu{cpu}@{from}", wake["pid"]);
            f.text(format!("{key}/name"), word(&wake["comm"]));
            f.count(format!("{key}/latency_ns"), whole(&wake["to"]) - whole(from));
            let mut parts: BTreeMap<String, i128> = BTreeMap::new();
            for part in list(&wake["parts"]) {
                let what = ["stage", "cause", "who"].map(|k| word(&part[k])).join("/");
                *parts.entry(what).or_default() += whole(&part["to"]) - whole(&part["from"]);
            }
            parts.into_iter().for_each(|(what, ns)| f.count(format!("{key}/part/{what}"), ns));
        }
        f.count(format!("{begin}/on_time"), on_time);
    }
}
