//! `latlab generate DIR`: man pages and completions, so that they never differ from what the program accepts.

use crate::cli::command;
use crate::cli::generate::Args;
use crate::cmd::complete;
use crate::outcome::Outcome;
use anyhow::Context;
use std::fs;
use std::path::Path;

/// Writes them.
///
/// # Errors
/// When the directory cannot be made or written to.
pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    if let Some(line) = &args.complete {
        return complete::run(line);
    }
    if let Some(dir) = &args.dir {
        generate(dir).with_context(|| format!("{}: cannot be written", dir.display()))?;
    }
    Ok(Outcome::Done)
}

fn generate(dir: &Path) -> std::io::Result<()> {
    let man = dir.join("man/man1");
    fs::create_dir_all(&man)?;
    clap_mangen::generate_to(command(), man)?;
    // Each shell looks for the command's own name.
    for (path, script) in [
        ("bash-completion/completions/latlab", complete::BASH),
        ("zsh/site-functions/_latlab", complete::ZSH),
        ("fish/vendor_completions.d/latlab.fish", complete::FISH),
    ] {
        let path = dir.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, script)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_has_a_man_page() {
        let dir = tempfile::tempdir().unwrap();
        generate(dir.path()).unwrap();
        let man = dir.path().join("man/man1");
        for command in command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let page = man.join(format!("latlab-{}.1", command.get_name()));
            assert!(page.is_file(), "{} is missing", page.display());
        }
        assert!(man.join("latlab.1").is_file());
        assert!(dir.path().join("bash-completion/completions/latlab").is_file());
        assert!(dir.path().join("zsh/site-functions/_latlab").is_file());
        assert!(dir.path().join("fish/vendor_completions.d/latlab.fish").is_file());
    }

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }
}
