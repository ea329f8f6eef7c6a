//! Campaigns on a real Slurm: a controller and two nodes on this host, without a service of the machine.

use crate::common::{command, printed, said, skip, text, wait_for};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A controller with two nodes, which end with it.
struct Cluster {
    conf: PathBuf,
    daemons: Vec<(String, Child)>,
}

impl Cluster {
    fn start(dir: &Path) -> Option<Self> {
        let program = |name: &str| {
            ["/usr/sbin", "/sbin", "/usr/bin"]
                .map(|d| Path::new(d).join(name))
                .into_iter()
                .find(|p| p.exists())
        };
        let (Some(slurmctld), Some(slurmd)) = (program("slurmctld"), program("slurmd")) else {
            skip("no Slurm here (slurmctld, slurmd, slurm-client)");
            return None;
        };
        // Held until all are known, so that they differ.
        let sockets = [(); 3].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap());
        let [controller, a, b] = sockets.each_ref().map(|s| s.local_addr().unwrap().port());
        drop(sockets);
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = host.split('.').next().unwrap_or(&host);
        let user =
            String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
        let user = user.trim();
        let at = |name: &str| dir.join(name).display().to_string();
        for name in ["state", "spool.a", "spool.b"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        let conf = dir.join("slurm.conf");
        let text = format!(
            "ClusterName=lab\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/none\nCredType=cred/none\nAuthInfo=cred_expire=5\nStateSaveLocation={}\nSlurmdSpoolDir={}\n\
             SlurmctldPidFile={}\nSlurmdPidFile={}\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n\
             SelectType=select/linear\nSlurmdParameters=config_overrides\nSlurmdTimeout=4\nMessageTimeout=2\nKillWait=5\nSchedulerParameters=sched_interval=2,bf_interval=2\nReturnToService=2\n\
             NodeName=a NodeHostname={host} NodeAddr=127.0.0.1 Port={a} CPUs=1\n\
             NodeName=b NodeHostname={host} NodeAddr=127.0.0.1 Port={b} CPUs=1\n\
             PartitionName=boards Nodes=a,b Default=YES MaxTime=10 OverSubscribe=EXCLUSIVE\n",
            at("state"),
            at("spool.%n"),
            at("slurmctld.pid"),
            at("slurmd.%n.pid"),
        );
        fs::write(&conf, text).unwrap();
        let daemon = |name: &str, program: &Path, words: &[&str]| {
            let log = File::create(dir.join(format!("{name}.log"))).unwrap();
            let mut command = Command::new(program);
            command.args(words).env("SLURM_CONF", &conf).stdin(Stdio::null()).process_group(0);
            let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
            (name.to_owned(), child)
        };
        let daemons = vec![
            daemon("controller", &slurmctld, &["-D", "-i"]),
            daemon("a", &slurmd, &["-D", "-N", "a"]),
            daemon("b", &slurmd, &["-D", "-N", "b"]),
        ];
        let cluster = Self { conf, daemons };
        wait_for("two nodes", Duration::from_millis(200), || {
            let idle = cluster.ask("sinfo", &["--noheader", "--Node", "--format=%N %t"]);
            (idle.lines().filter(|line| line.ends_with(" idle")).count() == 2).then_some(())
        });
        Some(cluster)
    }

    fn ask(&self, program: &str, words: &[&str]) -> String {
        printed(&Command::new(program).args(words).env("SLURM_CONF", &self.conf).output().unwrap())
    }

    fn fleet(&self, dir: &Path, words: &[&str]) -> Output {
        let words =
            [&["fleet", "submit", "c.toml", "--dir", "c", "--engine", "slurm"], words].concat();
        command(dir, &words).env("SLURM_CONF", &self.conf).output().unwrap()
    }

    /// Kills a node's daemon and all that it runs, as a host that loses its power.
    fn lose(&mut self, node: &str) {
        for (name, child) in &mut self.daemons {
            if name == node {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        self.kill_jobs(&format!("SLURMD_NODENAME={node}"));
    }

    /// Kills jobs with this in their environment, and what watches them.
    fn kill_jobs(&self, mark: &str) {
        let conf = format!("SLURM_CONF={}", self.conf.display());
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(environment) = fs::read(process.path().join("environ")) else { continue };
            let words: BTreeSet<&[u8]> = environment.split(|b| *b == 0).collect();
            let name = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let is_step = name.starts_with(b"slurmstepd");
            if words.contains(conf.as_bytes()) && (words.contains(mark.as_bytes()) || is_step) {
                let pid = process.file_name().to_string_lossy().parse().ok();
                let pid = pid.and_then(rustix::process::Pid::from_raw).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (_, child) in &mut self.daemons {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.kill_jobs("SLURM_JOB_NAME=");
        for node in ["a", "b"] {
            self.kill_jobs(&format!("SLURMD_NODENAME={node}"));
        }
    }
}

fn results(dir: &Path) -> usize {
    fs::read_dir(dir.join("c/results")).map_or(0, |entries| entries.flatten().count())
}

/// Each experiment is measured once; a board that does not answer is left alone after two of them.
#[test]
fn a_campaign_runs_as_job_arrays() {
    let t = tempfile::tempdir().unwrap();
    let Some(cluster) = Cluster::start(t.path()) else { return };
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let campaign = format!(
        "name = 'nightly'\nattempts = 1\nquarantine = 2\nrepetitions = 3\nsbatch = ['--partition=boards']\n\
         [[board]]\nname = 'here'\ntarget = 'local'\n\
         [[board]]\nname = 'gone'\ntarget = 'ssh://nobody@127.0.0.1:{closed}'\n\
         [[experiment]]\nname = 'doctor'\ncommand = ['doctor', '-D', '0.2s']\n",
    );
    fs::write(t.path().join("c.toml"), campaign).unwrap();
    let shown = cluster.fleet(t.path(), &["--dry-run"]);
    let text_shown = printed(&shown);
    assert_eq!(text_shown.lines().count(), 2, "{text_shown}{}", said(&shown));
    assert!(
        text_shown
            .lines()
            .all(|l| l.starts_with("sbatch --parsable ") && l.contains("--partition=boards"))
    );
    assert_eq!(cluster.ask("squeue", &["--noheader"]), "");

    let done = cluster.fleet(t.path(), &["--wait"]);
    assert_eq!(done.status.code(), Some(75), "{}{}", printed(&done), said(&done));
    assert!(said(&done).contains("6 experiments in 2 job arrays"), "{}", said(&done));
    assert!(
        printed(&done).contains("3 finished, 0 failed, 3 waiting on 2 boards"),
        "{}",
        printed(&done)
    );
    assert_eq!(results(t.path()), 3);
    let attempts = fs::read_to_string(t.path().join("c/attempts.jsonl")).unwrap();
    let of = |board: &str| {
        attempts.lines().filter(|l| l.contains(&format!("\"board\":\"{board}\""))).count()
    };
    assert_eq!((of("here"), of("gone")), (3, 2), "{attempts}");

    // Once more: what is finished is not, and the other board is tried again.
    let again = cluster.fleet(t.path(), &["--wait"]);
    assert!(said(&again).contains("3 experiments in 1 job arrays"), "{}", said(&again));
    let attempts = fs::read_to_string(t.path().join("c/attempts.jsonl")).unwrap();
    assert_eq!(attempts.lines().count(), 3 + 2 + 2, "{attempts}");
}

/// A node that is lost in an experiment: Slurm repeats it on the other one. What is queued is not submitted twice.
#[test]
fn a_lost_node_loses_no_experiment() {
    let t = tempfile::tempdir().unwrap();
    let Some(mut cluster) = Cluster::start(t.path()) else { return };
    let campaign = "name = 'nightly'\nrepetitions = 2\n[[board]]\nname = 'here'\ntarget = 'local'\n\
                    [[experiment]]\nname = 'idle'\ncommand = ['wakeup', '--policy', 'other', '-D', '4']\n";
    fs::write(t.path().join("c.toml"), campaign).unwrap();
    let submitted = cluster.fleet(t.path(), &[]);
    assert!(submitted.status.success(), "{}", said(&submitted));
    let twice = cluster.fleet(t.path(), &[]);
    assert!(said(&twice).contains("nothing to submit"), "{}", said(&twice));
    let running = t.path().join("c/running");
    wait_for("an experiment that runs", Duration::from_millis(50), || {
        let runs =
            fs::read_dir(&running).ok()?.flatten().any(|e| e.path().join("run.json").exists());
        runs.then_some(())
    });
    let node = cluster.ask("squeue", &["--noheader", "--states=running", "--format=%N"]);
    cluster.lose(node.trim());
    assert_eq!(results(t.path()), 0);
    wait_for("both results", Duration::from_millis(500), || (results(t.path()) == 2).then_some(()));
    let attempts = fs::read_to_string(t.path().join("c/attempts.jsonl")).unwrap();
    let codes: Vec<&str> = attempts.lines().filter(|l| l.contains("\"exit_code\":0")).collect();
    assert_eq!(codes.len(), 2, "{attempts}");
    let status = command(t.path(), &["fleet", "status", "c.toml", "--dir", "c"]).output().unwrap();
    assert!(
        text(&status.stdout).contains("2 finished, 0 failed, 0 waiting"),
        "{}",
        printed(&status)
    );
}
