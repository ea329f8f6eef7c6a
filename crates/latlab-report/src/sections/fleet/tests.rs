use super::*;
use crate::html;
use latlab_model::fleet::{
    Alarm, Board, Change, Device, Environment, Kernel, Level, Line, Night, Pair, Point, Property,
    Step, Tail, TailQuantile,
};
use latlab_stats::clusters::{Over, Unknown};
use std::collections::BTreeSet;

/// Two boards of three devices over 30 nights, a result, and two alarms.
fn fleet(name: &str) -> Fleet {
    let text = |i: usize| format!("{name}{i}");
    let device = |i| Device {
        name: text(i),
        nights: 30,
        last: 29,
        kernel: 1,
        difference: Some(0.02 * i as f64),
        worst: Some((0, 0.1)),
    };
    let board = |b: usize| Board {
        name: text(b),
        devices: (0..3).map(|d| device(b * 3 + d)).collect(),
        more_devices: 0,
    };
    let point = |night: u32| {
        let middle = if night < 20 { 15_000.0 } else { 18_000.0 };
        Point { night, devices: 3, low: middle - 500.0, middle, high: middle + 500.0 }
    };
    let line = |board| Line {
        board,
        devices: 3,
        points: (0..30).map(point).collect(),
        levels: vec![
            Level { kernel: 0, nights: 20, value: 15_000.0 },
            Level { kernel: 1, nights: 10, value: 18_000.0 },
        ],
        worst: Some((text(1), 19_000.0)),
    };
    let quantile = |q, value, high| TailQuantile { q, value, interval: Some((15_103, high)) };
    let tail = |board, over| Tail {
        board,
        samples: 200_100,
        devices: 6,
        nights: 7,
        over,
        buckets: vec![(15_103, 200_000), (20_223, 100)],
        quantiles: vec![
            TailQuantile { q: 0.5, value: 15_103, interval: None },
            quantile(0.999, 15_103, Some(20_223)),
            quantile(0.9999, 20_223, None),
        ],
    };
    let metric = Metric {
        part: "wakeup".into(),
        name: text(0),
        params: text(1),
        lines: vec![line(0), line(1)],
        tails: vec![
            tail(None, Ok(Over::DevicesAndNights)),
            tail(Some(0), Err(Unknown::FewDevices)),
            tail(Some(1), Ok(Over::Devices)),
        ],
        ..Metric::default()
    };
    let alarm = |device: Option<String>, values| Alarm {
        night: 22,
        since: 20,
        device,
        family: text(0),
        suspects: (0, 1),
        p: 1e-9,
        changes: vec![Change {
            metric: 0,
            change: 0.2,
            before: Some(15_000.0),
            after: Some(18_000.0),
            now: Some(18_000.0),
            values,
        }],
        environment: Environment {
            compared: 3,
            changes: vec![Property {
                name: text(5),
                before: text(6),
                after: String::new(),
                devices: 2,
            }],
            more: 1,
        },
        ..Alarm::default()
    };
    Fleet {
        nights: (0..30)
            .map(|i| Night { date: format!("2026-03-{:02}", i + 1), devices: 6, runs: 12 })
            .collect(),
        kernels: (0..2)
            .map(|i| Kernel {
                release: text(i),
                first: i * 20,
                last: 29,
                boards: vec![0, 1],
                devices: 6,
            })
            .collect(),
        boards: vec![board(0), board(1)],
        metrics: vec![metric],
        alarms: vec![
            alarm(None, Vec::new()),
            alarm(Some(text(2)), (0..30).map(|n| (n, 15_000.0)).collect()),
        ],
        steps: vec![Step {
            kernel: 1,
            before: 0,
            board: 0,
            metric: 0,
            nights: 10,
            devices: 3,
            change: 0.2,
        }],
        pairs: Vec::new(),
    }
}

/// The same with a second kernel of a campaign, a tenth better.
fn with_a_pair(name: &str) -> Fleet {
    let mut fleet = fleet(name);
    let mut other = fleet.metrics[0].clone();
    other.params = format!("{name}2");
    fleet.metrics.push(other);
    fleet.pairs = vec![Pair {
        board: 1,
        metric: 1,
        kernel: format!("{name}fast"),
        against: 0,
        against_kernel: format!("{name}old"),
        nights: 30,
        devices: 3,
        change: -0.1,
        interval: Some((-0.12, -0.08)),
    }];
    fleet
}

fn site_of(fleet: &Fleet, most: Limits) -> BTreeMap<String, String> {
    let all = pages(fleet, most);
    let texts = all.iter().map(|page| {
        let mut out = Vec::new();
        html::site::render(&page.doc, "latlab fleet report", &mut out).unwrap();
        (page.file, String::from_utf8(out).unwrap())
    });
    let texts: BTreeMap<String, String> = texts.collect();
    assert_eq!(texts.len(), all.len(), "each page has a name of its own");
    texts
}

/// Values of `href` that are no place on the page itself.
fn links(page: &str) -> Vec<String> {
    let tree = roxmltree::Document::parse_with_options(
        page.trim_start_matches("<!DOCTYPE html>\n"),
        roxmltree::ParsingOptions::default(),
    )
    .unwrap();
    let all = tree.descendants().filter_map(|n| n.attribute("href"));
    all.filter(|h| !h.starts_with('#')).map(|h| h.split('#').next().unwrap().to_owned()).collect()
}

#[test]
fn pages_tell_what_became_worse_and_where() {
    let fleet = fleet("name ");
    let site = site_of(&fleet, MOST);
    assert_eq!(site.len(), 1 + 2 + 1 + 2 + 2);
    let of = |kind: &str| site.iter().filter(|(f, _)| f.starts_with(kind)).collect::<Vec<_>>();
    let index = &site["index.html"];
    assert!(index.contains("6 devices of 2 boards, 2 kernels and 30 nights"), "{index}");
    let alarm = of("alarm")[0].1;
    assert!(alarm.contains("+20 %") && alarm.contains("The change lies between kernel"), "{alarm}");
    assert!(alarm.contains("15.0 µs") && alarm.contains("<svg"), "{alarm}");
    assert!(alarm.contains("Also changed: name 5 and 1 more."), "{alarm}");
    assert!(alarm.contains("on 3 devices that ran in both; 1 more are not listed"), "{alarm}");
    let kernel = of("kernel")[1].1;
    assert!(kernel.contains("1 result compared: 1 worse and 0 better"), "{kernel}");
    let result = of("result")[0].1;
    assert!(result.contains("p99.99") && result.contains("20.2 µs (from 15.1 µs)"), "{result}");
    assert!(result.contains("15.1 µs (15.1 µs to 20.2 µs)"), "{result}");
    assert!(result.contains("6 devices, 7 nights") && result.contains("6 devices in 7 nights"));
    assert!(of("board")[0].1.contains("wakeup"), "{:?}", of("board"));
    // Everything that is there is reached, and every link leads to a page.
    let (mut seen, mut todo) = (BTreeSet::new(), vec!["index.html".to_owned()]);
    while let Some(file) = todo.pop() {
        if seen.insert(file.clone()) {
            todo.extend(links(site.get(&file).unwrap_or_else(|| panic!("{file} is missing"))));
        }
    }
    assert_eq!(seen.len(), site.len(), "{seen:?}");
}

#[test]
fn kernels_of_a_campaign_stand_side_by_side() {
    let fleet = with_a_pair("name ");
    let site = site_of(&fleet, MOST);
    let cells = |page: &str, caption: &str| -> Vec<String> {
        let from = page.find(caption).unwrap_or_else(|| panic!("no {caption:?} in {page}"));
        let body = &page[from..];
        let body = &body[body.find("<tbody").unwrap()..body.find("</tbody").unwrap()];
        let text = |cell: &str| {
            let mut tag = false;
            let shown = cell.chars().filter(|c| {
                tag = *c == '<' || tag && *c != '>';
                !tag && *c != '>'
            });
            shown.collect::<String>().trim().to_owned()
        };
        body.split("<td").skip(1).map(|c| text(&format!("<td{c}"))).collect()
    };
    let row = cells(&site["index.html"], "Kernels of campaigns side by side");
    assert_eq!(row[..8], ["name fast", "name old", "1", "0", "1", "0", "0", "-10 %"], "{row:?}");
    let of = |what: &str| site.iter().find(|(_, page)| page.contains(what)).unwrap().1;
    let board = cells(of("Kernels side by side: medians over"), "Kernels side by side: medians");
    assert!(
        board.ends_with(&["30", "3", "-10 %", "-12 % to -8.0 %"].map(String::from)),
        "{board:?}"
    );
    // The page of the other kernel has it the other way round.
    let turned = cells(of("Kernel name old against"), "Kernel name old against 1 other");
    assert!(
        turned.ends_with(&["30", "3", "+11 %", "+8.7 % to +14 %"].map(String::from)),
        "{turned:?}"
    );
    assert!(!site_of(&super::tests::fleet("name "), MOST)["index.html"].contains("side by side"));
}

#[test]
fn names_of_devices_stay_text() {
    let evil = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>../../x\u{1b}[31m\u{202e}javascript:alert(3) ";
    let hostile = site_of(&with_a_pair(evil), MOST);
    let harmless = site_of(&with_a_pair("x"), MOST);
    let shape = |page: &String| {
        let body = page.trim_start_matches("<!DOCTYPE html>\n");
        let tree = roxmltree::Document::parse(body).unwrap();
        tree.descendants()
            .filter(roxmltree::Node::is_element)
            .map(|n| {
                let names: Vec<&str> = n.attributes().map(|a| a.name()).collect();
                (n.tag_name().name().to_owned(), names.join(" "))
            })
            // Where words stand in drawings, and whether they are shown, depends on their width.
            .filter(|(tag, _)| tag != "text" && tag != "polyline" && tag != "line")
            .collect::<Vec<_>>()
    };
    let count = |site: &BTreeMap<String, String>| {
        let mut all: Vec<_> = site.values().map(shape).collect();
        all.sort();
        all
    };
    assert_eq!(count(&hostile), count(&harmless), "no text became an element or an attribute");
    for (file, page) in &hostile {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        assert!(file.chars().all(plain) && !file.starts_with('.') && file.len() < 80, "{file}");
        assert!(!page.contains("<script") && !page.contains("javascript:alert(3)\""), "{file}");
        assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'), "{file}");
        assert!(links(page).iter().all(|l| hostile.contains_key(l)), "{file}");
        assert!(page.contains("default-src 'none'; style-src"), "{file}");
    }
}

#[test]
fn the_same_fleet_gives_the_same_bytes() {
    let one = site_of(&fleet("a"), MOST);
    assert_eq!(one, site_of(&fleet("a"), MOST));
    assert!(one.values().all(|page| !page.contains("<script")));
}

#[test]
fn names_that_differ_in_nothing_that_a_file_may_have_get_files_of_their_own() {
    let mut taken = BTreeSet::new();
    let names: Vec<String> =
        ["a/b", "a b", "", "∀", "a/b"].map(|t| file("x", t, &mut taken)).into();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 5, "{names:?}");
    assert!(names[0].starts_with("x-a-b-") && names[4].ends_with("-2.html"), "{names:?}");
}

#[test]
fn a_large_fleet_is_a_bounded_site() {
    let mut large = fleet("n");
    let more = large.boards[0].clone();
    large.boards.extend((0..40).map(|i| Board { name: format!("more {i}"), ..more.clone() }));
    let line = large.metrics[0].lines[0].clone();
    large.metrics[0].lines = (0..42).map(|board| Line { board, ..line.clone() }).collect();
    let metric = Metric { lines: vec![line], ..large.metrics[0].clone() };
    large.metrics.extend((0..50).map(|i| Metric { name: format!("m{i}"), ..metric.clone() }));
    let alarm = large.alarms[0].clone();
    large.alarms.extend((0..500).map(|_| alarm.clone()));
    let most = Limits { boards: 5, metrics: 7, builds: 1, alarms: 9, nights: 10 };
    let site = site_of(&large, most);
    assert_eq!(site.len(), 1 + 5 + 7 + 1 + 9);
    assert!(site.values().all(|p| p.len() < 400_000), "{:?}", site.values().map(String::len).max());
    assert!(site["index.html"].contains("Alarms; 493 more are not listed"));
    assert!(site["index.html"].contains("Boards, those with alarms first; 37 more are not listed"));
    // Links to what has no page are plain text.
    for page in site.values() {
        assert!(links(page).iter().all(|l| site.contains_key(l)));
    }
}

#[test]
fn an_empty_fleet_has_a_page() {
    let site = site_of(&Fleet::default(), MOST);
    assert_eq!(site.len(), 1);
    assert!(site["index.html"].contains("Alarms, the latest first: none."));
}
