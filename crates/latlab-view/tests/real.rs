//! Real recordings through index, list, selection, latency and tiles, against what a plain scan says.

use latlab_model::latency::{SystemContext, UserStacks};
use latlab_trace::{Filter, TraceFile};
use latlab_view::api::{Door, Reply, Request, answer};
use latlab_view::index::column::Items;
use latlab_view::index::{Index, Progress};
use latlab_view::select::Query;
use latlab_view::tile::{LEVELS, Tile};
use latlab_view::{Input, View, event, flame};

fn data(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../../fixtures/trace/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn with_view<R>(name: &str, body: impl FnOnce(&View<'_>, &TraceFile<'_>) -> R) -> R {
    let data = data(name);
    let file = TraceFile::parse(&data).unwrap();
    let inputs =
        vec![Input { name: name.into(), file: &file, offset: 0, stacks: UserStacks::default() }];
    let view = View::new(name, inputs, SystemContext::default(), false);
    view.read();
    body(&view, &file)
}

#[test]
fn the_list_is_what_a_scan_says_from_any_place() {
    for name in ["f6.dat", "f7-zstd.dat", "lost7.dat", "sub7.dat"] {
        with_view(name, |view, file| {
            let (source, index) = view.source(0).unwrap();
            let mut times = Vec::new();
            let mut events = file.events();
            while let Some(e) = events.next() {
                times.push(((e.time - index.origin) as i64, e.cpu, e.id));
            }
            assert_eq!(index.events, times.len() as u64, "{name}");
            for first in (0..times.len()).step_by(37) {
                let rows = source.rows().get(&index, None, first as u64, 20);
                let got: Vec<_> = rows.iter().map(|r| (r.t, r.cpu, r.kind)).collect();
                assert_eq!(got, times[first..(first + 20).min(times.len())], "{name} {first}");
                assert_eq!(rows[0].row, first as u64);
                let at = source.rows().at_time(&index, index.origin + rows[0].t as u64);
                assert_eq!(times[at as usize].0, rows[0].t);
                assert!(at == 0 || times[at as usize - 1].0 < rows[0].t);
            }
        });
    }
}

#[test]
fn a_selection_holds_what_the_filter_lets_pass() {
    with_view("f6.dat", |view, file| {
        let expressions = vec!["sched_switch : next_pid == 0".to_owned()];
        let filter = Filter::compile(file, &expressions).unwrap();
        let mut passing = Vec::new();
        let (mut events, mut row) = (file.events(), 0u64);
        while let Some(e) = events.next() {
            if filter.passes(&e, &file.comms) {
                passing.push(row);
            }
            row += 1;
        }
        let (id, set) = view.select(0, &Query { expressions, ..Query::default() }).unwrap();
        assert_eq!(set.count, passing.len() as u64);
        assert!((0..set.count).all(|n| set.nth(n) == Some(passing[n as usize])));
        let (source, index) = view.source(0).unwrap();
        let rows = source.rows().get(&index, index.set(id).as_deref(), 0, 100);
        assert_eq!(rows.iter().map(|r| r.row).collect::<Vec<_>>(), passing[..rows.len()]);
        let query = Query { text: "HACKBENCH-\\d+ sched_waking: comm=".into(), ..Query::default() };
        let (_, set) = view.select(0, &query).unwrap();
        assert!(set.count > 0 && set.count < index.events);
        let bad = Query { expressions: vec!["no_such_event".into()], ..Query::default() };
        assert!(view.select(0, &bad).unwrap_err().to_string().contains("no_such_event"));
    });
}

/// While a buffer is read, what is there already is numbered, drawn and found as it will be in the end.
#[test]
fn what_is_handed_out_early_is_the_beginning_of_the_whole() {
    let data = data("f6.dat");
    let file = TraceFile::parse(&data).unwrap();
    let inputs = || {
        vec![Input { name: "f6.dat".into(), file: &file, offset: 0, stacks: UserStacks::default() }]
    };
    let view = View::new("f6.dat", inputs(), SystemContext::default(), false);
    view.read();
    let (source, whole) = view.source(0).unwrap();
    let (origin, end) = (whole.origin, whole.end);
    let cuts: Vec<u64> = [1, 2, 3, 5].iter().map(|n| origin + (end - origin) * n / 6).collect();
    let mut parts = Vec::new();
    let progress = Progress::default();
    let last = Index::build(&file, 0, 2, &progress, &cuts, &mut |part| parts.push(part));
    assert_eq!(
        (last.events, last.end, last.before.last()),
        (whole.events, end, whole.before.last())
    );
    assert_eq!(parts.len(), cuts.len());
    for (part, cut) in parts.iter().zip(&cuts) {
        let (mut events, mut n) = (file.events(), 0);
        while events.next().is_some_and(|e| e.time <= *cut) {
            n += 1;
        }
        assert_eq!(part.events, n);
        assert!(part.end <= *cut && part.origin == origin);
        for row in (0..part.events).step_by(29) {
            let one = |index: &Index| source.rows().get(index, None, row, 1);
            assert_eq!(one(part), one(&whole), "row {row}");
        }
        for (a, b) in part.cpus.iter().zip(&whole.cpus) {
            let runs = a.runs.len();
            assert!(
                runs > 0
                    && a.runs.time[..] == b.runs.time[..runs]
                    && a.runs.pid[..] == b.runs.pid[..runs]
            );
        }
    }
    // A selection made early is still there, and the same question has a new answer.
    let view = View::new("f6.dat", inputs(), SystemContext::default(), false);
    let query = Query { expressions: vec!["sched_switch".into()], ..Query::default() };
    view.read_cut(|_, _| (Vec::new(), 0));
    let (id, set) = view.select(0, &query).unwrap();
    view.read_cut(|_, _| (cuts.clone(), end));
    let (_, index) = view.source(0).unwrap();
    assert_eq!(index.set(id).unwrap().count, set.count);
    assert_ne!(view.select(0, &query).unwrap().0, id);
    let status = view.status();
    assert_eq!(status["handed"], 2 + cuts.len());
}

/// Every item of every lane is in a tile of every level.
#[test]
fn nothing_vanishes_at_any_level() {
    with_view("f6.dat", |view, _| {
        let (source, index) = view.source(0).unwrap();
        let lanes = &index.cpus[0];
        for level in (0..LEVELS).step_by(3) {
            for i in (0..lanes.runs.len()).step_by(11) {
                let item = lanes.runs.get(i);
                if item.id == 0 || item.end == item.start {
                    continue;
                }
                let rel = item.start - index.origin;
                let number = rel >> (level * 2 + 9);
                let tile = source.tile(&index, "cpu0.run", level, number).unwrap();
                let seen = match &*tile {
                    Tile::Items(items) => items.contains(&item),
                    Tile::Bins(bins) => bins[(rel >> (level * 2)) as usize % 512].count > 0,
                };
                assert!(seen, "level {level}, item {i}");
            }
        }
    });
}

#[test]
fn a_cpu_runs_one_task_after_the_other_and_interrupts_lie_within_the_trace() {
    for name in ["f6.dat", "latlab-v6.dat", "latlab-v7-zlib.dat", "lost7.dat"] {
        with_view(name, |view, _| {
            let (_, index) = view.source(0).unwrap();
            for cpu in &index.cpus {
                for i in 1..cpu.runs.len() {
                    assert!(cpu.runs.get(i - 1).end <= cpu.runs.start(i), "{name}");
                }
                for spans in cpu.nested.iter().flatten() {
                    for i in 0..spans.len() {
                        let s = spans.get(i);
                        assert!(s.start >= index.origin && s.end <= index.end && s.start <= s.end);
                        assert!(i == 0 || spans.get(i - 1).end <= s.start);
                    }
                }
            }
            let all: u64 = index.cpus.iter().map(|c| c.events).sum();
            assert_eq!(index.before.last(), Some(&all), "{name}");
        });
    }
}

fn door() -> Door {
    Door { port: 8123, token: "0123456789abcdef0123456789abcdef".into(), report: None }
}

fn ask(view: &View<'_>, url: &str, body: Option<&str>) -> Reply {
    let url = format!("/{}/{url}", door().token);
    let request = Request {
        post: body.is_some(),
        url: &url,
        host: "127.0.0.1:8123",
        body: body.unwrap_or_default().as_bytes(),
        ..Request::default()
    };
    answer(view, &door(), &request)
}

#[test]
fn questions_are_answered_and_nonsense_is_refused() {
    with_view("f6.dat", |view, _| {
        let info: serde_json::Value =
            serde_json::from_slice(&ask(view, "api/info", None).body).unwrap();
        assert_eq!(info["sources"][0]["events"], 1983);
        let rows = ask(view, "api/rows?s=0&first=10&n=3", None);
        let rows: serde_json::Value = serde_json::from_slice(&rows.body).unwrap();
        assert_eq!((rows.as_array().unwrap().len(), &rows[0]["row"]), (3, &10.into()));
        let l = ask(view, "api/latency?s=0&a=sched_waking&b=sched_switch", None);
        let l: serde_json::Value = serde_json::from_slice(&l.body).unwrap();
        assert_eq!(l["keys"], serde_json::json!(["pid", "next_pid"]));
        let binned: u64 =
            l["bins"].as_array().unwrap().iter().map(|b| b[1].as_u64().unwrap()).sum();
        assert_eq!(binned, l["count"].as_u64().unwrap());
        assert_eq!(l["worst"][0]["ns"], l["quantiles"][4]);
        let tiles = ask(view, "api/tiles", Some("0.cpu0.run 3 0\n0.nothing 1 1\n7.cpu0.run 3 0"));
        assert_eq!((tiles.status, &tiles.body[..4]), (200, &[1u8, 0, 0, 0][..]));
        for bad in ["x", "0.cpu0.run 3", "0.cpu0.run x 1", "0.cpu0.run 3 -1"] {
            assert_eq!(ask(view, "api/tiles", Some(bad)).status, 422, "{bad}");
        }
        let far = format!(
            "0.cpu0.run {} {}\n0.cpu0.ev 0 {0}\n0.cpu9.run 1 1\n0.task x 1",
            u32::MAX,
            u64::MAX
        );
        assert!(ask(view, "api/tiles", Some(&far)).status != 500);
        assert_eq!(ask(view, "api/late?s=0&pid=-5&limit=1", None).status, 200);
        assert_eq!(ask(view, "api/rows?s=1", None).status, 422);
        assert_eq!(ask(view, "api/rows?s=0&first=99999999999&n=9", None).body[..], *b"[]");
        assert_eq!(ask(view, "api/place?s=0&t=-9223372036854775808", None).status, 200);
        assert_eq!(ask(view, "api/wakes?s=0&from=9223372036854775807&to=0", None).status, 200);
        assert_eq!(ask(view, "api/latency?s=0&a=nix&b=sched_switch", None).status, 422);
        assert_eq!(ask(view, "api/select?s=0", Some("{\"expressions\": 7}")).status, 422);
        for path in ["../../etc/passwd", "api/../view.js", "%2e%2e/x", "view.js/x", "nothing"] {
            assert_eq!(ask(view, path, None).status, 404, "{path}");
        }
    });
}

#[test]
fn a_report_leads_to_its_captures_and_to_each_late_wake_up() {
    let data = data("f6.dat");
    let file = TraceFile::parse(&data).unwrap();
    let name = "<1>.dat";
    let around = SystemContext { limit_ns: 82_000, ..SystemContext::default() };
    let inputs =
        vec![Input { name: name.into(), file: &file, offset: 0, stacks: UserStacks::default() }];
    let view = View::new("run", inputs, around, true);
    view.read();
    let html = "<header></header><main><th scope=\"row\">captures/&lt;1&gt;.dat</th></main>";
    let door = Door { report: Some(html.into()), ..door() };
    let url = format!("/{}/report", door.token);
    let request = Request { url: &url, host: "127.0.0.1:8123", ..Request::default() };
    let reply = answer(&view, &door, &request);
    let page = std::str::from_utf8(&reply.body).unwrap();
    assert!(page.contains("<a href=\"./#tab=late&amp;s=0\">captures/&lt;1&gt;.dat</a>"), "{page}");
    let late = view.late().list.iter().filter(|w| w.late).count();
    assert!(late >= 3);
    for n in 0..late {
        assert_eq!(page.matches(&format!("&amp;late={n}\"")).count(), 1, "{n}");
    }
    assert!(!page.contains(name) && page.ends_with("</section></main>"));
}

#[test]
fn who_has_no_right_learns_nothing() {
    with_view("mark6.dat", |view, _| {
        let right = format!("/{}/api/info", door().token);
        let good = Request { url: &right, host: "127.0.0.1:8123", ..Request::default() };
        assert_eq!(answer(view, &door(), &good).status, 200);
        let status = |r: Request<'_>| answer(view, &door(), &r).status;
        assert_eq!(status(Request { host: "localhost:8123", ..good.clone() }), 200);
        assert_eq!(status(Request { origin: Some("http://127.0.0.1:8123"), ..good.clone() }), 200);
        for host in ["", "127.0.0.1", "127.0.0.1:80", "evil.example:8123", "127.0.0.1:8123.evil"] {
            assert_eq!(status(Request { host, ..good.clone() }), 403, "{host}");
        }
        for origin in
            ["null", "http://evil.example", "https://127.0.0.1:8123", "http://127.0.0.1:8124"]
        {
            assert_eq!(status(Request { origin: Some(origin), ..good.clone() }), 403, "{origin}");
        }
        for token in [
            "",
            "0123456789abcdef0123456789abcdee",
            "0123456789abcdef",
            "0123456789abcdef0123456789abcdef0",
        ] {
            let url = format!("/{token}/api/info");
            assert_eq!(status(Request { url: &url, ..good.clone() }), 403, "{token}");
        }
        let none = Door { token: String::new(), ..door() };
        let empty = Request { url: "//api/info", ..good };
        assert_eq!(answer(view, &none, &empty).status, 403, "an empty token opens nothing");
    });
}

#[test]
fn an_export_holds_the_window_and_no_markup_of_the_trace() {
    with_view("f6.dat", |view, _| {
        let mut page = Vec::new();
        latlab_view::export::export(view, None, None, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        let start = page.find("type=\"application/json\">").unwrap() + 24;
        let json = &page[start..start + page[start..].find("</script>").unwrap()];
        assert!(!json.contains('<'));
        let data: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(data["rows"][0].as_array().unwrap().len(), 1983);
        let (_, index) = view.source(0).unwrap();
        let middle = index.origin + (index.end - index.origin) / 2;
        let mut half = Vec::new();
        latlab_view::export::export(view, Some(middle), None, &mut half).unwrap();
        assert!(half.len() < page.len());
        let nothing = latlab_view::export::export(view, Some(1), Some(2), &mut Vec::new());
        assert!(nothing.unwrap_err().to_string().contains("no event"));
    });
}

/// Causes and stages are named as in reports, not by identifiers.
#[test]
fn causes_have_the_names_of_reports() {
    for (name, verdict, causes) in [
        ("nmi7-x86_64.dat", "NMI", &["NMI", "wake-up path"][..]),
        ("cyclictest-mark.dat", "timer function", &["timer function", "wake-up path"]),
    ] {
        with_view(name, |view, _| {
            let late = view.late();
            let found = late.list.iter().find(|w| w.late).unwrap();
            assert!(found.verdict.starts_with(verdict), "{name}: {}", found.verdict);
            assert!(late.causes[0].starts_with(verdict), "{name}: {:?}", late.causes);
            for cause in causes {
                let named = |p: &latlab_view::critical_path::Part| p.cause == *cause;
                assert!(found.parts.iter().any(named), "{name} {cause}: {:?}", found.parts);
            }
            assert!(found.parts.iter().all(|p| p.stage.starts_with("until ")), "{name}");
        });
    }
}

/// What the page is told about one event.
fn detail(view: &View<'_>, row: u64) -> event::Detail {
    let (source, index) = view.source(0).unwrap();
    event::detail(source.file, source.rows(), &index, row).unwrap()
}

#[test]
fn every_field_of_every_kind_of_event_is_told() {
    for name in ["f6.dat", "events7-x86_64.dat", "graph6-x86_64.dat", "mark6.dat", "inst6.dat"] {
        with_view(name, |view, file| {
            let (source, index) = view.source(0).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            for row in source.rows().get(&index, None, 0, 500) {
                let format = file.formats.get(row.kind).unwrap();
                if !seen.insert(row.kind) {
                    continue;
                }
                let told = detail(view, row.row);
                assert_eq!(told.name, format.full_name());
                let names: Vec<&str> = told.fields.iter().map(|f| &*f.name).collect();
                let all: Vec<&str> = format.fields().iter().map(|f| &*f.name).collect();
                assert_eq!(names, all, "{name} {}", told.name);
                let pid = told.fields.iter().find(|f| f.name == "common_pid").unwrap();
                assert_eq!((&*pid.value, pid.common), (&*row.pid.to_string(), true));
                if told.name == "sched:sched_switch" {
                    let next = told.fields.iter().find(|f| f.name == "next_comm").unwrap();
                    assert!(row.text.contains(&*next.value) && !next.common, "{}", row.text);
                }
                if told.name == "sched:sched_stat_runtime" {
                    let ns = told.fields.iter().find(|f| f.name == "runtime").unwrap();
                    assert_eq!(ns.unit, "ns");
                    assert!(row.text.contains(&format!("runtime={}", ns.value)), "{}", row.text);
                }
            }
            assert!(seen.len() > 1, "{name}");
        });
    }
}

/// An event has the stack that the same task recorded next on the same CPU.
#[test]
fn events_have_the_stack_that_follows_them() {
    let all = |view: &View<'_>| {
        let (source, index) = view.source(0).unwrap();
        let rows = source.rows().range(&index, 0, index.events);
        let mut stacks = 0;
        for row in &rows {
            let told = detail(view, row.row);
            if told.name.ends_with("_stack") {
                let own = &told.stacks[0];
                assert_eq!((told.stacks.len(), own.row), (1, row.row));
                // The list's text has the same frames.
                let text: Vec<&str> = row.text.lines().skip(1).collect();
                assert_eq!(text.len(), own.frames.len());
                for (line, frame) in text.iter().zip(&own.frames) {
                    assert!(line.contains(&frame.address), "{line} {frame:?}");
                    assert_eq!(line.contains('('), !frame.name.starts_with("0x"), "{line}");
                }
            } else if let [stack] = &told.stacks[..] {
                stacks += 1;
                let of = &rows[stack.row as usize];
                assert_eq!((of.cpu, of.pid), (row.cpu, row.pid));
                assert_eq!(stack.user, view.title == "user");
            }
        }
        (rows.len(), stacks)
    };
    with_view("stack6.dat", |view, _| {
        assert_eq!(all(view), (285, 142));
        let frames = &detail(view, 1).stacks[0].frames;
        assert_eq!((frames.len(), &*frames[0].name), (7, "do_perf_trace_timer_class"));
    });
    // The same file with the numbers of both kinds of stack exchanged: user space has no symbols.
    let mut data = data("stack6.dat");
    for (from, to) in [
        ("kernel_stack\nID: 4", "kernel_stack\nID: 9"),
        ("user_stack\nID: 13", "user_stack\nID: 04"),
    ] {
        let at = data.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
        data[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    let file = TraceFile::parse(&data).unwrap();
    let inputs =
        vec![Input { name: "user".into(), file: &file, offset: 0, stacks: UserStacks::default() }];
    let view = View::new("user", inputs, SystemContext::default(), false);
    view.read();
    assert_eq!(all(&view), (285, 142));
    let graph = graph(&view, None);
    assert_eq!((graph.origin, graph.nodes[0].value), (flame::Origin::UserStacks, 142));
}

/// The flame graph of a part of the trace, or of all.
fn graph(view: &View<'_>, part: Option<(u64, u64)>) -> flame::Flame {
    let (source, index) = view.source(0).unwrap();
    let (from, to) = part.unwrap_or((index.origin, index.end));
    flame::flame(source.file, source.rows(), &index, from, to)
}

#[test]
fn flame_graphs_add_up() {
    use flame::Origin;
    for (name, origin, value) in [
        ("stack6.dat", Origin::KernelStacks, Some(142)),
        ("graph6-x86_64.dat", Origin::FunctionGraph, None),
        ("function7-x86_64.dat", Origin::Function, Some(32)),
        ("f6.dat", Origin::Nothing, None),
    ] {
        with_view(name, |view, _| {
            let (_, index) = view.source(0).unwrap();
            let whole = graph(view, None);
            assert_eq!(whole.origin, origin, "{name}");
            if origin == Origin::Nothing {
                return assert!(whole.nodes.is_empty());
            }
            let value = value.unwrap_or_else(|| {
                let outer = index.cpus.iter().filter_map(|c| c.nested[2].first());
                outer.flat_map(|s| (0..s.len()).map(|i| s.end[i] - s.start[i])).sum()
            });
            assert_eq!(whole.nodes[0].value, value, "{name}");
            let mut below = vec![0; whole.nodes.len()];
            let mut names = vec![String::new(); whole.nodes.len()];
            for (i, node) in whole.nodes.iter().enumerate().skip(1) {
                assert!(node.parent < i);
                below[node.parent] += node.value;
                assert!(names[node.parent] < node.name, "children are in order of their names");
                names[node.parent].clone_from(&node.name);
            }
            assert!(below.iter().zip(&whole.nodes).all(|(sum, n)| *sum <= n.value), "{name}");
            // Two halves are the whole.
            let middle = index.origin + (index.end - index.origin) / 2;
            let next = if origin == Origin::FunctionGraph { middle } else { middle + 1 };
            let halves = [(index.origin, middle), (next, index.end)]
                .map(|part| graph(view, Some(part)).nodes.first().map_or(0, |n| n.value));
            assert_eq!(halves.iter().sum::<u64>(), value, "{name} {halves:?}");
            assert!(!whole.partial);
        });
    }
    with_view("stack6.dat", |view, _| {
        // The innermost box is the event, below the function that recorded it.
        let nodes = graph(view, None).nodes;
        let event = nodes.iter().find(|n| n.name == "hrtimer_start").unwrap();
        assert_eq!(nodes[event.parent].name, "do_perf_trace_timer_class");
    });
}

/// 300 interrupts within each other, of which none ends, at each of 2,000 switches: without a limit of their rows
/// there are 600,000 spans.
#[test]
fn what_never_ends_takes_no_memory_at_each_switch() {
    let line = |us: u32, what: &str| format!("  a-1 [000] d.h.. 1.{us:06}: {what}\n");
    let entry = |n: u32| line(n, &format!("irq_handler_entry: irq={n} name=x"));
    let switch = |n: u32| {
        let all: String =
            (0..300).map(|k| line(n, &format!("irq_handler_entry: irq={k} name=x"))).collect();
        let (prev, next) = (1 + n % 2, 1 + (n + 1) % 2);
        let words = format!(
            "sched_switch: prev_comm=a prev_pid={prev} prev_prio=9 prev_state=S ==> next_comm=a next_pid={next} next_prio=9"
        );
        all + &line(n, &words)
    };
    let text: String = (0..300).map(entry).chain((300..2_300).map(switch)).collect();
    let file = latlab_trace::text::parse(text.as_bytes()).unwrap();
    let index = Index::build(&file, 0, 1, &Progress::default(), &[], &mut |_| {});
    assert_eq!(index.events, 300 + 301 * 2_000);
    let spans: usize = index.cpus[0].nested.iter().flatten().map(|row| row.start.len()).sum();
    assert!((2_000..20_000).contains(&spans), "{spans}");
}

/// Ctrl-C while a large trace is read does not wait for its end.
#[test]
fn an_index_that_nobody_waits_for_is_not_read_to_the_end() {
    let data = data("f6.dat");
    let file = TraceFile::parse(&data).unwrap();
    let progress = Progress { stop: true.into(), ..Progress::default() };
    let index = Index::build(&file, 0, 1, &progress, &[], &mut |_| {});
    assert!(index.events <= file.buffers[0].cpus.len() as u64, "{}", index.events);
}
