//! `latlab report RUN`: an existing run as text, JSON, HTML or plots.

use crate::cli::{Global, report::Args};
use crate::outcome::{HintExt, Outcome};
use crate::rundir::{self, write_asked};
use crate::{output, term};
use anyhow::Context;
use latlab_model::run::Run;
use latlab_report::plot::svg;
use latlab_report::{html, sections};
use std::fs;
use std::io::Write;
use std::path::Path;

pub(super) fn run(global: &Global, args: &Args) -> anyhow::Result<Outcome> {
    let run = rundir::load(&args.path)?;
    let doc = sections::of_run(&run);
    if let Some(path) = &args.html {
        write_asked(path, "--html", |mut out| {
            html::render(&sections::page::of_run(&run), &mut out)
        })?;
    }
    if let Some(dir) = &args.svg {
        plots(dir, "--svg", "svg", &doc, |p| Ok(svg::svg(p, svg::Use::Alone).into_bytes()))?;
    }
    let files = args.html.is_some() || args.svg.is_some();
    #[cfg(feature = "png")]
    let files = files | png(args, &doc)?;
    // Files were asked for: stdout stays free unless JSON was asked for too.
    if global.json || !files {
        print(global, &run, &doc)?;
    }
    Ok(Outcome::Done)
}

/// Whether PNG files were asked for; they are there then.
#[cfg(feature = "png")]
fn png(args: &Args, doc: &latlab_report::doc::Doc) -> anyhow::Result<bool> {
    let Some(dir) = &args.png else { return Ok(false) };
    let painter = latlab_report::plot::png::Painter::default();
    plots(dir, "--png", "png", doc, |p| Ok(painter.png(p)?))?;
    Ok(true)
}

fn print(global: &Global, run: &Run, doc: &latlab_report::doc::Doc) -> anyhow::Result<()> {
    let mut out = term::raw_stdout();
    if global.json {
        crate::output::json(run, &mut out)?;
    } else if term::details() {
        output::document(doc, &mut out)?;
    } else {
        output::text(run, &mut out)?;
    }
    out.flush()?;
    Ok(())
}

/// One file a plot, named by its anchor.
fn plots(
    dir: &Path,
    option: &str,
    extension: &str,
    doc: &latlab_report::doc::Doc,
    draw: impl Fn(&latlab_report::doc::Plot) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<()> {
    fs::create_dir_all(dir)
        .with_context(|| format!("{option} {}: the directory cannot be created", dir.display()))
        .hint("name a directory that this user may write to")?;
    let mut count = 0;
    for plot in sections::plots(doc) {
        let bytes = draw(plot)?;
        let path = dir.join(format!("{}.{extension}", plot.id));
        write_asked(&path, option, |out| out.write_all(&bytes))?;
        count += 1;
    }
    if count == 0 {
        // Talk: the directory is there, and empty for a reason.
        let _ = writeln!(term::stderr(), "this run has no plots");
    }
    Ok(())
}
