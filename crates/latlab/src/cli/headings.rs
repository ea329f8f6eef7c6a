//! Headings of the options in each command's help, and their order: the most used first.

use clap::{Arg, ArgAction, Command};

/// A command, `!` and the general options that have no effect there, `+` and those that have one although
/// they have none for the command above; below it each heading with its
/// options by name of their field.
const GROUPS: &str = "
latlab
Output: json details out max_memory
Target: on
wakeup !max_memory
Measurement: duration loops priority interval threads affinity unbound smp policy by core core_program mlockall compute distance aligned priospread level lock
Load: load
Stop and trace: breaktrace tracemark
Output: histogram histofall quiet verbose samples format histfile json_file nsecs help
Machine: latency idle_states mainaffinity power
why
Causes: task deadline period span from to key limit captures prove window vmlinux map
Tracing: trace functions user_stacks
Measurement: duration loops priority interval threads affinity unbound smp policy mlockall compute distance aligned priospread level lock
Load: load load_command
Stop and trace: breaktrace tracemark
Output: histogram histofall quiet verbose samples format histfile json_file nsecs help
Machine: latency idle_states mainaffinity
watch !on !out !max_memory
Tasks: config deadline limit period
Spans: span from to key
Limits: budget captures disk buffer keep_days duration
Output: dir listen exec
watch status
Output: dir
watch export
Output: dir
worst !on !max_memory
Inputs: faults loads
Search: loops method seed priority no_random
Replay: replay path bound
Kernel: kernel modules_from initrd dtb
bench !max_memory
Measurement: full duration precision each parallel cpu dir seed
Network: host serve
Output: list format against slice
sweep !max_memory
Axes: vm_bytes vm_stride mode vm axis
Load: load cpus
Measurement: quick duration budget interval priority measured_cpu quantile response settle refine seed resume
Causes: why memory
Output: dry_run
noise !max_memory
Measurement: by duration cpus priority period runtime threshold
Load: load
Stop and trace: stop stop_total queue no_trace
Output: top format
load !details !out !max_memory
Load: cpu io vm hdd vm_bytes vm_stride vm_hang vm_keep hdd_bytes affinity dir
Measurement: timeout
Output: list
memory !max_memory
Measurement: quick duration cpu size seed
Context switches: switch procs working_sets cold class
Output: from format
doctor !max_memory
Measurement: duration
Settings: restore
Kernel: kernel_config board
Target: vm
survey !max_memory
Measurement: quick full steps
Output: list
record !details !out !max_memory
Events: events filters triggers
Tracer: tracer threshold functions notrace_functions graph_functions max_graph_depth options
What is traced: pids only_command children cpu mask
Measurement: duration clock stack buffer_kb last rearm
Output: output compression kallsyms v6 list check_events recover
report !out !on
Selection: event filter pid cpu from to
Lines: stat dump follow raw latency nanoseconds no_plugins threads
Output: html svg png
sched
Experiment: matrix only duration policy prio nice tasks work cpu force
Parameters: slice latency_nice weight budget size file_size dir
Trace: view task from to window
timer
Measurement: duration interval top no_trace
Trace: from to
profile !on
Recording: duration with functions
Trace: from to
check !on !max_memory
Output: list format junit
tune !max_memory
Settings: tries together factorial list apply boot fault
Measurement: rounds block settle duration eliminate bench quantile require interval affinity priority seed
Load: load
Output: format
compare !on !max_memory
Sides: base new only
Verdict: fail_if allow_single limit margin within level tell
Statistics: cluster seed
Output: html markdown junit
history !on !details !out !max_memory
Store: store
history list
Selection: board limit
history trend
Selection: board param statistic
Verdict: fail_if_worse
Output: html
fleet !on !out !max_memory
fleet submit
Campaign: dir jobs
Engine: engine dry_run wait
fleet collect
Campaign: dir
fleet status
Campaign: dir
fleet import
Lake: lake
fleet compact
Lake: lake
fleet regressions
Lake: lake
Selection: nights
Verdict: fail_if_any
fleet report
Lake: lake
Output: out
fleet ask
Lake: lake
Selection: name quantile kernel setting
Output: sql
export !on !details !out
Selection: event filter cpu from to
Output: perfetto parquet csv trace_dat compression v6
view !on !details !out
Trace: limit offset
Server: port no_open
Output: export from to
vm !on !details !out !max_memory
vm boot
Kernel: kernel modules_from initrd dtb
Machine: files packages faults
vm shell
Kernel: kernel modules_from initrd dtb
Machine: files packages faults
vm run
Measurement: timeout
Kernel: kernel modules_from initrd dtb
Machine: files packages faults
vm gate
Verdict: limit
Output: junit
vm path +details +out
Measurement: loops interval settle load modules
Comparison: against
Kernel: kernel modules_from initrd dtb
Machine: files packages faults
Output: details out
vm sections +details +out
Measurement: loops interval settle load modules events
Kernel: kernel modules_from initrd dtb
Machine: files packages faults
Output: details out
vm bound +details +out
Measurement: loops interval settle load modules
Analysis: tasks
Kernel: kernel modules_from initrd dtb
Machine: files packages faults
Output: details out
vm twin +details +out
Replay: machine captures plan
Output: details out
vm bisect +details +out
Candidates: git good bad build
Verdict: function limit
Measurement: loops interval settle load modules
Kernel: kernel modules_from initrd dtb
Machine: files packages faults
Output: details out
vm build
Output: deb
vm clean
Cache: all
image !on !details !out !max_memory
Image: board kernel build_kernel build_u_boot ssh_key hostname packages serial_shell
Output: output nfs_root plan show from_config offline
image write
Card: yes fixed no_grow once root
image check
Image: board
image boot
Machine: ssh_port smp firmware
fetch !json !details !out !max_memory
";

/// The command line's definition with headings, order and `--help`.
pub fn grouped(mut cli: Command) -> Command {
    let general: Vec<Arg> = cli.get_arguments().cloned().collect();
    let (mut path, mut order) = ("", 0);
    for line in GROUPS.trim().lines() {
        if let Some((heading, ids)) = line.split_once(": ") {
            let Some(command) = find(&mut cli, path) else { continue };
            for id in ids.split(' ') {
                order += 1;
                // A board build does not have all options.
                if command.get_arguments().any(|a| a.get_id() == id) {
                    let taken = std::mem::take(command);
                    *command =
                        taken.mut_arg(id, |arg| arg.help_heading(heading).display_order(order));
                }
            }
            continue;
        }
        let (name, options) = command_line(line);
        path = name;
        let Some(command) = find(&mut cli, path) else { continue };
        let marked = options.filter_map(|(is_hidden, id)| {
            general.iter().find(|a| a.get_id() == id).map(|arg| arg.clone().hide(is_hidden))
        });
        let taken = std::mem::take(command);
        *command = taken.args(marked);
    }
    with_help(cli)
}

/// A command's name, and its general options with whether they are hidden.
fn command_line(line: &str) -> (&str, impl Iterator<Item = (bool, &str)>) {
    let end = line.find(['!', '+']).map_or(line.len(), |at| at.saturating_sub(1));
    let options = line[end..].split_ascii_whitespace();
    (&line[..end], options.map(|word| (word.starts_with('!'), &word[1..])))
}

/// The command of these words; `None` in a build that does not have it.
fn find<'a>(cli: &'a mut Command, path: &str) -> Option<&'a mut Command> {
    path.split(' ').filter(|word| *word != "latlab").try_fold(cli, Command::find_subcommand_mut)
}

/// clap's `--help` and `--version` have no heading.
fn with_help(mut command: Command) -> Command {
    for sub in command.get_subcommands_mut() {
        *sub = with_help(std::mem::take(sub));
    }
    if command.is_disable_help_flag_set() {
        return command;
    }
    let help = Arg::new("help").short('h').long("help").action(ArgAction::Help);
    let help = help.help("Print help (-h: one line for each option)").help_heading("Output");
    let version = command.get_version().is_some().then(|| {
        let version = Arg::new("version").short('V').long("version").action(ArgAction::Version);
        version.help("Print version").help_heading("Output")
    });
    command.disable_help_flag(true).disable_version_flag(true).arg(help).args(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    fn check(command: &Command, path: &str) {
        let shown = |a: &&Arg| !a.is_positional() && !a.is_global_set() && !a.is_hide_set();
        for arg in command.get_arguments().filter(shown) {
            let id = arg.get_id().as_str();
            assert!(arg.get_help_heading().is_some(), "{path}: {id} has no heading");
        }
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            check(sub, &format!("{path} {}", sub.get_name()));
        }
    }

    #[test]
    fn every_option_has_a_heading() {
        check(&command(), "latlab");
    }

    #[cfg(feature = "host")]
    #[test]
    fn every_name_in_the_table_is_that_of_an_option() {
        let mut cli = command();
        let mut path = "";
        for line in GROUPS.trim().lines() {
            let Some((_, ids)) = line.split_once(": ") else {
                path = command_line(line).0;
                continue;
            };
            let found = find(&mut cli, path).unwrap_or_else(|| panic!("no command {path}"));
            for id in ids.split(' ') {
                assert!(found.get_arguments().any(|a| a.get_id() == id), "{path}: no {id}");
            }
        }
    }

    /// What a user reads: `--help` of a command, one heading after the other.
    #[test]
    fn options_stand_below_their_headings_the_most_used_first() {
        let mut cli = command();
        cli.build();
        let help = find(&mut cli, "wakeup").unwrap().render_long_help().to_string();
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
        assert!(at("\nMeasurement:\n") < at("--duration"));
        // In the order of the table, not of the definition.
        assert!(at("--duration") < at("--affinity") && at("--affinity") < at("--lock"));
        assert!(at("--lock") < at("\nLoad:\n") && at("\nLoad:\n") < at("\nOutput:\n"));
        assert!(!help.contains("\nOptions:\n") && !help.contains("--max-memory"), "{help}");
        assert!(help.contains("\nExamples:\n"));
        let short = find(&mut cli, "memory").unwrap().render_help().to_string();
        assert!(short.lines().count() <= 40 && !short.contains("Examples"), "{short}");
    }
}
