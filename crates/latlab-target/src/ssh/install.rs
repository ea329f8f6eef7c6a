//! Puts latlab on a board: which processor, which folder, pushed once.

use super::connection::{ANSWER_TIME, Connection, Script};
use super::shell::{quoted, value};
use crate::cache::sha256;
use crate::{Arch, Result, TargetError, board};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Bytes a second of the slowest connection over which a build is pushed.
const SLOWEST: u64 = 4 << 10;

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

/// Puts the build from stdin at `$program`. Older builds go first, except those that a process
/// runs and those that another host is pushing; where `test` has no `-ef`, all stay. The new build
/// gets its name when it is whole and on the disk.
const PUSH: &str = r#"
for old in "$folder"/latlab-*; do
    [ "$old" -ef "$old" ] 2>/dev/null || continue
    pusher=${old%.part}
    if [ "$pusher" != "$old" ]; then
        [ -d "/proc/${pusher##*.}" ] && continue
    else
        for exe in /proc/[0-9]*/exe; do
            if [ "$exe" -ef "$old" ]; then continue 2; fi
        done
    fi
    rm -f "$old"
done
part="$program.$$.part"
cat > "$part" && chmod 700 "$part" || { rm -f "$part"; exit 1; }
if ! right "$part"; then
    rm -f "$part"
    echo "what arrived on the board is not what was sent" >&2
    exit 1
fi
{ sync "$part" || sync; } 2>/dev/null
mv "$part" "$program"
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
        let machine = value(&text, "latlab-machine=");
        let arch = Arch::from_uname(machine).ok_or_else(|| {
            connection.error(
                format!("its processor is {machine:?}, for which there is no latlab"),
                "latlab is built for armv7, aarch64 and x86_64".into(),
            )
        })?;
        let folder = value(&text, "latlab-folder=").to_owned();
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
    let hash = sha256(&bytes);
    let program = format!("{folder}/latlab-{}", &hash[..16]);
    let right = right_function(bytes.len(), &hash);
    let there = format!("{right}\nif right {}; then echo latlab-there; fi", quoted(&program));
    let answer = connection.checked(&there, &[], "the board could not be asked for its latlab")?;
    if String::from_utf8_lossy(&answer).contains("latlab-there") {
        return Ok(program);
    }
    say(&format!("pushing latlab for {} ({} KiB)", arch.name(), bytes.len() / 1024));
    let script =
        format!("folder={}\nprogram={}\n{right}\n{PUSH}", quoted(folder), quoted(&program));
    // A serial line has a few KiB/s.
    let time = ANSWER_TIME + Duration::from_secs(bytes.len() as u64 / SLOWEST);
    let what = "latlab could not be pushed";
    connection.checked_for(&Script { text: &script, input: &bytes, what, time })?;
    Ok(program)
}

/// A shell function that tells whether a file is this build: by SHA-256 where the board has
/// `sha256sum`, by size elsewhere.
fn right_function(bytes: usize, hash: &str) -> String {
    format!(
        r#"right() {{
    [ -x "$1" ] && [ "$(wc -c < "$1")" -eq {bytes} ] || return 1
    command -v sha256sum >/dev/null 2>&1 || return 0
    case "$(sha256sum < "$1")" in {hash}*) return 0;; esac
    return 1
}}"#
    )
}
