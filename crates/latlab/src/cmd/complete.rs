//! `latlab generate --complete LINE`: words that continue a command line, for the shell.
//!
//! Commands, options and values that an option allows come from the command line's definition; names
//! of probes, machines, boards, events and runs from where they are defined. All shells ask the program;
//! a candidate is a line, its description follows behind a tab.

use crate::cli::command;
use crate::outcome::Outcome;
use crate::term;
use clap::builder::ValueHint;
use clap::{Arg, ArgAction, Command};
use latlab_sys::tracefs::Tracefs;
use std::io::Write;
use std::path::Path;

/// Bash's completion: the words of the program, and files where they are allowed. Bash splits words
/// at `:`, `=` and `@`, which the program does not, so that what is before them is cut off.
pub const BASH: &str = r#"_latlab() {
    local line=${COMP_LINE:0:COMP_POINT} candidates
    local word=${line##*[[:space:]]}
    local before=${word%"${word##*[:=@]}"}
    mapfile -t candidates < <("$1" generate --complete "$line" 2>/dev/null)
    COMPREPLY=()
    local candidate
    for candidate in "${candidates[@]}"; do
        candidate=${candidate%%$'\t'*}
        if [[ $candidate == ' files' ]]; then
            compopt -o filenames
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "${word#"$before"}")
        else
            COMPREPLY+=("${candidate#"$before"}")
        fi
    done
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=:/] ]]; then compopt -o nospace; fi
}
complete -F _latlab latlab
"#;

/// Zsh's completion, as [`BASH`], with descriptions. Zsh splits words where the program does.
pub const ZSH: &str = r#"#compdef latlab
_latlab() {
    local line candidate name
    local -a described open
    line="${(j: :)words[1,CURRENT-1]} $PREFIX"
    for candidate in "${(@f)$("${(Q)words[1]}" generate --complete "$line" 2>/dev/null)}"; do
        name=${candidate%%$'\t'*}
        case $name in
            '') ;;
            ' files') _files ;;
            *[=:/]) open+=("$name") ;;
            "$candidate") described+=("${name//:/\\:}") ;;
            *) described+=("${name//:/\\:}:${candidate#*$'\t'}") ;;
        esac
    done
    (( $#described )) && _describe latlab described
    (( $#open )) && compadd -S '' -- "${open[@]}"
    return 0
}
if [[ $funcstack[1] == _latlab ]]; then _latlab "$@"; else compdef _latlab latlab; fi
"#;

/// Fish's completion, as [`BASH`]; fish reads the descriptions as they are.
pub const FISH: &str = r#"function __latlab_complete
    set -l words (commandline -opc)
    set -l line (string join -- ' ' $words (commandline -ct))
    for candidate in ($words[1] generate --complete "$line" 2>/dev/null)
        if test "$candidate" = ' files'
            __fish_complete_path (commandline -ct)
        else
            echo $candidate
        end
    end
end
complete -c latlab -f -a '(__latlab_complete)'
"#;

/// Names that are not in the command line's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Targets,
    Machines,
    References,
    Probes,
    Boards,
    Steps,
    Loads,
    Runs,
    Sides,
    Events,
    Tracers,
}

/// Arguments that have such names: command, name of the field.
const NAMED: &[(&str, &str, Names)] = &[
    ("", "on", Names::Targets),
    ("", "load", Names::Loads),
    ("load", "loads", Names::Loads),
    ("bench", "names", Names::Probes),
    ("bench", "against", Names::References),
    ("compare", "runs", Names::Sides),
    ("compare", "base", Names::Sides),
    ("compare", "new", Names::Sides),
    ("report", "path", Names::Runs),
    ("view", "paths", Names::Runs),
    ("why", "files", Names::Runs),
    ("memory", "from", Names::Runs),
    ("sweep", "memory", Names::Runs),
    ("sweep", "resume", Names::Runs),
    ("history add", "runs", Names::Runs),
    ("history show", "run", Names::Runs),
    ("vm gate", "before", Names::Runs),
    ("vm gate", "after", Names::Runs),
    ("vm doctor", "names", Names::Machines),
    ("vm fetch", "names", Names::Machines),
    ("", "machine", Names::Machines),
    ("", "board", Names::Boards),
    ("survey", "steps", Names::Steps),
    ("record", "events", Names::Events),
    ("report", "event", Names::Events),
    ("record", "tracer", Names::Tracers),
];

/// A word, and its description, which may be empty.
type Candidate = (String, String);

/// Prints a candidate a line; ` files` stands for files.
///
/// # Errors
/// The writer's.
pub fn run(line: &str) -> anyhow::Result<Outcome> {
    let mut out = term::stdout();
    for (word, description) in candidates(&command(), line, &names) {
        let tab = if description.is_empty() { "" } else { "\t" };
        writeln!(out, "{word}{tab}{description}")?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// Where the cursor stands.
struct Place<'a> {
    command: &'a Command,
    path: String,
    positionals: usize,
    /// The option whose value follows.
    option: Option<&'a Arg>,
}

/// The words that continue `line`, whose last word may be empty.
fn candidates(cli: &Command, line: &str, names: &dyn Fn(Names) -> Vec<String>) -> Vec<Candidate> {
    let mut words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let last = if line.ends_with(char::is_whitespace) { "" } else { words.pop().unwrap_or("") };
    if words.contains(&"--") {
        return vec![files()];
    }
    let mut place = Place { command: cli, path: String::new(), positionals: 0, option: None };
    words.iter().for_each(|word| place.pass(cli, word));
    let mut found = Vec::new();
    if let Some(option) = place.option {
        values(option, &place.path, "", names, &mut found);
    } else if let Some((name, _)) = last.split_once('=').filter(|_| last.starts_with("--")) {
        if let Some(option) = options(cli, place.command).find(|a| long(a) == name) {
            values(option, &place.path, &format!("{name}="), names, &mut found);
        }
    } else if last.starts_with('-') {
        let named = options(cli, place.command).filter(|arg| arg.get_long().is_some());
        found.extend(named.map(|arg| (long(arg), described(arg.get_help()))));
    } else {
        let visible = place.command.get_subcommands().filter(|sub| !sub.is_hide_set());
        found.extend(visible.map(|sub| (sub.get_name().to_owned(), described(sub.get_about()))));
        let all: Vec<&Arg> = place.command.get_positionals().collect();
        // The last positional may stand for several words.
        let several = |arg: &&&Arg| matches!(arg.get_action(), ArgAction::Append);
        let at = all.get(place.positionals).or_else(|| all.last().filter(several));
        if let Some(positional) = at.filter(|arg| !arg.is_last_set()) {
            values(positional, &place.path, "", names, &mut found);
        }
    }
    found.retain(|(word, _)| word == " files" || word.starts_with(last));
    found
}

fn files() -> Candidate {
    (" files".into(), String::new())
}

/// The first line of a help text, which has no tab.
fn described(help: Option<&clap::builder::StyledStr>) -> String {
    let text = help.map(ToString::to_string).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    line.trim_end_matches('.').replace('\t', " ")
}

impl<'a> Place<'a> {
    fn pass(&mut self, cli: &'a Command, word: &str) {
        if self.option.take().is_some() {
            return;
        }
        let takes = |arg: &&Arg| arg.get_action().takes_values();
        if word.starts_with("--") {
            let mut options = options(cli, self.command);
            self.option = options.find(|arg| long(arg) == word).filter(takes);
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            let letter = letters.chars().next_back();
            let by_letter = |arg: &&Arg| arg.get_short() == letter;
            self.option = options(cli, self.command).find(by_letter).filter(takes);
        } else if let Some(sub) = self.command.find_subcommand(word) {
            self.command = sub;
            self.path = format!("{} {word}", self.path).trim_start().to_owned();
        } else {
            self.positionals += 1;
        }
    }
}

/// A command's visible options, and the general ones that have an effect there.
fn options<'a>(cli: &'a Command, command: &'a Command) -> impl Iterator<Item = &'a Arg> {
    let own = |arg: &&Arg| command.get_arguments().any(|a| a.get_id() == arg.get_id());
    let general = cli.get_arguments().filter(move |arg| !own(arg) && arg.is_global_set());
    let top = std::ptr::eq(cli, command);
    let all = command.get_arguments().chain(general.filter(move |_| !top));
    all.filter(|arg| !arg.is_positional() && !arg.is_hide_set())
}

fn long(arg: &Arg) -> String {
    format!("--{}", arg.get_long().unwrap_or_default())
}

fn values(
    arg: &Arg,
    path: &str,
    before: &str,
    names: &dyn Fn(Names) -> Vec<String>,
    found: &mut Vec<Candidate>,
) {
    let possible = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
    found.extend(possible.map(|v| (format!("{before}{}", v.get_name()), described(v.get_help()))));
    let id = arg.get_id().as_str();
    let named = NAMED.iter().find(|(command, name, _)| *name == id && *command == path);
    let named =
        named.or_else(|| NAMED.iter().find(|(command, name, _)| *name == id && command.is_empty()));
    if let Some((_, _, kind)) = named {
        let plain = |name: String| (format!("{before}{name}"), String::new());
        found.extend(names(*kind).into_iter().map(plain));
    }
    if arg.get_value_hint() == ValueHint::AnyPath {
        found.push(files());
    }
}

/// The names on this machine.
fn names(kind: Names) -> Vec<String> {
    let tracefs = || {
        // A completion mounts nothing.
        let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        Tracefs::at(
            places.into_iter().find(|p| Path::new(p).join("events").exists()).unwrap_or(places[0]),
        )
    };
    let machines = || latlab_target::vm::catalog::KINDS.iter().map(|kind| kind.name.to_owned());
    match kind {
        Names::Targets => {
            let targets = machines().map(|name| format!("vm:{name}"));
            targets.chain(["ssh://".to_owned(), "local".to_owned()]).collect()
        }
        Names::Machines => machines().collect(),
        Names::References => references(),
        Names::Probes => probes(),
        Names::Boards => latlab_image::board::ours().into_iter().map(|board| board.name).collect(),
        Names::Steps => super::survey::step_names().map(str::to_owned).collect(),
        Names::Loads => super::load::kinds().map(str::to_owned).collect(),
        Names::Runs => runs(Path::new("runs")),
        Names::Sides => runs(Path::new("runs")).into_iter().chain(references()).collect(),
        Names::Events => {
            let events = tracefs().events().unwrap_or_default();
            let mut names: Vec<String> = events.iter().map(ToString::to_string).collect();
            names.extend(events.into_iter().map(|event| event.system));
            names.sort();
            names.dedup();
            names
        }
        Names::Tracers => tracefs().tracers().unwrap_or_default(),
    }
}

fn references() -> Vec<String> {
    latlab_model::reference::REFERENCES.iter().map(|machine| format!("@{}", machine.id)).collect()
}

/// Probes, their families, and the programs of lmbench.
fn probes() -> Vec<String> {
    let mut names = Vec::new();
    for probe in latlab_sys::probe::registry::all() {
        names.push(probe.name.to_owned());
        names.extend(probe.name.split('.').next().map(str::to_owned));
        names.extend(probe.lmbench.split(' ').next().map(str::to_owned));
    }
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}

/// Whether a name stands for itself on a command line of every shell: bash and zsh insert candidates as they are, and
/// another user may have named a directory.
fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || "/._-+:@=,%".contains(c))
}

/// Directories of runs below `folder` whose names need no quotes; the others come with the shell's files.
fn runs(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut runs: Vec<String> = entries
        .map(|entry| entry.path())
        .filter(|path| path.join("run.json").is_file())
        .map(|path| path.display().to_string())
        .filter(|name| is_plain(name))
        .collect();
    runs.sort();
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> String {
        let names = |kind| match kind {
            Names::Events => vec!["irq".into(), "sched".into(), "sched:sched_switch".into()],
            Names::Runs => vec!["runs/a".into(), "runs/b".into()],
            other => super::names(other),
        };
        let found = candidates(&command(), line, &names);
        found.into_iter().map(|(word, _)| word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn commands_and_options_have_a_description_of_one_line() {
        for line in ["latlab ", "latlab wakeup --", "latlab vm "] {
            let found = candidates(&command(), line, &|_| Vec::new());
            let named = found.iter().filter(|(word, _)| word != " files");
            for (word, description) in named {
                assert!(!description.is_empty(), "{line}{word}");
                assert!(!description.contains(['\n', '\t']), "{word}: {description}");
            }
        }
    }

    #[test]
    fn commands_options_and_values_come_from_the_definition() {
        assert_eq!(of("latlab wak"), "wakeup");
        assert_eq!(of("latlab vm d"), "doctor");
        assert_eq!(of("latlab wakeup --prio"), "--priority --priospread");
        assert_eq!(of("latlab wakeup --format x"), "xenomai");
        assert_eq!(of("latlab wakeup --format=x"), "--format=xenomai");
        assert_eq!(of("latlab wakeup --policy r"), "rr");
        assert!(of("latlab wakeup --").contains("--out"), "a general option");
        assert!(!of("latlab report --").contains("--out"), "one without effect");
        assert!(!of("latlab ").contains("load-worker"));
    }

    #[test]
    fn names_are_completed_where_they_are_meant() {
        assert_eq!(of("latlab --on vm:armv7-"), "vm:armv7-rt");
        assert!(of("latlab vm run x86").split(' ').any(|name| name == "x86_64-rt"));
        assert_eq!(of("latlab compare runs/a @beaglebone-b"), "@beaglebone-black-2015  files");
        assert_eq!(of("latlab bench syscall.rea"), "syscall.read");
        assert_eq!(of("latlab bench --against @beaglebone-b"), "@beaglebone-black-2015");
        assert_eq!(of("latlab bench lat_sys"), "lat_syscall");
        assert_eq!(of("latlab record -e sched:"), "sched:sched_switch");
        assert_eq!(of("latlab record -D 5 -e s"), "sched sched:sched_switch");
        assert_eq!(of("latlab report run"), "runs/a runs/b  files");
        assert_eq!(of("latlab history add runs/a runs/"), "runs/a runs/b  files");
        assert_eq!(of("latlab image --board beaglebone-b"), "beaglebone-black");
        assert_eq!(of("latlab survey --step wakeup-c"), "wakeup-cpu");
        assert_eq!(of("latlab wakeup --load pagec"), "pagecache");
        assert_eq!(of("latlab record -e sched -- ./prog a"), " files");
    }

    #[test]
    fn a_directory_whose_name_is_a_command_is_not_offered() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("runs");
        let names = [
            "2026-11-24T230000-host-wakeup",
            "über",
            "a;b",
            "$(id)",
            "`id`",
            "a b",
            "\x1b]0;x\x07",
            "a\nb",
        ];
        for name in names {
            std::fs::create_dir_all(folder.join(name)).unwrap();
            std::fs::write(folder.join(name).join("run.json"), "{}").unwrap();
        }
        let found: Vec<String> = runs(&folder);
        let found: Vec<&str> = found.iter().map(|n| n.rsplit('/').next().unwrap()).collect();
        assert_eq!(found, ["2026-11-24T230000-host-wakeup", "über"]);
    }

    #[test]
    fn every_argument_with_names_is_there() {
        let cli = command();
        for (path, id, kind) in NAMED.iter().filter(|(path, ..)| !path.is_empty()) {
            let found = path.split(' ').try_fold(&cli, |at, word| at.find_subcommand(word));
            let found = found.unwrap_or_else(|| panic!("no command {path}"));
            assert!(found.get_arguments().any(|a| a.get_id() == id), "{path} {id} {kind:?}");
        }
    }
}
