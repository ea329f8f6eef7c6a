//! Examples at the end of each command's help. A test parses each of them.

/// Of `latlab` itself.
#[cfg(feature = "host")]
pub const LATLAB: &str =
    "Examples:\n  latlab survey --quick\n  latlab wakeup -D 60\n  latlab why -D 60 --limit 100us";
/// Of `latlab survey`.
pub const SURVEY: &str = "Examples:\n  latlab survey --quick\n  latlab survey --step wakeup --step bench --out runs/baseline\n  latlab --on ssh://root@board survey";
/// Of `latlab doctor`.
pub const DOCTOR: &str =
    "Examples:\n  latlab doctor\n  latlab doctor --kernel-config\n  latlab doctor --restore";
/// Of `latlab wakeup`.
pub const WAKEUP: &str = "Examples:\n  latlab wakeup -p 90 -i 500 -a 3 -t 1 -m -b 200\n  latlab wakeup -D 10m --load 4*cpu --load vm:64M --format cyclictest -q -h 400\n  latlab wakeup --by timerfd,futex,pipe -D 30";
/// Of `latlab why`.
pub const WHY: &str = "Examples:\n  latlab why -D 60 --limit 100us\n  latlab why --task ctl_loop --deadline 1ms -D 60\n  latlab why --from uprobe:./loop:receive --to uprobe:./loop:send -- ./loop";
/// Of `latlab bench`.
pub const BENCH: &str = "Examples:\n  latlab bench\n  latlab bench syscall ctx.pipe\n  latlab bench --against @beaglebone-black-2015";
/// Of `latlab memory`.
pub const MEMORY: &str = "Examples:\n  latlab memory\n  latlab memory --quick -a 0\n  latlab memory --from lat_mem_rd.out";
/// Of `latlab sched`.
pub const SCHED: &str = "Examples:\n  latlab sched --policy rr -D 3s\n  latlab sched --matrix\n  latlab sched trace.dat --view timehist";
/// Of `latlab profile`.
#[cfg(feature = "host")]
pub const PROFILE: &str = "Examples:\n  latlab profile trace.dat --from 12.5 --to 12.6\n  latlab profile before.txt after.txt\n  latlab profile --with stacks -- ./program";
/// Of `latlab timer`.
pub const TIMER: &str =
    "Examples:\n  latlab timer -D 10s\n  latlab timer trace.dat\n  latlab timer --no-trace";
/// Of `latlab noise`.
pub const NOISE: &str = "Examples:\n  latlab noise -D 1m\n  latlab noise -c 1 -P f:80 -s 50 --format rtla\n  latlab --on vm:armv7-rt noise --by osnoise";
/// Of `latlab sweep`.
pub const SWEEP: &str = "Examples:\n  latlab sweep --load cpu:{share} --axis share=20,50,100 -D 10s\n  latlab sweep memory --quick\n  latlab sweep --resume runs/sweep";
/// Of `latlab record`.
pub const RECORD: &str = "Examples:\n  latlab record -e sched -e irq -D 5s -o trace.dat\n  latlab record -e sched_switch -- ./program\n  latlab record -e sched --last 16";
/// Of `latlab report`.
pub const REPORT: &str = "Examples:\n  latlab report runs/baseline --details\n  latlab report runs/baseline --html report.html\n  latlab report trace.dat -F sched_switch";
/// Of `latlab check`.
#[cfg(feature = "host")]
pub const CHECK: &str = "Examples:\n  latlab check board.req\n  latlab check board.req runs/nightly --format tap\n  latlab check @motor-1khz";
/// Of `latlab tune`.
pub const TUNE: &str = "Examples:\n  latlab tune --list\n  latlab tune --try governor=performance --load vm:128M --format sysctl\n  latlab tune --boot x86_64-rt,smp=2 --try isolcpus=1+nohz_full=1 -a 1";
/// Of `latlab compare`.
#[cfg(feature = "host")]
pub const COMPARE: &str = "Examples:\n  latlab compare runs/before runs/after\n  latlab compare --base a1 a2 a3 --new b1 b2 b3 --fail-if worse\n  latlab compare runs/after cyclictest.json";
/// Of `latlab view`.
#[cfg(feature = "view")]
pub const VIEW: &str = "Examples:\n  latlab view trace.dat\n  latlab view trace.dat --limit 100us\n  latlab view runs/why --export page.html";
/// Of `latlab load`.
pub const LOAD: &str = "Examples:\n  latlab load 4*cpu vm:128M -t 10s\n  latlab load -c 2 -m 1 --vm-bytes 128M -t 10s\n  latlab load --list";
/// Of `latlab history`.
#[cfg(feature = "host")]
pub const HISTORY: &str = "Examples:\n  latlab history add runs/baseline\n  latlab history list --board beaglebone\n  latlab history trend wakeup.user --statistic p99 --fail-if-worse";
/// Of `latlab fleet`.
#[cfg(feature = "host")]
pub const FLEET: &str = "Examples:\n  latlab fleet submit nightly.toml --dir nightly\n  latlab fleet import --lake lake nightly/results\n  latlab fleet report --lake lake --out site";
/// Of `latlab export`.
#[cfg(feature = "host")]
pub const EXPORT: &str = "Examples:\n  latlab export trace.dat --perfetto trace.perfetto\n  latlab export trace.dat --parquet events\n  latlab export trace.dat --trace-dat part.dat --from 923.60 --to 923.75";
/// Of `latlab vm`.
#[cfg(feature = "host")]
pub const VM: &str = "Examples:\n  latlab vm doctor\n  latlab vm path armv7-rt\n  latlab vm run armv7-rt,smp=2 --file prog:prog -- prog --option";
/// Of `latlab worst`.
#[cfg(feature = "host")]
pub const WORST: &str = "Examples:\n  latlab worst armv7-rt --fault irqs-off:us=30,every=1ms --fault hardirq:us=20,every=1ms\n  latlab worst x86_64-rt --load fork --load net -l 5000\n  latlab worst --replay runs/worst --path";
/// Of `latlab image`.
#[cfg(feature = "host")]
pub const IMAGE: &str = "Examples:\n  latlab image --board beaglebone-black -o sd.img\n  latlab image write /dev/sdX sd.img\n  latlab image boot sd.img";
/// Of `latlab fetch`.
#[cfg(feature = "host")]
pub const FETCH: &str = "Examples:\n  latlab --on ssh://root@board fetch\n  latlab --on ssh://root@board:2222 fetch\n  latlab --on ssh://root@board fetch 1795429300-4711";

/// Of `latlab watch`.
pub const WATCH: &str = "Examples:\n  latlab watch ctl_loop --deadline 1ms\n  latlab watch server --from syscall:read --to sysret:read --deadline 5ms\n  latlab watch --config /etc/latlab/watch.toml --listen 127.0.0.1:9464";
/// Of `latlab watch status`.
pub const WATCH_STATUS: &str =
    "Examples:\n  latlab watch status\n  latlab watch status --dir /tmp/watch --json";
/// Of `latlab watch export`.
pub const WATCH_EXPORT: &str =
    "Examples:\n  latlab watch export tables\n  latlab watch export tables --dir /tmp/watch";

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::{CommandFactory, Parser};

    #[test]
    fn every_example_is_accepted() {
        let (mut checked, mut refused) = (0, Vec::new());
        let cli = Cli::command();
        for command in std::iter::once(&cli).chain(cli.get_subcommands()) {
            let Some(help) = command.get_after_long_help() else { continue };
            let lines = help.to_string().lines().count();
            assert!(lines == 4, "{} has {} examples", command.get_name(), lines - 1);
            for line in help.to_string().lines().skip(1) {
                let parsed = Cli::try_parse_from(line.split_whitespace());
                refused.extend(parsed.err().map(|error| format!("{line}: {error}")));
                checked += 1;
            }
        }
        assert!(refused.is_empty(), "{}", refused.concat());
        assert!(checked > 30, "{checked} examples");
    }
}
