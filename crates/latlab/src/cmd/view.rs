//! `latlab view`: maps the traces, serves the page, opens the browser.

use crate::cli::Global;
use crate::cli::view::Args;
use crate::cmd::why::user_stacks;
use crate::outcome::{HintExt, Outcome};
use crate::trace_input;
use crate::{rundir, term};
use anyhow::{Context, anyhow};
use latlab_analysis::latency::activations::Late;
use latlab_model::latency::{Release, SystemContext, TaskActivations};
use latlab_model::run::{Detail, Run};
use latlab_model::units::{Nanos, Tid};
use latlab_sys::files::random;
use latlab_sys::mmap::Mapped;
use latlab_sys::scratch::ScratchDir;
use latlab_sys::signal;
use latlab_trace::TraceFile;
use latlab_view::api::Door;
use latlab_view::late::Measured;
use latlab_view::{Input, View, export, server};
use serde_json::json;
use std::fs::{self, Metadata};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Runs it.
pub fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let what = Looked::at(args)?;
    latlab_sys::mmap::survive_truncation();
    let mut mapped = Vec::new();
    for (path, _) in &what.files {
        mapped.push(Watched::open(path)?);
    }
    let mut traces = Vec::new();
    for m in &mapped {
        traces.push(m.parse()?);
    }
    let mut inputs = Vec::new();
    for (file, (path, offset)) in traces.iter().zip(&what.files) {
        let stacks = user_stacks::load(path)?;
        inputs.push(Input { name: name_of(path), file, offset: *offset, stacks });
    }
    let mut view = View::new(&what.title, inputs, what.around.clone(), what.one_by_one);
    view.measured.clone_from(&what.measured);
    match &args.export {
        Some(path) => write_page(path, args, &view),
        None => serve(global, args, &view, &what, &mapped),
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// What is to be looked at.
struct Looked {
    title: String,
    files: Vec<(PathBuf, i64)>,
    around: SystemContext,
    /// The task whose activations the run explains.
    measured: Option<Measured>,
    one_by_one: bool,
    run: Option<Run>,
}

impl Looked {
    fn at(args: &Args) -> anyhow::Result<Self> {
        let (limit, offsets) = (args.limit_ns()?, args.offsets()?);
        let mut looked = Self {
            title: args.paths.iter().map(|p| name_of(p)).collect::<Vec<_>>().join(", "),
            files: Vec::new(),
            around: SystemContext::default(),
            measured: None,
            one_by_one: false,
            run: None,
        };
        for (path, offset) in args.paths.iter().zip(offsets) {
            if path.is_dir() || path.extension().is_some_and(|e| e == "json") {
                looked.add_run(path, offset)?;
            } else {
                looked.files.push((path.clone(), offset));
            }
        }
        looked.one_by_one = args.paths.len() == 1 && looked.files.len() > 1;
        if let Some(limit) = limit {
            looked.around.limit_ns = limit;
            if let Some(measured) = &mut looked.measured {
                measured.late = Late::Response(Nanos(limit));
            }
        }
        Ok(looked)
    }

    fn add_run(&mut self, path: &Path, offset: i64) -> anyhow::Result<()> {
        let run = rundir::load(path)?;
        let dir = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        let folder = dir.join("captures");
        let mut found: Vec<PathBuf> = fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|p| p.extension().is_some_and(|e| e == "dat"))
            .collect();
        found.sort();
        if found.is_empty() {
            return Err(anyhow!("{}: no captures in this run", path.display())).hint(
                "`latlab report RUN` shows a run; `latlab why` and `record --out` save captures",
            );
        }
        self.files.extend(found.into_iter().map(|p| (p, offset)));
        let why = run.parts.iter().find_map(|part| match &part.detail {
            Some(Detail::Why(result)) => Some(result),
            _ => None,
        });
        let first = why.and_then(|w| w.activations.first());
        let is_task =
            |t: &&TaskActivations| t.tid > 0 && !matches!(t.release, Release::Span { .. });
        self.measured = first.filter(is_task).map(|t| Measured {
            tid: Tid(t.tid),
            release: t.release.clone(),
            late: match (t.start_limit_ns, t.deadline_ns) {
                (0, deadline) => Late::Response(Nanos(deadline)),
                (start, _) => Late::Start(Nanos(start)),
            },
        });
        let why = why.map(|w| w.system_context.clone());
        self.around = why.unwrap_or_default();
        self.run = Some(run);
        Ok(())
    }

    /// The run's report, for the page to link to.
    fn report(&self) -> Option<String> {
        let doc = latlab_report::sections::page::of_run(self.run.as_ref()?);
        let mut html = Vec::new();
        latlab_report::html::render(&doc, &mut html).ok()?;
        String::from_utf8(html).ok()
    }
}

/// A mapped file, and what it looked like when it was opened.
struct Watched {
    path: PathBuf,
    data: Mapped,
    opened: Option<(u64, Option<SystemTime>)>,
}

impl Watched {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let data = Mapped::open(path)
            .with_context(|| format!("{}: cannot be opened", path.display()))
            .hint("name a trace.dat, ftrace's text, or a run with captures")?;
        let opened = fs::metadata(path).ok().map(|m| Self::looks(&m));
        Ok(Self { path: path.to_owned(), data, opened })
    }

    fn parse(&self) -> anyhow::Result<TraceFile<'_>> {
        trace_input::open(&self.data, &self.path)
    }

    fn looks(m: &Metadata) -> (u64, Option<SystemTime>) {
        (m.len(), m.modified().ok())
    }

    /// What happened to the file since.
    fn trouble(&self) -> Option<String> {
        let name = name_of(&self.path);
        let before = self.opened?;
        match fs::metadata(&self.path) {
            Err(_) => Some(format!("{name} was removed; the opened contents are still shown.")),
            Ok(m) if m.len() < before.0 => {
                Some(format!("{name} was truncated while open; parts of it cannot be read."))
            }
            Ok(m) if Self::looks(&m) != before => {
                Some(format!("{name} was modified while open; restart latlab view."))
            }
            Ok(_) => None,
        }
    }
}

fn serve(
    global: &Global,
    args: &Args,
    view: &View<'_>,
    what: &Looked,
    mapped: &[Watched],
) -> anyhow::Result<Outcome> {
    let bound = server::bind(args.port)
        .with_context(|| format!("port {} of 127.0.0.1", args.port))
        .hint("name another --port, or leave it out to use a free one")?;
    let door = Door { port: bound.port, token: token()?, report: what.report() };
    let url = format!("http://127.0.0.1:{}/{}/", door.port, door.token);
    let mut out = term::stdout();
    if global.json {
        serde_json::to_writer(&mut out, &json!({ "url": url, "pid": std::process::id() }))?;
        writeln!(out)?;
    } else {
        writeln!(out, "{url}")?;
    }
    out.flush()?;
    drop(out);
    // Until the end: a browser may be slow to start.
    let mut page = None;
    if !args.no_open && !global.json {
        page = open_browser(&url);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| view.read());
        let stop = || signal::stop_requested().is_some();
        bound.serve(view, &door, &stop, &|| mapped.iter().find_map(Watched::trouble));
        view.stop();
    });
    drop(page);
    Ok(Outcome::Done)
}

/// `--export`: the window as one page.
fn write_page(path: &Path, args: &Args, view: &View<'_>) -> anyhow::Result<Outcome> {
    let (from, to) = args.window()?;
    // Nothing is written yet: a signal ends the process.
    signal::forget();
    view.read();
    signal::install();
    let mut page = Vec::new();
    export::export(view, from, to, &mut page)
        .with_context(|| view.title.clone())
        .hint("choose a window with --from and --to, in seconds as `latlab report` prints them")?;
    rundir::write_atomically(path, |out| out.write_all(&page))
        .with_context(|| format!("--export {}", path.display()))?;
    writeln!(term::stderr(), "latlab: {}: {} bytes", path.display(), page.len())?;
    Ok(Outcome::Done)
}

/// 128 random bits.
fn token() -> anyhow::Result<String> {
    let bytes =
        random::<16>().context("no random numbers for the page's token from /dev/urandom")?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// Opens the desktop's browser where there is a desktop; whether it works is not our business.
///
/// The address has the token, and every user sees a command line: the browser gets a file that only
/// this user can read, and that leads to the address.
fn open_browser(url: &str) -> Option<ScratchDir> {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|v| std::env::var_os(v).is_some());
    if !desktop {
        return None;
    }
    let parent = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = ScratchDir::create(&parent).ok()?;
    let page = folder.path().join("view.html");
    let text = format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><title>latlab view</title>\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\"><a href=\"{url}\">latlab view</a>\n"
    );
    std::fs::write(&page, text).ok()?;
    let null = || Stdio::null();
    let started =
        Command::new("xdg-open").arg(&page).stdin(null()).stdout(null()).stderr(null()).spawn();
    if let Ok(mut child) = started {
        // Somebody has to wait for it; it ends once the browser has the address.
        std::thread::spawn(move || child.wait());
    }
    Some(folder)
}
