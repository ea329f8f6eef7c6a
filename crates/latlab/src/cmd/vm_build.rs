//! `latlab vm build`: a machine's kernel from source.

use crate::cli::Global;
use crate::cli::vm::BuildArgs;
use crate::cmd::image::{BuildHooks, ended};
use crate::cmd::vm::{cache, kind, say};
use crate::outcome::{Outcome, OwnHintExt};
use crate::term;
use latlab_image::Hooks;
use latlab_image::source::{self, BuildRecord, Plan, Purpose};
use latlab_target::cache::Cache;
use latlab_target::vm::catalog::Kind;
use latlab_target::vm::kernel::Kernel;
use std::io::Write;
use std::time::Instant;

/// Builds, or finds in the cache.
pub fn run(args: &BuildArgs, global: &Global) -> anyhow::Result<Outcome> {
    let kind = kind(&args.machine)?;
    let purpose = Purpose::parse(&args.purpose).with_hint()?;
    let cache = cache()?;
    let began = Instant::now();
    let mut hooks = BuildHooks::new();
    let built = build(&cache, kind, &purpose, &mut hooks);
    drop(hooks);
    ended(built, |record| {
        if let Some(file) = &args.deb {
            source::package(&cache, &record, kind.arch, file).with_hint()?;
            say(&format!("{} has the kernel", file.display()));
        }
        let mut out = term::stdout();
        if global.json {
            crate::output::json(&record, &mut out)?;
        } else {
            writeln!(
                out,
                "Linux {}: {} {}, {} PREEMPT_RT patches, {:.0} s\nsha256 {}\nlatlab --on vm:{},build={} …",
                record.release,
                record.package,
                record.version,
                record.realtime_patches,
                began.elapsed().as_secs_f64(),
                record.image_sha256,
                record.machine,
                record.purpose,
            )?;
        }
        out.flush()?;
        Ok(Outcome::Done)
    })
}

fn build(
    cache: &Cache,
    kind: &'static Kind,
    purpose: &Purpose,
    hooks: &mut dyn Hooks,
) -> latlab_target::Result<BuildRecord> {
    source::check(kind.arch)?;
    let debian = match Kernel::fetch(cache, kind, &mut |w| hooks.say(w)) {
        Ok(kernel) => kernel,
        Err(error) => Kernel::cached(cache, kind).ok_or(error)?,
    };
    let (options, device_trees): (&[String], &[String]) = (&[], &[]);
    let plan = Plan { machine: kind.name, kind, debian: &debian, purpose, options, device_trees };
    source::build(cache, &plan, hooks)
}
