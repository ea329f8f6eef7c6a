//! `--core`: a task of a real-time core beside Linux.

use super::{Args, Format};
use crate::cli::mechanisms::CoreArg;
use crate::outcome::HintExt;
use anyhow::anyhow;
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::{Core, Level, Policy};

impl Args {
    /// The core, whose program measures one task with the options that it has.
    pub(super) fn core(
        &self,
        policy: Policy,
        levels: &[Level],
        threads: &mut Vec<Option<CpuId>>,
    ) -> anyhow::Result<Option<Core>> {
        let core = match self.core {
            None => return Ok(None),
            Some(CoreArg::Cobalt) => Core::Cobalt,
            Some(CoreArg::Evl) => Core::Evl,
        };
        let given = [
            (policy != Policy::Fifo, "--policy"),
            (self.threads.is_some_and(|n| n != 1) || self.smp, "-t or -S"),
            (self.loops > 0, "-l"),
            (self.breaktrace.is_some(), "-b"),
            (self.distance > 0, "-d"),
            (self.priospread, "--priospread"),
            (self.aligned.is_some(), "-A"),
            (self.samples.is_some(), "--samples"),
            (self.verbose, "-v"),
            (self.cyclictest.is_used(), "an option of cyclictest"),
            (self.lock.is_some(), "--lock"),
            (self.compute > 0, "--compute"),
            (self.latency.is_some(), "--latency"),
            (self.histogram.or(self.histofall).is_some(), "-h"),
            (self.json_file.is_some(), "--json-file"),
            (self.format != Format::Latlab, "--format"),
        ];
        let (id, program) = (core.id(), core.program());
        if let Some((_, option)) = given.iter().find(|(given, _)| *given) {
            return Err(anyhow!(
                "{option} with --core {id}: {program} measures one task, and has no such option"
            ))
            .hint("leave it out; -i, -p, -a, -D, --level and --load are possible");
        }
        if levels.len() > 1 && self.duration.is_none() {
            return Err(anyhow!(
                "--core {id} with several levels: they are measured one after the other, which needs a duration"
            ))
            .hint("-D 10s");
        }
        let named = self.affinity.as_deref().is_some_and(|list| !list.is_empty());
        *threads = vec![threads.first().copied().flatten().filter(|_| named)];
        Ok(Some(core))
    }
}
