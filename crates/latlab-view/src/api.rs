//! From a request to a reply. Pure; everything that a page may ask is in this file.
//!
//! | request (behind `/TOKEN/`) | reply |
//! |---|---|
//! | `` `view.js` `view.css` `` | the page |
//! | `report` | the run's report, where a run is looked at |
//! | `api/status` `api/info` | JSON: progress; lanes, tasks, kinds, notes of what is read so far |
//! | `POST api/tiles`: lines `LANE LEVEL NUMBER` | the tiles, one after the other (see [`crate::tile`]) |
//! | `POST api/select?s=`: a [`Query`] | JSON: number and size of the selection |
//! | `api/rows?s= set= first= n=` | JSON: rows of the event list |
//! | `api/place?s= set= t=` or `row=` | JSON: which row a time or an event is |
//! | `api/find?s= set= row= back=` | JSON: the next event of the selection |
//! | `api/wakes?s= from= to=` | JSON: wake-ups in a stretch of time |
//! | `api/late` `api/late?s= pid= limit=` | JSON: late wake-ups with their parts and what ended the waits |
//! | `api/late?s= pid= limit= whole=1` | JSON: the same of late activations, to their end |
//! | `api/event?s= row=` | JSON: all fields of an event, and its stacks |
//! | `api/flame?s= from= to=` | JSON: a flame graph of a stretch of time |
//! | `api/flame?s= from= to= off=` | JSON: the same of the time in which that task had no CPU |
//! | `api/latency?s= a= b= ka= kb= only=` | JSON: time between two kinds of events |
//!
//! Who may ask: only the page itself. The token must be right, the Host one of
//! this machine's own names, and Origin and Sec-Fetch-Site, where a browser sends
//! them, must be ours: a foreign page that knows the port learns nothing, also by
//! way of a name that it lets point here.

use crate::assets;
use crate::event;
use crate::flame::{flame, off_cpu};
use crate::index::Index;
use crate::index::fold::Wake;
use crate::late;
use crate::latency::{Ask, latency};
use crate::select::{Query, Set};
use crate::tile::encode;
use crate::view::{Problem, Source, View};
use latlab_model::units::format_ns;
use serde::Serialize;
use serde_json::json;
use std::borrow::Cow;
use std::sync::Arc;

/// Tiles of one answer at most.
const TILES: usize = 2048;
/// Wake-ups of one answer at most.
const WAKES: usize = 2000;
/// Bytes of a body at most.
pub const BODY: usize = 1 << 20;

/// What a request says.
#[derive(Clone, Debug, Default)]
pub struct Request<'r> {
    /// Whether it is a POST.
    pub post: bool,
    /// Path and query, as sent.
    pub url: &'r str,
    /// `Host`.
    pub host: &'r str,
    /// `Origin`, where there is one.
    pub origin: Option<&'r str>,
    /// `Sec-Fetch-Site`, where there is one.
    pub site: Option<&'r str>,
    /// The body.
    pub body: &'r [u8],
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Content type.
    pub kind: &'static str,
    /// Content.
    pub body: Cow<'static, [u8]>,
    /// Whether it is the report, which brings its own policy for its script.
    pub report: bool,
}

/// The policy of the page: its own script and style, its own server, nothing else.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// Where the server is, and the secret that its page knows.
#[derive(Clone, Debug)]
pub struct Door {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// The token.
    pub token: String,
    /// The run's report, where a run is looked at.
    pub report: Option<String>,
}

const NO_TOKEN: &str = "latlab view: this address lacks the token; open the one that was printed\n";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

fn reply(kind: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Reply {
    Reply { status: 200, kind, body: body.into(), report: false }
}

fn refuse(status: u16, why: &'static str) -> Reply {
    Reply { status, kind: TEXT, body: Cow::Borrowed(why.as_bytes()), report: false }
}

fn value<T: Serialize>(value: &T) -> Reply {
    match serde_json::to_vec(value) {
        Ok(body) => reply(JSON, body),
        Err(e) => problem(format!("the answer cannot be written: {e}")),
    }
}

fn problem(error: String) -> Reply {
    let body = serde_json::to_vec(&Problem { error }).unwrap_or_default();
    Reply { status: 422, ..reply(JSON, body) }
}

/// Answers a request.
pub fn answer(view: &View<'_>, door: &Door, request: &Request<'_>) -> Reply {
    if let Err(refused) = admit(door, request) {
        return refused;
    }
    let (path, query) = request.url.split_once('?').unwrap_or((request.url, ""));
    let Some(path) = inside(door, path) else {
        return refuse(403, NO_TOKEN);
    };
    let args = Args::parse(query);
    match (path, request.post) {
        ("", false) => reply("text/html; charset=utf-8", assets::HTML.as_bytes()),
        ("view.js", false) => reply("text/javascript; charset=utf-8", assets::SCRIPT.as_bytes()),
        ("view.css", false) => reply("text/css; charset=utf-8", assets::STYLE.as_bytes()),
        ("report", false) => match &door.report {
            Some(html) => Reply {
                report: true,
                ..reply("text/html; charset=utf-8", linked(html, view).into_bytes())
            },
            None => {
                refuse(404, "latlab view: there is no report: a trace is looked at, not a run\n")
            }
        },
        ("api/status", false) => value(&view.status()),
        ("api/info", false) => {
            let mut info = view.info();
            info["report"] = json!(door.report.is_some());
            value(&info)
        }
        ("api/tiles", true) => tiles(view, request.body),
        ("api/select", true) => select(view, &args, request.body),
        ("api/late", false) => late_of(view, &args),
        (path, false) => match path.strip_prefix("api/") {
            Some(what) => of_source(view, &args, what),
            None => refuse(404, "latlab view: there is nothing at this address\n"),
        },
        _ => refuse(404, "latlab view: there is nothing at this address\n"),
    }
}

/// Late wake-ups that a report leads to at most.
const LINKS: usize = 500;

/// The report as it is served: it leads to the captures and to every late wake-up that it speaks of.
fn linked(html: &str, view: &View<'_>) -> String {
    let mut html = html.replacen(
        "</header>",
        "<p><a href=\"./#tab=late\">Look at the captures in the viewer</a></p></header>",
        1,
    );
    for (n, source) in view.sources.iter().enumerate() {
        let name = escape(&source.name);
        // Where the table of captures names the file, at the beginning of a row.
        for shown in [format!("captures/{name}"), name] {
            let head = |inside: &str| format!("<th scope=\"row\">{inside}</th>");
            let link = format!("<a href=\"./#tab=late&amp;s={n}\">{shown}</a>");
            html = html.replace(&head(&shown), &head(&link));
        }
    }
    if view.is_ready()
        && let Some(at) = html.rfind("</main>")
    {
        html.insert_str(at, &late_links(view));
    }
    html
}

/// A section that leads to each late wake-up.
fn late_links(view: &View<'_>) -> String {
    let late: Vec<_> = view.late().list.iter().filter(|w| w.late).collect();
    if late.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<section id=\"in-the-viewer\" aria-labelledby=\"in-the-viewer-title\">\
         <h2 id=\"in-the-viewer-title\">Late wake-ups in the viewer</h2>\
         <div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Late wake-ups\"><table>\
         <thead><tr><th scope=\"col\">intended (s)</th><th scope=\"col\">task</th><th scope=\"col\">CPU</th>\
         <th scope=\"col\" class=\"n\">late by</th><th scope=\"col\">verdict</th><th scope=\"col\">capture</th></tr></thead><tbody>",
    );
    for (n, w) in late.iter().take(LINKS).enumerate() {
        let Some((source, index)) = view.source(w.source) else { continue };
        let at = index.origin.saturating_add_signed(w.from);
        out.push_str(&format!(
            "<tr><th scope=\"row\"><a href=\"./#tab=late&amp;s={}&amp;late={n}\">{}.{:09}</a></th>\
             <td>{}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
            w.source,
            at / 1_000_000_000,
            at % 1_000_000_000,
            escape(&format!("{}-{}", w.comm, w.pid)),
            w.cpu,
            format_ns((w.to - w.from) as f64),
            escape(&w.verdict),
            escape(&source.name),
        ));
    }
    out.push_str("</tbody></table></div>");
    if late.len() > LINKS {
        out.push_str(&format!(
            "<p>The first {LINKS} of {}; all are in the viewer.</p>",
            late.len()
        ));
    }
    out + "</section>"
}

/// Text as markup bears it.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Whether a request comes from the page, as far as its heads say.
/// Whether Host, origin and token are right; what is in the body is not looked at.
pub(crate) fn admit(door: &Door, r: &Request<'_>) -> Result<(), Reply> {
    let ours = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", door.port));
    if !ours.iter().any(|o| o == r.host) {
        return Err(refuse(403, "latlab view: this Host is not served\n"));
    }
    if r.origin.is_some_and(|o| o.strip_prefix("http://") != Some(r.host)) {
        return Err(refuse(403, "latlab view: other pages are not answered\n"));
    }
    // `cross-site` is also what a link on a page elsewhere says; the token decides about those.
    if r.site.is_some_and(|s| s == "cross-site") && r.post {
        return Err(refuse(403, "latlab view: other pages are not answered\n"));
    }
    let path = r.url.split_once('?').map_or(r.url, |(path, _)| path);
    match inside(door, path) {
        Some(_) => Ok(()),
        None => Err(refuse(403, NO_TOKEN)),
    }
}

/// The path behind the token, if that is right. Takes the same time however wrong it is.
fn inside<'p>(door: &Door, path: &'p str) -> Option<&'p str> {
    let (token, rest) = path.strip_prefix('/')?.split_once('/')?;
    let (given, right) = (token.as_bytes(), door.token.as_bytes());
    let mut differs = given.len() ^ right.len();
    for (i, b) in right.iter().enumerate() {
        differs |= usize::from(b ^ given.get(i).copied().unwrap_or(0));
    }
    (differs == 0 && !right.is_empty()).then_some(rest)
}

/// The arguments behind the `?`.
struct Args(Vec<(String, String)>);

impl Args {
    fn parse(query: &str) -> Self {
        let pair = |p: &str| {
            let (k, v) = p.split_once('=').unwrap_or((p, ""));
            (unescape(k), unescape(v))
        };
        Self(query.split('&').filter(|p| !p.is_empty()).map(pair).collect())
    }
    fn text(&self, key: &str) -> &str {
        self.0.iter().find(|(k, _)| k == key).map_or("", |(_, v)| v)
    }
    fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.text(key).parse().ok()
    }
}

/// `%41` and `+`; what is no escape stays as it is.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = bytes.get(i + 1..i + 3).and_then(|h| std::str::from_utf8(h).ok());
        match (bytes[i], hex.and_then(|h| u8::from_str_radix(h, 16).ok())) {
            (b'%', Some(b)) => {
                out.push(b);
                i += 2;
            }
            (b'+', _) => out.push(b' '),
            (b, _) => out.push(b),
        }
        i += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn tiles(view: &View<'_>, body: &[u8]) -> Reply {
    let text = String::from_utf8_lossy(body);
    let mut asked = Vec::new();
    for line in text.lines().take(TILES) {
        let words: Vec<&str> = line.split(' ').collect();
        let [lane, level, number] = words[..] else {
            return problem(format!("{line:?} is not a tile"));
        };
        let (Ok(level), Ok(number)) = (level.parse::<u32>(), number.parse::<u64>()) else {
            return problem(format!("{line:?} is not a tile"));
        };
        asked.push((lane, level, number));
    }
    let mut out = Vec::new();
    view.tiles(&asked).iter().for_each(|(tile, origin)| encode(tile, *origin, &mut out));
    reply("application/octet-stream", out)
}

fn select(view: &View<'_>, args: &Args, body: &[u8]) -> Reply {
    let query: Query = match serde_json::from_slice(body) {
        Ok(query) => query,
        Err(e) => return problem(format!("the selection cannot be read: {e}")),
    };
    match view.select(args.number("s").unwrap_or(0), &query) {
        Ok((id, set)) => value(&json!({ "set": id, "count": set.count })),
        Err(e) => problem(e.to_string()),
    }
}

fn late_of(view: &View<'_>, args: &Args) -> Reply {
    let source = args.number("s").unwrap_or(0);
    match args.number::<i32>("pid") {
        Some(pid) => match view.source(source) {
            Some((of, index)) => {
                let limit = args.number("limit").unwrap_or(0);
                let read = (of.file, &*of.stacks, of.buffer);
                if args.text("whole") == "1" {
                    let task = (pid, limit);
                    let late = late::activations_of_task(read, &index, source, task, &view.around);
                    return late.map_or_else(problem, |late| value(&late));
                }
                value(&late::of_task((of.file, of.buffer), &index, source, pid, limit))
            }
            None => problem("the trace is still being read".into()),
        },
        None if !view.is_ready() => problem("the trace is still being read".into()),
        None => value(view.late()),
    }
}

/// What concerns one source.
fn of_source(view: &View<'_>, args: &Args, what: &str) -> Reply {
    let Some((source, index)) = view.source(args.number("s").unwrap_or(0)) else {
        return problem("there is no such source, or it is still being read".into());
    };
    let set: Option<Arc<Set>> = match args.number::<u32>("set") {
        Some(0) | None => None,
        Some(id) => match index.set(id) {
            Some(set) => Some(set),
            None => return problem("this selection is no longer kept; select again".into()),
        },
    };
    let index = &*index;
    match what {
        "rows" => {
            let (first, n) = (args.number("first").unwrap_or(0), args.number("n").unwrap_or(50));
            value(&source.rows().get(index, set.as_deref(), first, n))
        }
        "place" => {
            let event = match args.number::<i64>("t") {
                Some(t) => source.rows().at_time(index, index.origin.saturating_add_signed(t)),
                None => args.number("row").unwrap_or(0),
            };
            let place = set.map_or(event, |s| s.rank(event));
            value(&json!({ "event": event, "place": place }))
        }
        "find" => find(source, index, set.as_deref(), args),
        "wakes" => wakes(index, args),
        "event" => {
            let row = args.number("row").unwrap_or(0);
            match event::detail(source.file, source.rows(), index, row) {
                Some(detail) => value(&detail),
                None => problem(format!("there is no event {row}")),
            }
        }
        "flame" => {
            let at = |key| index.origin.saturating_add_signed(args.number::<i64>(key).unwrap_or(0));
            let (from, to) = (at("from"), at("to"));
            value(&match args.number("off") {
                Some(pid) => off_cpu(source.file, source.rows(), index, (from, to), pid),
                None => flame(source.file, source.rows(), index, from, to),
            })
        }
        "latency" => {
            let ask = Ask {
                a: args.text("a"),
                b: args.text("b"),
                key_a: args.text("ka"),
                key_b: args.text("kb"),
                only: args.number("only"),
            };
            match latency(source.file, source.buffer, (index.origin, index.end), &ask) {
                Ok(l) => value(&l),
                Err(e) => problem(e.to_string()),
            }
        }
        _ => refuse(404, "latlab view: there is nothing at this address\n"),
    }
}

fn find(source: &Source<'_>, index: &Index, set: Option<&Set>, args: &Args) -> Reply {
    let row: i64 = args.number("row").unwrap_or(-1);
    let forward = args.number::<u8>("back") != Some(1);
    let found = match set {
        // Before the first event everything is behind it.
        Some(set) if row < 0 && forward => set.nth(0),
        Some(set) => set.next(row.max(0) as u64, forward),
        None => None,
    };
    let row = found.and_then(|n| source.rows().get(index, None, n, 1).into_iter().next());
    value(&json!({ "row": row }))
}

#[derive(Serialize)]
struct Shown {
    t: i64,
    pid: i32,
    waker: i32,
    cpu: u16,
    target: u16,
    context: u8,
}

fn wakes(index: &Index, args: &Args) -> Reply {
    let at = |key| index.origin.saturating_add_signed(args.number::<i64>(key).unwrap_or(0));
    let (from, to) = (at("from"), at("to"));
    let first = index.wakes.partition_point(|w| w.time < from);
    let last = index.wakes.partition_point(|w| w.time <= to).max(first);
    // Arrows that cannot be told apart are not sent.
    if last - first > WAKES {
        return value(&json!({ "more": last - first, "wakes": [] }));
    }
    let show = |w: &Wake| Shown {
        t: w.time as i64 - index.origin as i64,
        pid: w.pid,
        waker: w.waker,
        cpu: w.cpu,
        target: w.target,
        context: w.context,
    };
    let shown: Vec<Shown> = index.wakes[first..last].iter().map(show).collect();
    value(&json!({ "more": 0, "wakes": shown }))
}
