//! Loads beside the measurement: built-in ones and a command.

use crate::cli::why::Args;
use anyhow::Context;
use latlab_sys::load::Load;
use latlab_sys::process;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Loads that end when this is dropped.
pub(super) struct Loads {
    built_in: Option<Load>,
    command: Option<Child>,
}

impl Loads {
    /// An error when a built-in load did not last until now.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        crate::cmd::load::finish(self.built_in.take())
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        if let Some(child) = &mut self.command {
            // With all that it started.
            let _ = process::kill_group(child.id());
            let _ = child.wait();
        }
    }
}

/// Starts the loads that were asked for.
pub(super) fn start_load(args: &Args) -> anyhow::Result<Loads> {
    let built_in = crate::cmd::load::start(&args.wakeup.load)?;
    let command = match &args.load_command {
        None => None,
        Some(text) => {
            let mut command = Command::new("sh");
            command.args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
            process::tie_to_us(&mut command);
            Some(command.spawn().with_context(|| format!("starting sh -c {text}"))?)
        }
    };
    Ok(Loads { built_in, command })
}
