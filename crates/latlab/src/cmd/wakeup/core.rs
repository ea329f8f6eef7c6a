//! `--core`: levels one after the other, each by the program of the real-time core.

use super::display::Display;
use crate::cli::wakeup::Config;
use crate::outcome::{HintExt, OwnHintExt};
use anyhow::anyhow;
use latlab_analysis::wakeup::core::{Ran, result};
use latlab_model::wakeup::config::{Core, WakeupConfig};
use latlab_model::wakeup::result::WakeupResult;
use latlab_sys::signal;
use latlab_sys::wakeup::{Hooks, LiveThread, core_program, run_core};

/// Measures until the duration or a signal ends it; what was measured before an error is kept.
pub(super) fn measure(
    core: Core,
    asked: &Config,
    display: &mut Display,
) -> anyhow::Result<Vec<WakeupResult>> {
    let program = core_program(core, asked.core_program.as_deref()).with_hint()?;
    let mut results = Vec::new();
    for &level in &asked.levels {
        let config = WakeupConfig { level, ..asked.measure.clone() };
        let mut on_tick = |threads: &[LiveThread]| display.tick(threads);
        let hooks = Hooks { on_tick: Some(&mut on_tick), ..Hooks::default() };
        let out = run_core(core, &program, &config, hooks).with_hint()?;
        let ran = Ran { start_ns: out.start_ns, length_ns: out.length_ns, signal: out.signal };
        let found = result(&config, core, &out.histogram, &ran)
            .map_err(|e| anyhow!("{}: {e}", core.program()))
            .hint("try the program alone: latlab reads the file that it writes with -g")?;
        results.push(found);
        if signal::stop_requested().is_some() {
            break;
        }
    }
    Ok(results)
}
