//! Options of trace-cmd 3.x.

use super::spelling::Means::{Always, Ignored, IgnoredUnless, Refused, Words};
use super::spelling::Takes::{Glued, Nothing, OnlyWithout, Value};
use super::spelling::{Spelling, spelling};

const OWN_BUFFER: &str = "an ftrace instance of its own is used and removed";
const READER: &str = "each CPU's ring buffer is read whenever it has pages";
const REMOTE: &str = "to record another machine, use latlab --on ssh://USER@BOARD record";
const PROFILE: &str = "latlab sched FILE and latlab why FILE analyse the trace";
const CLOCK: &str = "time stamps are those of the clock that -C names";
const MODULES: &str = "name the module's functions with -l";

pub(super) const RECORD: &[Spelling] = &[
    spelling("D", OnlyWithout, Ignored(OWN_BUFFER)),
    spelling("d", Nothing, Ignored(OWN_BUFFER)),
    spelling("k", Nothing, Ignored(OWN_BUFFER)),
    spelling("B", Value, Ignored("all events are recorded in one ftrace instance")),
    spelling("m", Value, Ignored("the file's size is not limited; --last MB keeps the end")),
    spelling("s", Value, Ignored(READER)),
    spelling("r", Value, Ignored(READER)),
    spelling("poll", Nothing, Ignored(READER)),
    spelling("i", Nothing, Ignored("an event that does not exist is an error")),
    spelling("q quiet", Nothing, Ignored("it prints a summary only")),
    spelling("date", Nothing, Ignored(CLOCK)),
    spelling("tsc2nsec", Nothing, Ignored(CLOCK)),
    spelling("tsync-interval", Value, Ignored(CLOCK)),
    spelling("temp", Value, Ignored("no temporary file is written")),
    spelling("module", Value, Ignored(MODULES)),
    spelling("cmdlines-size", Value, Ignored("the names of all tasks are recorded")),
    spelling("no-filter", Nothing, Always),
    spelling("proc-map", Nothing, Ignored("addresses of user space are not resolved")),
    spelling("S", Nothing, Ignored(PROFILE)),
    spelling("G", Nothing, Ignored(PROFILE)),
    spelling("H", Value, Ignored(PROFILE)),
    spelling("profile", Nothing, Ignored(PROFILE)),
    spelling("by-comm", Nothing, Ignored(PROFILE)),
    spelling("func-stack", Nothing, Words("-Ofunc_stack_trace")),
    spelling("file-version", Value, IgnoredUnless(&["7"], "--v6 writes version 6")),
    spelling("v", Nothing, Refused("events cannot be excluded; name those that are meant with -e")),
    spelling("N", Value, Refused(REMOTE)),
    spelling("V", Value, Refused(REMOTE)),
    spelling("A", Value, Refused(REMOTE)),
    spelling("t", Nothing, Always),
    spelling("name", Value, Refused(REMOTE)),
    spelling("proxy", Value, Refused(REMOTE)),
    spelling("user", Value, Refused("to change the user, record -- setpriv --reuid USER COMMAND")),
];

const WHOLE_FILE: &str = "latlab report --stat FILE prints what the file has";
const PLUGINS: &str = "plug-ins are not loaded; their text is built in";
const FLAGS: &str = "use -F 'EVENT : common_flags & 0x18 == 0' (8: interrupt, 0x10: softirq)";
const TIMES: &str = "time stamps are printed as recorded";

pub(super) const REPORT: &[Spelling] = &[
    spelling("i", Value, Words("{}")),
    spelling("e", OnlyWithout, Ignored(WHOLE_FILE)),
    spelling("f", Nothing, Ignored(WHOLE_FILE)),
    spelling("P", OnlyWithout, Ignored(WHOLE_FILE)),
    spelling("E", Nothing, Ignored(WHOLE_FILE)),
    spelling("T", Nothing, Ignored(WHOLE_FILE)),
    spelling("cpus", Nothing, Words("--stat")),
    spelling("first-event", Nothing, Words("--stat")),
    spelling("last-event", Nothing, Words("--stat")),
    spelling("check-events", Nothing, Ignored(WHOLE_FILE)),
    spelling("uname", Nothing, Ignored(WHOLE_FILE)),
    spelling("I", Nothing, Ignored(FLAGS)),
    spelling("S", Nothing, Ignored(FLAGS)),
    spelling("L", Nothing, Ignored(PLUGINS)),
    spelling("O", Value, Ignored(PLUGINS)),
    spelling("n", Value, Ignored(PLUGINS)),
    spelling("r", Value, Ignored("-R prints the fields of all events")),
    spelling("V", Glued, Ignored("damage of the file is always reported")),
    spelling("verbose", Glued, Ignored("damage of the file is always reported")),
    spelling("q", Nothing, Ignored("damage of the file is always reported")),
    spelling("w", Nothing, Ignored("latlab why FILE analyses wake-ups")),
    spelling("G", Nothing, Ignored(PROFILE)),
    spelling("H", Value, Ignored(PROFILE)),
    spelling("profile", Nothing, Ignored(PROFILE)),
    spelling("by-comm", Nothing, Ignored(PROFILE)),
    spelling("ts-offset", Value, Ignored(TIMES)),
    spelling("ts2secs", Value, Ignored(TIMES)),
    spelling("ts-diff", Nothing, Ignored(TIMES)),
    spelling("ts-check", Nothing, Ignored(TIMES)),
    spelling("align-ts", Nothing, Ignored(TIMES)),
    spelling("raw-ts", Nothing, Ignored(TIMES)),
    spelling("nodate", Nothing, Ignored(TIMES)),
    spelling("v", Nothing, Refused("negate the filter instead: -F 'EVENT : !(EXPRESSION)'")),
];
