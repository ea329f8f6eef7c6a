use super::*;
use crate::cli::{Cli, Command as Chosen};
use clap::{CommandFactory, Parser};

fn translated(line: &str) -> Translated {
    let words = line.split_whitespace().map(OsString::from).collect();
    translate(&Cli::command(), words).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// What clap gets to read, with the program's name and the command cut off.
#[cfg(feature = "host")]
fn words(line: &str) -> String {
    let words = translated(line).words;
    let words: Vec<&str> = words.iter().skip(2).filter_map(|w| w.to_str()).collect();
    words.join(" ")
}

/// Parses; the notes.
fn notes(line: &str) -> Vec<String> {
    let done = translated(line);
    if let Err(error) = Cli::try_parse_from(&done.words) {
        // `-?` and `--help` end the parsing as well.
        assert!(!error.use_stderr(), "{line}: {:?}: {error}", done.words);
    }
    done.notes
}

/// What a wake-up command line asks for, on four CPUs.
fn asked(line: &str) -> crate::cli::wakeup::Config {
    let cpus: Vec<_> = (0..4).map(latlab_model::units::CpuId).collect();
    match Cli::try_parse_from(translated(line).words).unwrap().command {
        Some(Chosen::Wakeup(args)) => args.config(&cpus, &cpus).unwrap(),
        other => panic!("{line}: {other:?}"),
    }
}

/// Every option of cyclictest 2.4 (`--help`, man page), and those that versions 0.8 to 1.x had besides;
/// and whether a line of information says that it has no effect.
const CYCLICTEST: &[(&str, bool)] = &[
    ("-a", false),
    ("-a 0-3", false),
    ("-a2", false),
    ("--affinity=!1", false),
    ("--affinity all", false),
    ("-A 100", false),
    ("-A", false),
    ("--aligned=100", false),
    ("--align=100", false),
    ("-b 200", false),
    ("--breaktrace=200", false),
    ("-c 0", false),
    ("-c1", true),
    ("--clock=1", true),
    ("--default-system", false),
    ("-d 0", false),
    ("--distance=500", false),
    ("-D 10", false),
    ("-D 5m", false),
    ("-D1d", false),
    ("--duration=12h", false),
    ("-F /tmp/pipe", false),
    ("--fifo=/tmp/pipe", false),
    ("-h 400", false),
    ("--histogram=400", false),
    ("-H 400", false),
    ("--histofall=400", false),
    ("-h 400 --histfile=hist.txt", false),
    ("-i 500", false),
    ("--interval=500", false),
    ("--json=out.json", false),
    ("--json out.json", false),
    ("--laptop", false),
    ("--latency=0", false),
    ("-l 100000", false),
    ("--loops=100000", false),
    ("--mainaffinity=1", false),
    ("--mainaffinity 1,3", false),
    ("-m", false),
    ("--mlockall", false),
    ("-M", false),
    ("--refresh_on_max", false),
    ("-N", false),
    ("--nsecs", false),
    ("-o 10 -v", false),
    ("--oscope=10 -v", false),
    ("-p 99", false),
    ("-p99", false),
    ("--priority=99", false),
    ("--prio=99", false),
    ("--policy=rr", false),
    ("--policy=normal", false),
    ("--policy=other", false),
    ("--policy=batch", false),
    ("--policy=idle", false),
    ("--policy=FIFO", false),
    ("--rr", false),
    ("--priospread", false),
    ("-q", false),
    ("--quiet", false),
    ("-r", false),
    ("--relative", false),
    ("-R", false),
    ("--resolution", false),
    ("--secaligned", true),
    ("--secaligned 100", true),
    ("-s", false),
    ("--system", false),
    ("-S", false),
    ("--smp", false),
    ("--spike=100", false),
    ("--spike-nodes=64", false),
    ("--smi", false),
    ("-t", false),
    ("-t 2", false),
    ("-t2", false),
    ("--threads", false),
    ("--threads=2", false),
    ("--tracemark -b 100", false),
    ("-u", false),
    ("--unbuffered", false),
    ("-v", false),
    ("--verbose", false),
    ("--dbg_cyclictest", true),
    ("-x", false),
    ("--posix_timers", false),
    ("--help", false),
    ("-?", false),
    // Earlier versions.
    ("-n", false),
    ("--nanosleep", false),
    ("-e 0", false),
    ("-y rr", false),
    ("-Q", false),
    ("-U", false),
    ("--numa", false),
    ("-B", true),
    ("--preemptirqs", true),
    ("-C", true),
    ("--context", true),
    ("-E", true),
    ("--event", true),
    ("-f", true),
    ("--ftrace", true),
    ("-g 500", true),
    ("--of_max=500", true),
    ("-I", true),
    ("--irqsoff", true),
    ("-P", true),
    ("--preemptoff", true),
    ("-O sym-addr", true),
    ("--traceopt=sym-addr", true),
    ("-T function", true),
    ("--tracer=function", true),
    ("-w", true),
    ("--wakeup", true),
    ("-W", true),
    ("--wakeuprt", true),
    ("-X", true),
    ("--notrace", false),
];

#[test]
fn every_option_of_cyclictest_is_accepted() {
    for (option, informed) in CYCLICTEST {
        let told = notes(&format!("latlab wakeup {option} -l 10"));
        assert_eq!(told.len(), usize::from(*informed), "{option}: {told:?}");
        assert!(told.iter().all(|t| t.contains(" has no effect: ")), "{told:?}");
    }
}

#[test]
fn command_lines_of_tutorials_mean_what_they_mean_there() {
    for (line, prio, interval_us, threads) in [
        ("-t1 -p 80 -n -i 10000 -l 10000", 80, 10_000, 1),
        ("-t 1 -p 80 -i 500 -l 100000", 80, 500, 1),
        ("-a -t -n -p99 -i 1000", 99, 1000, 4),
        ("-t5 -p 80 -n -i 1000 -d 500 -l 1000", 80, 1000, 5),
        ("-l100000000 -m -Sp90 -i200 -h400 -q", 90, 200, 4),
        ("-l1000000 -m -S -p90 -i200 -h400 -q", 90, 200, 4),
        ("--smp -p95 -m", 95, 1000, 4),
        ("--mlockall --smp --priority=80 --interval=200 --distance=0", 80, 200, 4),
        ("-m -n -q -p95 -D 24h -h60 -i 200 -a 1-3 -t3", 95, 200, 3),
        ("-S -t 8 -p 98 -m --histogram=200 --histfile=h.txt --quiet -D 30", 98, 1000, 4),
        ("-p 99 -t 4 -a 0-3 -i 1000 -n -m -b 100 --tracemark", 99, 1000, 4),
        ("-umnSp99 -i1000 -D60s", 99, 1000, 4),
        ("-q -D 1h -a 2 -t 1 -p 95 -m -u --policy=fifo -c 0", 95, 1000, 1),
        ("--duration=5m --json=out.json -qmp 80 --threads --affinity", 80, 1000, 4),
        ("-vmn -i100 -p80 -t1 -l1000 -h100", 80, 100, 1),
        ("-n -x -p99 -i 250 -D 10 --laptop", 99, 250, 4),
        ("--thread=2 --prio=50 --inter=750 --loop=5", 50, 750, 2),
    ] {
        let m = asked(&format!("latlab wakeup {line}")).measure;
        assert_eq!(
            (m.priority, m.interval_ns, m.threads.len()),
            (prio, interval_us * 1000, threads),
            "{line}"
        );
    }
    let files = asked("latlab wakeup --json out.json -h 50 --histfile h.txt -vq");
    assert_eq!(files.json_file.unwrap().to_str(), Some("out.json"));
    assert_eq!(files.histogram_file.unwrap().to_str(), Some("h.txt"));
    assert!(!files.verbose, "-q is without the values");
}

#[test]
fn our_own_spellings_stay_as_they_are() {
    for line in [
        "latlab --out r wakeup --json -D 5",
        "latlab wakeup -D 5 --json",
        "latlab --json wakeup --load 4*cpu --samples -",
        "latlab record -e sched -f prev_prio<100 -- sleep 1",
        "latlab report trace.dat -e sched -P 1,2",
        "latlab doctor -n",
    ] {
        let done = translated(line);
        let words: Vec<_> = done.words.iter().filter_map(|w| w.to_str()).collect();
        assert_eq!((words.join(" ").as_str(), done.notes.len()), (line, 0));
    }
}

#[test]
fn under_the_name_of_cyclictest_its_defaults_hold() {
    let plain = asked("/usr/local/bin/cyclictest -l 5");
    assert_eq!((plain.measure.threads.len(), plain.measure.priority), (1, 0));
    assert_eq!(plain.format, crate::cli::wakeup::Format::Cyclictest);
    let smp = asked("cyclictest -qmSp99");
    assert_eq!((smp.measure.threads.len(), smp.measure.priority), (4, 99));
}

/// Options of `trace-cmd record -h`; those that are refused are in the test below.
#[cfg(feature = "host")]
const RECORD: &[(&str, bool)] = &[
    ("-e sched -f prev_prio<100", false),
    ("-e sched -R traceoff", false),
    ("-p function", false),
    ("-e sched -F sleep 1", false),
    ("-e sched -P 1,2 -c", false),
    ("-e sched -C mono", false),
    ("-e sched -T", false),
    ("-p function -l do_* -n do_x", false),
    ("-p function_graph -g do_sys -O nosleep-time --max-graph-depth 3", false),
    ("-e all -m 1000", true),
    ("-e all -M 3", false),
    ("-e all -d", true),
    ("-e all -D", true),
    ("-e all -o x.dat", false),
    ("-e all -r 80", true),
    ("-e all -s 1000", true),
    ("-e all -S", true),
    ("-e all -t", false),
    ("-e all -b 4096", false),
    ("-B buffer -e all", true),
    ("-e all -k", true),
    ("-i -e all", true),
    ("-e all -q", true),
    ("-e all --quiet", true),
    ("-e all -G", true),
    ("-e all --temp /tmp", true),
    ("-p function --module ext4", true),
    ("-e all --by-comm", true),
    ("-e all --profile", true),
    ("-p function --func-stack", false),
    ("-e all --cmdlines-size 2048", true),
    ("-e all --no-filter", false),
    ("-e all --proc-map", true),
    ("-e all --tsc2nsec", true),
    ("-e all --tsync-interval 10", true),
    ("-e all --poll", true),
    ("-e all --date", true),
    ("-e all --file-version 7", false),
    ("-e all --compression any", false),
];

#[cfg(feature = "host")]
#[test]
fn every_option_of_trace_cmd_record_is_accepted_or_refused() {
    for (options, informed) in RECORD {
        let told = notes(&format!("latlab record {options}"));
        assert_eq!(told.len(), usize::from(*informed), "{options}: {told:?}");
    }
    for refused in ["-e all -v -e sched", "-N host:1 -e all", "-V 3:1", "--user nobody", "-A x"] {
        let words = format!("latlab record {refused}");
        let words = words.split(' ').map(OsString::from).collect();
        let error = translate(&Cli::command(), words).unwrap_err().to_string();
        assert!(refused.contains(error.split(':').next().unwrap()), "{error}");
    }
    // Its command follows without `--`.
    assert_eq!(words("latlab record -e sched -D 5 ls -l -o x"), "-e sched -D 5 -- ls -l -o x");
    assert_eq!(words("latlab record -p nop -F -e all sleep 1"), "-p nop -F -e all -- sleep 1");
    let line = "latlab record -e sched_switch -o t.dat -b 20000 -C mono -s 500 ./program -e x";
    assert_eq!(words(line), "-e sched_switch -o t.dat -b 20000 -C mono -- ./program -e x");
    assert_eq!(
        notes(line),
        ["-s 500 has no effect: each CPU's ring buffer is read whenever it has pages"]
    );
}

/// Options of `trace-cmd report -h`.
#[cfg(feature = "host")]
const REPORT: &[(&str, bool)] = &[
    ("-i x.dat", false),
    ("--cpu 0,2-3", false),
    ("-e", true),
    ("-f", true),
    ("-P", true),
    ("-E", true),
    ("-F sched_switch", false),
    ("-I", true),
    ("-S", true),
    ("-t", false),
    ("-R", false),
    ("-r sched_switch", true),
    ("-T", true),
    ("-V", true),
    ("-V3 -i x.dat", true),
    ("-L", true),
    ("-N", false),
    ("-n sched_switch", true),
    ("-w", true),
    ("-l", false),
    ("-O parent=1", true),
    ("--cpus", false),
    ("--first-event", false),
    ("--last-event", false),
    ("--check-events", true),
    ("--stat", false),
    ("--uname", true),
    ("--profile", true),
    ("-G", true),
    ("-H a,b/c,d", true),
    ("--by-comm", true),
    ("--ts-offset 5", true),
    ("--ts2secs 100", true),
    ("--ts-diff", true),
    ("--ts-check", true),
    ("--nodate", true),
    ("--raw-ts", true),
    ("--align-ts", true),
    ("--verbose=3", true),
];

#[cfg(feature = "host")]
#[test]
fn every_option_of_trace_cmd_report_is_accepted_or_refused() {
    for (options, informed) in REPORT {
        let told = notes(&format!("latlab report {options}"));
        assert_eq!(told.len(), usize::from(*informed), "{options}: {told:?}");
    }
    assert_eq!(words("latlab report -i x.dat -l -F sched"), "x.dat -l -F sched");
    let negated = "latlab report -v -F sched x.dat".split(' ').map(OsString::from).collect();
    assert!(translate(&Cli::command(), negated).unwrap_err().to_string().starts_with("-v: "));
}

#[cfg(feature = "host")]
#[test]
fn common_options_of_lmbench_are_accepted() {
    assert_eq!(words("latlab bench lat_syscall -P 1 -W 5 -N 11 null"), "lat_syscall -P 1 null");
    assert_eq!(notes("latlab bench lat_pipe -P 1").len(), 0);
    assert_eq!(notes("latlab bench lat_pipe -P 4 -W 1000 -N 3").len(), 2);
    assert_eq!(notes("latlab memory -W 1000 -N 3").len(), 2);
}
