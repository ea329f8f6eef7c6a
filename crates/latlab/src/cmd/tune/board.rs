//! `latlab tune --boot ssh://…`: the board's kernel is started again for each block with boot parameters.
//!
//! A start by kexec writes nothing to the board's disk, and each one starts the time after which the board resets itself,
//! so that it comes back with its own parameters whatever happens to this machine.

use crate::cmd::{on, vm};
use crate::outcome::{OwnHintExt, printed_error};
use latlab_sys::signal;
use latlab_target::pull::{Mapping, Receiver};
use latlab_target::ssh::{self, Board, Connection, Restarts};
use latlab_target::vm::Host;
use latlab_target::{Console, Target, board};
use latlab_wire::frame::Job;
use std::path::Path;
use std::time::Duration;

/// A board and a server answer after a reset within it.
const LIMIT: Duration = Duration::from_secs(600);
/// The board resets itself so long after the blocks of a start have to be over.
const SPARE: Duration = Duration::from_secs(1_200);

/// A board that is started for blocks.
pub(super) struct Kexec<'a> {
    restarts: Restarts<'a>,
    connection: &'a Connection,
    host: &'a Host<'a>,
    is_first: bool,
}

/// Works with a board, and resets it afterwards if it was started.
///
/// # Errors
/// Those of `work`; when the board cannot be started, or not be reset.
pub(super) fn with<T>(
    target: &str,
    work: impl FnOnce(&mut Kexec<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let target = Target::parse(target).with_hint()?;
    on::with_connection(&target, |connection, host| {
        let restarts = Restarts::new(connection, LIMIT).with_hint()?;
        let mut kexec = Kexec { restarts, connection, host, is_first: true };
        let worked = work(&mut kexec);
        if kexec.restarts.is_changed() {
            vm::say(&format!("{}: resetting it to its own parameters", connection.target()));
        }
        let is_stopped = || signal::stop_requested().is_some();
        let restored = kexec.restarts.restore(&is_stopped).with_hint();
        match (worked, restored) {
            (worked, Ok(())) => worked,
            (Ok(_), Err(error)) => Err(error),
            (Err(error), Err(second)) => {
                let second = crate::outcome::format_error_chain(&second);
                Err(error.context(format!("the board was not reset: {second}")))
            }
        }
    })
}

impl Kexec<'_> {
    /// Starts the board with parameters and runs a script there, which is made of the path of latlab; what the script leaves
    /// in its working folder comes to `dir`. `time`: what the script takes at most.
    ///
    /// # Errors
    /// When the board does not start with the parameters, or the script fails.
    pub(super) fn run(
        &mut self,
        parameters: &[String],
        time: Duration,
        script: impl FnOnce(&str) -> String,
        dir: &Path,
    ) -> anyhow::Result<()> {
        let is_stopped = || signal::stop_requested().is_some();
        self.restarts.start(parameters, &is_stopped).with_hint()?;
        self.restarts.reset_after(time + SPARE).with_hint()?;
        // Its folder may have been in memory.
        let mut say = |remark: &str| {
            if self.is_first {
                vm::say(remark);
            }
        };
        let find = |arch| board::find_or_build(self.host, arch, &mut vm::say);
        let board = Board::install(self.connection, &find, &mut say).with_hint()?;
        self.is_first = false;
        let argv = ["sh", "-c", &script(&ssh::quoted(&board.program))].map(str::to_owned).to_vec();
        let job = Job { argv, env: vm::passed_environment(false), ..Job::default() };
        let run = on::run_name()?;
        ssh::start(&board, &job, &run).with_hint()?;
        let mut receiver = Receiver::new(dir, Mapping::of_own_command());
        let mut console = Quiet::default();
        let code = ssh::follow(&board, &run, false, &mut console, &mut receiver).with_hint()?;
        ssh::forget(&board, &run).with_hint()?;
        if code != 0 {
            let target = self.connection.target();
            return Err(
                printed_error(&console.stderr).context(format!("{target}: exit code {code}"))
            );
        }
        Ok(())
    }
}

/// Keeps what a command says.
#[derive(Debug, Default)]
struct Quiet {
    stderr: Vec<u8>,
    passed: bool,
}

impl Console for Quiet {
    fn stdout(&mut self, _bytes: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
    fn stderr(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let left = (crate::own_run::PRINTED as usize).saturating_sub(self.stderr.len());
        self.stderr.extend(&bytes[..bytes.len().min(left)]);
        Ok(())
    }
    fn say(&mut self, remark: &str) {
        vm::say(remark);
    }
    fn signal(&mut self) -> Option<u8> {
        let signal = signal::stop_requested()?;
        (!std::mem::replace(&mut self.passed, true)).then(|| u8::try_from(signal.0).ok())?
    }
}
