//! Starts a board's kernel again with other boot parameters, by kexec(8) on the board. Nothing is written to its disk:
//! every reset, also that of a kernel that panics, starts what the board's own boot loader starts.
//!
//! Sources: kexec(8); Documentation/admin-guide/kernel-parameters.rst (`panic=`); Documentation/admin-guide/sysrq.rst.

use super::connection::{ANSWER_TIME, Connection, Script};
use super::shell::{quoted, value};
use crate::{Result, TargetError};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_secs(1);
/// Added to the parameters of each start: a kernel that panics resets the board after ten seconds.
const OURS: [&str; 2] = ["panic=10", MARK];
/// A parameter of no module, by which a board is recognised that a killed latlab left.
const MARK: &str = "latlab.restarted";
/// Where programs of the administrator are.
const PATHS: &str = "PATH=$PATH:/usr/sbin:/sbin\nexport PATH\n";

/// Prints what is needed to start the running kernel again.
const PROBE: &str = r#"
echo "latlab-user=$(id -u)"
echo "latlab-boot=$(cat /proc/sys/kernel/random/boot_id)"
echo "latlab-parameters=$(cat /proc/cmdline)"
release=$(uname -r)
echo "latlab-release=$release"
echo "latlab-disabled=$(cat /proc/sys/kernel/kexec_load_disabled 2>/dev/null)"
echo "latlab-kexec=$(command -v kexec)"
for name in vmlinuz zImage Image vmlinux; do
    [ -f "/boot/$name-$release" ] && echo "latlab-kernel=/boot/$name-$release" && break
done
for file in "/boot/initrd.img-$release" "/boot/initramfs-$release.img" "/boot/initrd-$release"; do
    [ -f "$file" ] && echo "latlab-initrd=$file" && break
done
exit 0
"#;

/// Starts the loaded kernel, after this session has ended. systemd stops services and unmounts; elsewhere file systems are
/// written and made read-only before.
const GO: &str = r#"
if [ -d /run/systemd/system ]; then
    setsid sh -c 'sleep 1; systemctl kexec || "$0" -e' "$kexec" </dev/null >/dev/null 2>&1 &
else
    setsid sh -c 'sync; sleep 1; for c in s u; do echo $c >/proc/sysrq-trigger; done; sleep 1; "$0" -e' "$kexec" </dev/null >/dev/null 2>&1 &
fi
"#;

/// A board whose kernel is started again with other parameters.
#[derive(Debug)]
pub struct Restarts<'a> {
    connection: &'a Connection,
    own: Kernel,
    /// It runs with parameters of ours, or may.
    is_changed: bool,
    /// The longest from a start until it answers.
    limit: Duration,
}

/// The running kernel, as the board says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kernel {
    is_root: bool,
    /// Random for each boot.
    boot: String,
    parameters: String,
    release: String,
    kexec: String,
    is_disabled: bool,
    image: String,
    initrd: Option<String>,
}

impl Kernel {
    fn parse(text: &str) -> Self {
        let value = |key| value(text, key);
        Self {
            is_root: value("latlab-user=") == "0",
            boot: value("latlab-boot=").to_owned(),
            parameters: value("latlab-parameters=").to_owned(),
            release: value("latlab-release=").to_owned(),
            kexec: value("latlab-kexec=").to_owned(),
            is_disabled: value("latlab-disabled=") == "1",
            image: value("latlab-kernel=").to_owned(),
            initrd: Some(value("latlab-initrd=").to_owned()).filter(|path| !path.is_empty()),
        }
    }

    /// Why it cannot be started again, and what to do.
    fn obstacle(&self) -> Option<(String, String)> {
        let text = |message: &str, hint: &str| Some((message.to_owned(), hint.to_owned()));
        if !self.is_root {
            return text("only root starts a kernel", "name the user: ssh://root@BOARD");
        }
        if self.kexec.is_empty() {
            return text("kexec is not installed on the board", "apt install kexec-tools, there");
        }
        if has(&self.parameters, MARK) {
            return text(
                "it still runs with parameters of a latlab tune that was killed",
                "reset it, or wait: it resets itself",
            );
        }
        if self.is_disabled {
            return text(
                "its kernel starts no other one (kernel.kexec_load_disabled is 1)",
                "reset it: the setting can only be undone by a reset",
            );
        }
        if self.image.is_empty() {
            return Some((
                format!("/boot has no image of the running kernel, {}", self.release),
                format!("put it there as /boot/vmlinuz-{}", self.release),
            ));
        }
        None
    }
}

impl<'a> Restarts<'a> {
    /// Asks the board for its kernel. `limit` is the longest from a start until it answers.
    ///
    /// # Errors
    /// When the board does not answer, or cannot start its kernel again.
    pub fn new(connection: &'a Connection, limit: Duration) -> Result<Self> {
        let own = ask(connection, &connection.stopped())?;
        match own.obstacle() {
            Some((message, hint)) => Err(connection.error(message, hint)),
            None => Ok(Self { connection, own, is_changed: false, limit }),
        }
    }

    /// Whether it was started again, or may have been.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Starts the kernel with `added` parameters behind its own ones, and waits until it answers.
    ///
    /// # Errors
    /// When the kernel cannot be loaded, the board does not answer in time, or runs with other parameters afterwards.
    pub fn start(&mut self, added: &[String], is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let parameters = parameters(&self.own.parameters, added);
        let before = ask(self.connection, &self.connection.stopped())?.boot;
        let own = &self.own;
        let initrd = own.initrd.as_ref().map(|path| format!("--initrd={}", quoted(path)));
        // Where the kernel accepts signed images only, the other system call loads them.
        let load = format!(
            "{PATHS}kexec={kexec}\nload() {{ \"$kexec\" \"$@\" -l {image} {initrd} --command-line={parameters}; }}\n\
             load 2>/dev/null || load -s || exit 1\n{GO}",
            kexec = quoted(&own.kexec),
            image = quoted(&own.image),
            initrd = initrd.unwrap_or_default(),
            parameters = quoted(&parameters),
        );
        let what = "the kernel could not be loaded";
        let script = Script { text: &load, input: &[], what, time: ANSWER_TIME };
        let loaded = self.connection.ask(&script, &self.connection.stopped());
        // A connection that is lost or that we ended says nothing about the board.
        let unknown = matches!(loaded, Err(TargetError::Unreachable { .. } | TargetError::Stopped));
        self.is_changed |= loaded.is_ok() || unknown;
        loaded?;
        let now = self.wait(&before, is_stopped)?;
        if !has(&now.parameters, MARK) {
            let message = "it was reset while it started, and runs with its own parameters";
            return Err(self.connection.error(message.into(), String::new()));
        }
        if let Some(lacking) = added.iter().find(|word| !has(&now.parameters, word)) {
            let message =
                format!("it was started with {lacking}, and runs with {:?}", now.parameters);
            return Err(self.connection.error(message, String::new()));
        }
        Ok(())
    }

    /// Resets the board, and waits until it runs with its own parameters; nothing, unless it was started. Once it is told
    /// to reset itself, `is_stopped` ends the wait.
    ///
    /// # Errors
    /// When the board does not answer in time, or runs with other parameters.
    pub fn restore(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        // It may be starting now.
        let before = self.wait("", &|| false)?;
        if has(&before.parameters, MARK) {
            // After this session has ended.
            self.reset_after(Duration::from_secs(1))?;
            let now = match self.wait(&before.boot, is_stopped) {
                Err(TargetError::Stopped) => return Ok(()),
                now => now?,
            };
            if now.parameters != self.own.parameters {
                let message = format!("after the reset it runs with {:?}", now.parameters);
                return Err(self.connection.error(message, "reset it by hand".into()));
            }
        }
        self.is_changed = false;
        Ok(())
    }

    /// Resets the board by itself after a time, unless it is started again before: also where this machine is gone.
    ///
    /// # Errors
    /// When the board does not answer.
    pub fn reset_after(&self, time: Duration) -> Result<()> {
        let script = format!(
            "{PATHS}setsid sh -c 'sleep {}; sync; [ -d /run/systemd/system ] && systemctl reboot && sleep 60; reboot; sleep 20; reboot -f' \
             </dev/null >/dev/null 2>&1 &",
            time.as_secs().max(1)
        );
        let what = "it cannot be reset";
        let script = Script { text: &script, input: &[], what, time: ANSWER_TIME };
        // Also after a signal: the board must not keep our parameters.
        self.connection.ask(&script, &|| false).map(drop)
    }

    /// Until another boot than this one answers.
    fn wait(&self, before: &str, is_stopped: &dyn Fn() -> bool) -> Result<Kernel> {
        let end = Instant::now() + self.limit;
        loop {
            // The shared connection ends with the kernel.
            self.connection.close();
            std::thread::sleep(POLL);
            if is_stopped() {
                return Err(TargetError::Stopped);
            }
            match ask(self.connection, is_stopped) {
                Ok(now) if now.boot != before => return Ok(now),
                Ok(_) | Err(TargetError::Unreachable { .. }) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() > end {
                let message =
                    format!("it does not answer {} s after a start", self.limit.as_secs());
                let hint = "reset it: it starts with its own parameters";
                return Err(self.connection.unreachable(message, hint.into()));
            }
        }
    }
}

fn ask(connection: &Connection, is_stopped: &dyn Fn() -> bool) -> Result<Kernel> {
    let probe = [PATHS, PROBE].concat();
    let what = "the board could not be asked for its kernel";
    let script = Script { text: &probe, input: &[], what, time: ANSWER_TIME };
    let output = connection.ask(&script, is_stopped)?;
    Ok(Kernel::parse(&String::from_utf8_lossy(&output)))
}

/// The parameters of a start: the board's, those that are tried, and ours.
fn parameters(own: &str, added: &[String]) -> String {
    let added = added.iter().map(String::as_str);
    own.split_whitespace().chain(added).chain(OURS).collect::<Vec<_>>().join(" ")
}

/// Whether a word is among parameters, to which a kernel may add its built-in ones.
fn has(parameters: &str, word: &str) -> bool {
    parameters.split_whitespace().any(|p| p == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Kernel {
        Kernel::parse(
            "latlab-user=0\nlatlab-boot=x\nlatlab-parameters=root=/dev/sda quiet\nlatlab-release=6.1\n\
             latlab-disabled=0\nlatlab-kexec=/sbin/kexec\nlatlab-kernel=/boot/vmlinuz-6.1\nlatlab-initrd=/boot/i\n",
        )
    }

    #[test]
    fn what_a_board_lacks_is_named_with_its_remedy() {
        assert_eq!(board().obstacle(), None);
        for (kernel, message, remedy) in [
            (Kernel { is_root: false, ..board() }, "only root", "root@"),
            (Kernel { kexec: String::new(), ..board() }, "not installed", "kexec-tools"),
            (
                Kernel { parameters: parameters("", &[]), ..board() },
                "latlab tune that was killed",
                "resets itself",
            ),
            (Kernel { is_disabled: true, ..board() }, "kexec_load_disabled", "reset"),
            (
                Kernel { image: String::new(), ..board() },
                "no image of the running kernel, 6.1",
                "/boot/vmlinuz-6.1",
            ),
        ] {
            let (said, hint) = kernel.obstacle().unwrap();
            assert!(said.contains(message) && hint.contains(remedy), "{said}: {hint}");
        }
    }

    #[test]
    fn parameters_are_added_behind_those_of_the_board() {
        let added = ["idle=poll".to_owned(), "isolcpus=1".to_owned()];
        let all = parameters("root=/dev/sda  quiet", &added);
        assert_eq!(all, "root=/dev/sda quiet idle=poll isolcpus=1 panic=10 latlab.restarted");
        assert_eq!(parameters("", &[]), "panic=10 latlab.restarted");
        assert!(has(&all, "idle=poll") && !has(&all, "idle"));
    }
}
