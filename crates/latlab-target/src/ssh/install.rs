//! Puts latlab on a board: which processor, which folder, pushed once.

use super::Connection;
use super::shell::quoted;
use crate::cache::digest;
use crate::{Arch, Result, TargetError, board};
use std::fs;
use std::path::Path;

/// A board with latlab on it.
#[derive(Debug)]
pub struct Board<'a> {
    /// How it is reached.
    pub connection: &'a Connection,
    /// Its processor.
    pub arch: Arch,
    /// Our folder there.
    pub folder: String,
    /// latlab there.
    pub program: String,
}

/// Prints what we have to know: processor, user, and the first folder that a program can be run from.
/// The home folder comes first because it outlives a reboot.
const PROBE: &str = r#"
echo "latlab-machine=$(uname -m)"
id=$(id -u)
for base in "${XDG_CACHE_HOME:-$HOME/.cache}" "$HOME" /tmp /var/tmp /dev/shm /run; do
    [ -n "$base" ] && [ "$base" != /.cache ] && [ "$base" != / ] || continue
    folder="$base/latlab-$id"
    (umask 077; mkdir -p "$folder") 2>/dev/null && [ -O "$folder" ] && [ ! -L "$folder" ] || continue
    probe="$folder/probe.$$"
    if printf '#!/bin/sh\nexit 42\n' 2>/dev/null > "$probe" && chmod 700 "$probe" 2>/dev/null; then
        "$probe" 2>/dev/null
        result=$?
        rm -f "$probe"
        if [ $result -eq 42 ]; then echo "latlab-folder=$folder"; exit 0; fi
    fi
    rm -f "$probe" 2>/dev/null
    rmdir "$folder" 2>/dev/null
done
echo latlab-folder=
"#;

impl<'a> Board<'a> {
    /// Asks the board what it is, and pushes latlab if it is not there.
    /// `find` gives the path of the board build for a processor.
    pub fn install(
        connection: &'a Connection,
        find: &dyn Fn(Arch) -> Result<std::path::PathBuf>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self> {
        let output = connection.checked(PROBE, &[], "the board could not be asked what it is")?;
        let text = String::from_utf8_lossy(&output);
        let value =
            |key: &str| text.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_default().trim();
        let machine = value("latlab-machine=");
        let arch = Arch::from_uname(machine).ok_or_else(|| {
            connection.error(
                format!("its processor is {machine:?}, for which there is no latlab"),
                "latlab is built for armv7, aarch64 and x86_64".into(),
            )
        })?;
        let folder = value("latlab-folder=").to_owned();
        if folder.is_empty() {
            return Err(connection.error(
                "there is no folder that we may write to and run programs from (home, /tmp, /var/tmp, /dev/shm, /run)".into(),
                "mount one of them without noexec, or free some space".into(),
            ));
        }
        let local = find(arch)?;
        let program = push(connection, arch, &folder, &local, say)?;
        Ok(Self { connection, arch, folder, program })
    }

    /// Where a run is kept on the board.
    pub fn run_folder(&self, run: &str) -> String {
        format!("{}/runs/{run}", self.folder)
    }
}

fn push(
    connection: &Connection,
    arch: Arch,
    folder: &str,
    local: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<String> {
    let bytes = fs::read(local).map_err(TargetError::file(local))?;
    board::check(local, &bytes, arch)?;
    let program = format!("{folder}/latlab-{}", &digest([bytes.as_slice()])[..16]);
    let there = format!(
        "[ -x {p} ] && [ \"$(wc -c < {p})\" -eq {} ] && echo latlab-there || true",
        bytes.len(),
        p = quoted(&program)
    );
    let answer = connection.checked(&there, &[], "the board could not be asked for its latlab")?;
    if String::from_utf8_lossy(&answer).contains("latlab-there") {
        return Ok(program);
    }
    say(&format!("pushing latlab for {} ({} KiB)", arch.name(), bytes.len() / 1024));
    // Older builds go first, then the new one comes under a temporary name.
    let script = format!(
        "rm -f {f}/latlab-*; cat > {p}.part && [ \"$(wc -c < {p}.part)\" -eq {n} ] && chmod 700 {p}.part && mv {p}.part {p}",
        f = quoted(folder),
        p = quoted(&program),
        n = bytes.len()
    );
    connection.checked(&script, &bytes, "latlab could not be pushed")?;
    Ok(program)
}
