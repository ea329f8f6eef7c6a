//! Kernel options that a configuration lacks, as a fragment of one.

use crate::cli::Global;
use crate::outcome::{HintExt, Outcome};
use crate::{output, term};
use anyhow::{Context, anyhow};
use latlab_model::kconfig::{self, State};
use latlab_report::sections::doctor as report;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Prints the fragment that a configuration lacks.
pub fn print(global: &Global, file: Option<&Path>) -> anyhow::Result<Outcome> {
    let (source, config) = match file {
        Some(file) => (file.display().to_string(), config_of(file)?),
        None => running_config()?,
    };
    let missing = kconfig::missing(&config);
    let mut out = term::stdout();
    if global.json {
        let rows: Vec<_> = missing
            .iter()
            .map(|(o, state)| {
                json!({
                    "option": o.name,
                    "line": o.line(),
                    "purpose": format!("{:?}", o.purpose).to_lowercase(),
                    "weight": format!("{:?}", o.weight).to_lowercase(),
                    "since": o.since,
                    "why": latlab_report::messages::kernel_option_reason(o.name),
                    "named": *state == State::Wrong,
                })
            })
            .collect();
        output::json(&json!({ "source": source, "missing": rows }), &mut out)?;
    } else {
        write!(out, "{}", report::kernel_fragment(&missing, &config, &source))?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn config_of(file: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let hint = "name a kernel's .config, /boot/config-* or config.gz";
    let config = latlab_sys::machine::config_file(file)
        .with_context(|| format!("{}: cannot be read", file.display()))
        .hint(hint)?;
    if config.is_empty() {
        return Err(anyhow!("{}: no line begins with CONFIG_", file.display())).hint(hint);
    }
    Ok(config)
}

fn running_config() -> anyhow::Result<(String, BTreeMap<String, String>)> {
    latlab_sys::machine::running_config()
        .ok_or_else(|| anyhow!("the running kernel's configuration is not readable"))
        .hint("modprobe configs, or name a file: latlab doctor --kernel-config FILE")
}
