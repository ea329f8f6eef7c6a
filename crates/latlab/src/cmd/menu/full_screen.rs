//! The full-screen menu on a terminal: draws, reads keys, runs what was chosen.

use super::form::{Recent, command_line};
use super::screen::{Action, Menu};
use crate::outcome::Outcome;
use crate::{cli, program, term};
use anyhow::Context;
use latlab_sys::{process, signal};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind};
use ratatui::crossterm::terminal;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// How often a signal is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the menu until it is left.
///
/// # Errors
/// Those of the terminal.
pub fn run(missing: Option<String>) -> anyhow::Result<Outcome> {
    let here = Path::new(".");
    let mut recent = Recent::read(here);
    let mut menu = Menu::new(&recent, missing, term::color());
    loop {
        let Some(words) = choose(&mut menu).context("the menu on this terminal")? else {
            return Ok(signal::stop_requested().map_or(Outcome::Done, Outcome::Stopped));
        };
        if !run_and_wait(&words)? {
            return Ok(signal::stop_requested().map_or(Outcome::Done, Outcome::Stopped));
        }
        let now = Recent::read(here);
        menu.refresh(&recent, &now);
        recent = now;
    }
}

/// The command line that was chosen; `None` where the menu was left or a signal came.
fn choose(menu: &mut Menu) -> io::Result<Option<Vec<String>>> {
    let mut screen = ratatui::try_init()?;
    let chosen = (|| {
        loop {
            let problem = problem(&menu.words());
            screen.draw(|frame| menu.draw(frame, problem.as_deref()))?;
            let key = loop {
                if signal::stop_requested().is_some() {
                    return Ok(None);
                }
                if event::poll(LOOK)? {
                    break event::read()?;
                }
            };
            let Event::Key(key) = key else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            match menu.key(key) {
                Action::None => {}
                Action::Leave => return Ok(None),
                Action::Run(words) => return Ok(Some(words)),
            }
        }
    })();
    let restored = ratatui::try_restore();
    chosen.and_then(|words| restored.map(|()| words))
}

/// What is wrong with a command line, in a line.
fn problem(words: &[String]) -> Option<String> {
    let error = cli::check(words).err()?.to_string();
    error.lines().find(|line| !line.is_empty()).map(str::to_owned)
}

/// Runs a command on the terminal as if it had been typed; whether the menu goes on.
fn run_and_wait(words: &[String]) -> anyhow::Result<bool> {
    writeln!(term::stdout_by_line(), "$ latlab {}", command_line(words))?;
    let mut command = Command::new(program::own_program()?);
    command.args(words);
    process::tie_to_us(&mut command);
    let status = {
        // Ctrl-C is for the command, which saves what it has and ends.
        let _ignored = signal::ignore_interrupts();
        let mut child = command.spawn().context("latlab cannot be started")?;
        wait(&mut child)?
    };
    let words =
        status.code().map_or_else(|| status.to_string(), |code| format!("Exit code {code}"));
    let goes_on = ask(&words).context("the terminal")?;
    writeln!(term::stdout_by_line())?;
    Ok(goes_on)
}

/// Waits for the end of a command; a signal that asks us to end is passed on.
fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let mut passed_on = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Some(signal) = signal::stop_requested().filter(|_| !passed_on) {
            passed_on = true;
            // It may have ended meanwhile.
            let _ = process::send(child.id(), u8::try_from(signal.0).unwrap_or(15));
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether the menu is wanted again. The terminal is raw before the question is there: a key that is typed before would
/// make no event, because it is complete only with the end of its line.
fn ask(result: &str) -> io::Result<bool> {
    terminal::enable_raw_mode()?;
    let answer = (|| {
        write!(term::stdout_by_line(), "\r\n{result}. Enter: back to the menu   q: quit ")?;
        term::stdout_by_line().flush()?;
        loop {
            if signal::stop_requested().is_some() {
                return Ok(false);
            }
            if !event::poll(LOOK)? {
                continue;
            }
            let Event::Key(key) = event::read()? else { continue };
            match key.code {
                KeyCode::Enter => return Ok(true),
                KeyCode::Char('q' | 'c' | 'd') | KeyCode::Esc => return Ok(false),
                _ => {}
            }
        }
    })();
    terminal::disable_raw_mode()?;
    answer
}
