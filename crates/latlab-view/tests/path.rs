//! The critical path of late activations, and the time without a CPU, of a real recording with kernel stacks:
//! `task` waits for `helper`, which waits for `second` (`fixtures/trace/README.md`).

use latlab_model::latency::{SystemContext, UserStacks};
use latlab_trace::TraceFile;
use latlab_view::api::{Door, Reply, Request, answer};
use latlab_view::index::Index;
use latlab_view::index::column::Items;
use latlab_view::index::task::State;
use latlab_view::{Input, View, export};
use serde_json::Value;

fn with_chain<R>(body: impl FnOnce(&View<'_>, &Index) -> R) -> R {
    let path = format!("{}/../../fixtures/trace/chain7.dat", env!("CARGO_MANIFEST_DIR"));
    let data = std::fs::read(path).unwrap();
    let file = TraceFile::parse(&data).unwrap();
    let inputs = vec![Input {
        name: "chain7.dat".into(),
        file: &file,
        offset: 0,
        stacks: UserStacks::default(),
    }];
    let view = View::new("chain", inputs, SystemContext::default(), false);
    view.read();
    let (_, index) = view.source(0).unwrap();
    body(&view, &index)
}

fn ask(view: &View<'_>, url: &str) -> Reply {
    let token = "0123456789abcdef0123456789abcdef";
    let door = Door { port: 8123, token: token.into(), report: None };
    let url = format!("/{token}/{url}");
    answer(view, &door, &Request { url: &url, host: "127.0.0.1:8123", ..Request::default() })
}

fn json(view: &View<'_>, url: &str) -> Value {
    let reply = ask(view, url);
    assert_eq!(reply.status, 200, "{url}: {}", String::from_utf8_lossy(&reply.body));
    serde_json::from_slice(&reply.body).unwrap()
}

fn pid(index: &Index, name: &str) -> i64 {
    let of = |p: &i32| index.comms.name(*p) == name.as_bytes();
    i64::from(*index.tasks.keys().find(|p| of(p)).unwrap())
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn a_late_activation_leads_through_both_tasks_to_the_one_that_worked() {
    with_chain(|view, index| {
        let [task, helper, second] = ["task", "helper", "second"].map(|n| pid(index, n));
        let late = json(view, &format!("api/late?s=0&pid={task}&limit=2000000&whole=1"));
        for w in list(&late["list"]) {
            let mut at = 0;
            for p in list(&w["parts"]) {
                assert_eq!(number(&p["from"]), at, "a hole or an overlap in {w}");
                at = number(&p["to"]);
            }
            assert_eq!(at, number(&w["to"]) - number(&w["from"]), "the response time");
            assert_eq!(w["activation"], true);
        }
        let found: Vec<&Value> = list(&late["list"]).iter().filter(|w| w["late"] == true).collect();
        let [w] = found[..] else { panic!("the 20th period alone is late: {found:#?}") };
        let of = |pid: i64| {
            let own = list(&w["parts"]).iter().filter(move |p| number(&p["pid"]) == pid);
            own.map(|p| number(&p["to"]) - number(&p["from"])).sum::<i64>()
        };
        assert!(of(second) > 2_900_000, "{w}");
        assert!(of(helper) > 40_000 && of(task) > 200_000, "{w}");
        let depths = |pid: i64| {
            let own = list(&w["parts"]).iter().filter(move |p| number(&p["pid"]) == pid);
            own.map(|p| number(&p["depth"])).max()
        };
        assert_eq!([task, helper, second].map(depths), [Some(0), Some(1), Some(2)]);
        // The timer wakes the task; `second` wakes `helper`, and that the task.
        let woken: Vec<[i64; 2]> =
            list(&w["arrows"]).iter().map(|a| [number(&a["by"]), number(&a["pid"])]).collect();
        let first = &list(&w["arrows"])[0];
        assert!(first["who"].as_str().unwrap().contains("hrtimer_wakeup"), "{first}");
        assert_eq!((&first["lane"], number(&first["pid"])), (&Value::from("irq"), task));
        assert!(woken.ends_with(&[[second, helper], [helper, task]]), "{woken:?}");
    });
}

#[test]
fn a_limit_that_nothing_exceeds_and_a_task_that_is_none_are_answered() {
    with_chain(|view, index| {
        let task = pid(index, "task");
        let none = json(view, &format!("api/late?s=0&pid={task}&limit=900000000&whole=1"));
        assert!(list(&none["list"]).iter().all(|w| w["late"] == false));
        let reply = ask(view, "api/late?s=0&pid=-5&limit=1&whole=1");
        assert_eq!(reply.status, 422);
        assert!(String::from_utf8_lossy(&reply.body).contains("has no activation of this task"));
    });
}

/// Each wait on the way has the stack with which the task left its CPU.
#[test]
fn waits_have_the_stack_of_the_switch() {
    with_chain(|view, index| {
        let [task, helper] = ["task", "helper"].map(|n| pid(index, n));
        let late = json(view, &format!("api/late?s=0&pid={task}&limit=2000000&whole=1"));
        let w = &list(&late["list"])[0];
        for pid in [task, helper] {
            let off = |o: &&Value| number(&o["pid"]) == pid && o["waits"] == true;
            let longest = list(&w["off"])
                .iter()
                .filter(off)
                .max_by_key(|o| number(&o["to"]) - number(&o["from"]));
            let longest = longest.unwrap();
            assert!(number(&longest["to"]) - number(&longest["from"]) > 2_900_000, "{longest}");
            let frames = list(&late["stacks"][number(&longest["stack"]) as usize]);
            let has = |name: &str| frames.contains(&name.into());
            assert!(has("__schedule") && has("anon_pipe_read") && has("ksys_read"), "{frames:?}");
        }
    });
}

#[test]
fn the_time_without_a_cpu_is_that_of_the_lane() {
    with_chain(|view, index| {
        let task = pid(index, "task");
        let all = index.end - index.origin;
        let flame = json(view, &format!("api/flame?s=0&from=0&to={all}&off={task}"));
        assert_eq!(flame["origin"], "off_cpu");
        let spans = &index.task_lane(task as i32).spans;
        let spans: Vec<_> = (0..spans.len()).map(|i| spans.get(i)).collect();
        let first = spans.iter().position(|s| s.id == State::Running as u32).unwrap();
        let off = |s: &&latlab_view::index::column::Item| {
            [State::Waiting, State::Sleeping, State::Blocked].iter().any(|o| *o as u32 == s.id)
        };
        let expected: u64 = spans[first..].iter().filter(off).map(|s| s.end - s.start).sum();
        let nodes = list(&flame["nodes"]);
        assert_eq!(number(&nodes[0]["value"]) as u64, expected);
        let named = |name: &str| nodes.iter().any(|n| n["name"] == name);
        assert!(named("sleeping") && named("hrtimer_nanosleep") && named("ksys_read"), "{flame}");
        // Of another task there is nothing.
        let none = json(view, &format!("api/flame?s=0&from=0&to={all}&off=1000000"));
        assert_eq!(none["origin"], "nothing");
    });
}

#[test]
fn an_exported_page_has_the_lanes_of_the_path() {
    with_chain(|view, _| {
        let mut page = Vec::new();
        export::export(view, None, None, &mut page).unwrap();
        assert!(String::from_utf8(page).unwrap().contains("\"stacks\":["));
    });
}
