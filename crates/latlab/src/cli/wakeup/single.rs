//! One task alone: woken by several mechanisms in turns (`--by`), or scheduled by a real-time core (`--core`).

use super::{Args, Format, LevelArg};
use crate::cli::mechanisms::{By, CoreArg};
use crate::outcome::HintExt;
use anyhow::anyhow;
use latlab_model::units::CpuId;
use latlab_model::wakeup::config::{Core, Level, Policy};
use latlab_model::wakeup::mechanism::{Mechanism, Mechanisms};

impl Args {
    /// The first option that one task alone does not have: of `own`, or of those that several threads, their samples
    /// and the formats of cyclictest have.
    fn first_given(&self, own: &[(bool, &'static str)]) -> Option<&'static str> {
        let common = [
            (self.distance > 0, "-d"),
            (self.priospread, "--priospread"),
            (self.aligned.is_some(), "-A"),
            (self.samples.is_some(), "--samples"),
            (self.verbose, "-v"),
            (self.cyclictest.is_used(), "an option of cyclictest"),
            (self.lock.is_some(), "--lock"),
            (self.compute > 0, "--compute"),
            (self.histogram.or(self.histofall).is_some(), "-h"),
            (self.json_file.is_some(), "--json-file"),
            (self.format != Format::Latlab, "--format"),
        ];
        own.iter().chain(&common).find(|(given, _)| *given).map(|(_, option)| *option)
    }

    /// One timer for all threads, or one thread with what wakes it in turns.
    pub(super) fn mechanisms(
        &self,
        by: &By,
        policy: Policy,
        priority: u32,
        threads: &mut Vec<Option<CpuId>>,
    ) -> anyhow::Result<(Mechanism, Option<Mechanisms>)> {
        let names = by.names();
        if self.level.iter().any(|&l| l != LevelArg::User) {
            return Err(anyhow!(
                "--by {names} with --level: the kernel's own threads measure there"
            ))
            .hint("--level user");
        }
        if let Some(timer) = by.only_timer() {
            return Ok((timer, None));
        }
        let own = [
            (policy == Policy::Deadline, "--policy deadline"),
            (policy.has_priority() && priority < 2, "-p 1"),
            (self.threads.is_some() || self.smp, "-t or -S"),
            (self.unbound, "--unbound"),
        ];
        if let Some(option) = self.first_given(&own) {
            return Err(anyhow!(
                "{option} with --by {names}: one thread is measured, woken in turns by a timer or by a thread of one priority less"
            ))
            .hint("leave it out; the run has the histogram of each mechanism");
        }
        let cpus: Vec<CpuId> = threads.iter().flatten().copied().take(2).collect();
        threads.truncate(1);
        let By { mechanisms, host, gpio } = by.clone();
        Ok((Mechanism::default(), Some(Mechanisms { mechanisms, senders: cpus, host, gpio })))
    }

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
        let own = [
            (policy != Policy::Fifo, "--policy"),
            (self.threads.is_some_and(|n| n != 1) || self.smp, "-t or -S"),
            (self.loops > 0, "-l"),
            (self.breaktrace.is_some(), "-b"),
            (self.latency.is_some(), "--latency"),
        ];
        let (id, program) = (core.id(), core.program());
        if let Some(option) = self.first_given(&own) {
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
