//! Settings that were tried: one row each, and the same as configuration files.

use crate::doc::{Block, Column, Section, Table};
use crate::values::{change, quantile_name};
use latlab_model::run::Part;
use latlab_model::tune::{
    Factorial, Interaction, SideEffect, SideMetric, Tried, TuneDetail, TuneEffect,
};
use latlab_model::units::format_ns;
use std::fmt::Write;

/// The sections of a `tune` part.
pub fn sections(part: &Part, d: &TuneDetail) -> Vec<Section> {
    let mut blocks = Vec::new();
    if !part.complete {
        blocks
            .push(Block::Warning("The measurement ended early; fewer rounds decide less.".into()));
    }
    blocks.push(Block::Findings(part.findings.clone()));
    blocks.push(Block::Table(table(d)));
    blocks.extend([together(d), pairs(d), side(d)].into_iter().flatten().map(Block::Table));
    blocks.extend(d.factorial.as_ref().map(|f| Block::Text(assumption(f).to_owned())));
    let (sysctl, tuned) = (sysctl(d), tuned(d));
    if !sysctl.is_empty() {
        blocks.push(Block::Heading("sysctl.d".into()));
        blocks.push(Block::Pre(sysctl));
    }
    let cmdline = cmdline(d);
    if !cmdline.is_empty() {
        blocks.push(Block::Heading("Boot parameters".into()));
        blocks.push(Block::Pre(cmdline));
    }
    if tuned.lines().count() > 2 {
        blocks.push(Block::Heading("tuned profile".into()));
        blocks.push(Block::Pre(tuned));
    }
    vec![Section { id: part.name.clone(), title: part.title.clone(), blocks }]
}

/// The first screen.
pub fn screen(d: &TuneDetail) -> Vec<Block> {
    let table = |t: Option<Table>| t.map(Block::Table);
    let blocks =
        [table(Some(self::table(d))), table(together(d)), pairs(d).map(decided), table(side(d))];
    blocks.into_iter().flatten().collect()
}

/// The result in words.
pub fn summary(d: &TuneDetail) -> Vec<String> {
    let helps: Vec<&str> = improving(d).map(|t| t.name.as_str()).collect();
    let single = d.tried.iter().filter(|t| t.together.is_none()).count();
    let of = format!("{} of {single} settings", helps.len());
    let names = if helps.is_empty() { String::new() } else { format!(": {}", helps.join(", ")) };
    let mut lines =
        vec![format!("{of} shorten the {} of wake-up latency{names}.", quantile_name(d.quantile))];
    if let Some(requirement) = &d.requirement {
        let (blocks, met) = d.met_without;
        lines.push(format!(
            "{}: met in {met} of {blocks} blocks without any setting.",
            requirement.text
        ));
    }
    if let Some(design) = d.factorial.as_ref().filter(|f| !f.best.is_empty()) {
        lines.push(format!(
            "Together: {} against no setting, by the effects that are decided.",
            change(design.best_change)
        ));
    }
    lines
}

/// What a design takes to be nothing.
fn assumption(design: &Factorial) -> &'static str {
    match design.interactions.iter().any(|i| i.pairs.len() > 1) {
        true => {
            "Effects that only three and more settings have together are taken to be none, and pairs on one line have one estimate: try one of them with --together to tell them apart."
        }
        false => {
            "An effect is the mean over the combinations of the other settings; effects that only three and more settings have together are taken to be none."
        }
    }
}

/// Pairs of settings of a factorial design; none for others.
fn pairs(d: &TuneDetail) -> Option<Table> {
    let design = d.factorial.as_ref()?;
    let row = |i: &Interaction| {
        let names: Vec<String> = i.pairs.iter().map(|(a, b)| [a, "+", b].concat()).collect();
        vec![
            names.join(" or "),
            change(i.change),
            interval(i.interval),
            format!("{:.3}", i.p),
            interaction(i.effect).to_owned(),
        ]
    };
    let columns = vec![
        Column::left("pair"),
        Column::right("difference"),
        Column::right("95 % for all"),
        Column::right("p").optional(1),
        Column::left("interaction"),
    ];
    let rows = design.interactions.iter().map(row).collect();
    let caption = "Change of both settings against that of their single changes multiplied".into();
    Some(Table { caption, columns, rows })
}

/// Of the pairs, those that differ from their single changes.
fn decided(mut pairs: Table) -> Block {
    let all = pairs.rows.len();
    pairs.rows.retain(|row| row.last().is_some_and(|e| e.ends_with("together")));
    match pairs.rows.len() {
        0 => Block::Text(format!("Interactions: none of {all} is claimed.")),
        some => {
            pairs.caption = format!("{} ({some} of {all}, those that differ)", pairs.caption);
            Block::Table(pairs)
        }
    }
}

fn interaction(effect: TuneEffect) -> &'static str {
    match effect {
        TuneEffect::Improves => "shorter together",
        TuneEffect::Worsens => "longer together",
        TuneEffect::NoEffect => "none",
        _ => "not decided",
    }
}

fn improving(d: &TuneDetail) -> impl Iterator<Item = &Tried> {
    d.improving().into_iter()
}

/// An interval of a change. That of two blocks and a heavy tail excludes nothing.
fn interval((low, high): (f64, f64)) -> String {
    if low <= -0.99 && high >= 99.0 {
        return "too few blocks".to_owned();
    }
    format!("{} to {}", change(low), change(high))
}

/// Settings together beside their single effects; none where none were tried together.
fn together(d: &TuneDetail) -> Option<Table> {
    let columns = vec![
        Column::left("settings"),
        Column::right("of single effects"),
        Column::right("together"),
        Column::right("difference"),
        Column::right("95 % for all"),
        Column::right("p").optional(1),
        Column::left("interaction"),
    ];
    let row = |t: &Tried| {
        let joint = t.together.as_ref()?;
        Some(vec![
            t.name.clone(),
            change(joint.expected),
            change(t.change),
            change(joint.change),
            interval(joint.interval),
            format!("{:.3}", joint.p),
            interaction(joint.effect).to_owned(),
        ])
    };
    let rows: Vec<Vec<String>> = d.tried.iter().filter_map(row).collect();
    let caption =
        "Changes of settings together, and that of their single changes multiplied".into();
    (!rows.is_empty()).then_some(Table { caption, columns, rows })
}

/// Side effects, one row for each setting and metric; none where none was measured.
fn side(d: &TuneDetail) -> Option<Table> {
    let columns = vec![
        Column::left("setting"),
        Column::left("metric"),
        Column::right("change"),
        Column::right("95 % for all"),
        Column::right("p").optional(1),
        Column::left("effect"),
    ];
    let of = |t: &Tried| -> Vec<Vec<String>> {
        let one = |(s, metric): (&SideEffect, &SideMetric)| {
            let effect = match s.effect {
                TuneEffect::Improves => "better",
                TuneEffect::Worsens => "worse",
                TuneEffect::NoEffect => "no effect",
                _ => "not decided",
            };
            vec![
                t.name.clone(),
                metric.name.clone(),
                change(s.change),
                interval(s.interval),
                format!("{:.3}", s.p),
                effect.to_owned(),
            ]
        };
        match t.effect {
            TuneEffect::NotTried => Vec::new(),
            _ => t.side.iter().zip(&d.side).map(one).collect(),
        }
    };
    let rows: Vec<Vec<String>> = d.tried.iter().flat_map(of).collect();
    let caption =
        "Side effects: mean power and median of each benchmark, with the setting against without"
            .into();
    (!rows.is_empty()).then_some(Table { caption, columns, rows })
}

fn table(d: &TuneDetail) -> Table {
    let mut columns = vec![
        Column::left("setting"),
        Column::left("effect"),
        Column::right("without"),
        Column::right("with"),
        Column::right("change"),
        Column::right("95 % for all settings"),
        Column::right("p").optional(1),
        Column::left(if d.boot.is_some() { "machine" } else { "state" }).optional(2),
    ];
    // With elimination the numbers of blocks differ.
    let fewer = d.factorial.is_none() && d.tried.iter().any(|t| (1..d.rounds).contains(&t.rounds));
    if fewer {
        columns.insert(2, Column::right("blocks"));
    }
    if let Some(requirement) = &d.requirement {
        columns.insert(columns.len() - 1, Column::right(["meets ", &requirement.text].concat()));
    }
    let row = |t: &Tried| {
        let effect = match t.effect {
            TuneEffect::Improves => "improves",
            TuneEffect::Worsens => "worsens",
            TuneEffect::NoEffect => "no effect",
            TuneEffect::Undecided => "not decided",
            TuneEffect::NotTried => "not tried",
        };
        if t.effect == TuneEffect::NotTried || !t.is_compared() {
            let mut cells = vec![t.name.clone(), effect.into()];
            cells.resize(columns.len(), String::new());
            return cells;
        }
        let mut cells = vec![
            t.name.clone(),
            effect.into(),
            format_ns(t.response_ns.0),
            format_ns(t.response_ns.1),
            change(t.change),
            interval(t.interval),
            format!("{:.3}", t.p),
            match (t.applied, &d.boot) {
                (true, _) => "applied".into(),
                (false, None) => "restored".into(),
                (false, Some(machine)) => machine.clone(),
            },
        ];
        if let Some(met) = t.met {
            cells.insert(cells.len() - 1, format!("{met} of {}", t.rounds));
        }
        if fewer {
            cells.insert(2, t.rounds.to_string());
        }
        cells.resize(columns.len(), String::new());
        cells
    };
    let rows = d.tried.iter().map(row).collect();
    let number = match (&d.factorial, fewer) {
        (Some(design), _) => format!("{} rounds of {}", d.rounds, design.runs),
        (None, true) => format!("up to {}", d.rounds),
        (None, false) => d.rounds.to_string(),
    };
    let (quantile, length) = (quantile_name(d.quantile), format_ns(d.block_ns as f64));
    let caption = format!("{quantile} of wake-up latency in {number} blocks of {length} each");
    Table { caption, columns, rows }
}

/// The boot parameters that improve the response, on one line. Without a factorial design each was tried alone.
pub fn cmdline(d: &TuneDetail) -> String {
    // A run of an earlier version has boot parameters only, and by their names.
    let named =
        d.boot.is_some() && d.tried.iter().all(|t| t.parameters.is_empty() && t.files.is_empty());
    let names: Vec<String> = match named {
        true => improving(d).map(|t| t.name.replace('+', " ")).collect(),
        false => improving(d).flat_map(|t| t.parameters.clone()).collect(),
    };
    if names.is_empty() { String::new() } else { names.join(" ") + "\n" }
}

/// The settings that improve the response as a file of sysctl.d.
pub fn sysctl(d: &TuneDetail) -> String {
    let mut out = String::new();
    for file in improving(d).flat_map(|t| &t.files) {
        if let Some(command) = &file.command {
            let _ = writeln!(out, "# a command, not a sysctl: {command}");
        } else if let Some(name) = file.path.strip_prefix("/proc/sys/") {
            let _ = writeln!(out, "{} = {}", name.replace('/', "."), file.value);
        } else {
            let _ = writeln!(out, "# not a sysctl: {} {}", file.path, file.value);
        }
    }
    out
}

/// The settings that improve the response as a file of systemd's tmpfiles.d(5), which writes them at each boot: those
/// below `/proc/sys` and those below `/sys`. Commands are comments in it.
pub fn tmpfiles(d: &TuneDetail) -> String {
    let mut out = String::new();
    for file in improving(d).flat_map(|t| &t.files) {
        if let Some(command) = &file.command {
            let _ = writeln!(out, "# a command, to be run at each boot: {command}");
            continue;
        }
        let _ = writeln!(out, "w {} - - - - {}", file.path, file.value.replace('%', "%%"));
    }
    out
}

/// The settings that improve the response as tasks of Ansible: a file of tmpfiles.d, and boot parameters of a Debian
/// machine with GRUB.
pub fn ansible(d: &TuneDetail) -> String {
    let (files, cmdline) = (tmpfiles(d), cmdline(d));
    let mut out = String::new();
    let mut copy = |what: &str, dest: &str, content: &str, apply: &str| {
        let indented: String = content.lines().map(|line| format!("      {line}\n")).collect();
        let _ = write!(
            out,
            "- name: {what}\n  ansible.builtin.copy:\n    dest: {dest}\n    mode: \"0644\"\n    content: |\n{indented}  register: latlab_file\n- name: {what}, applied\n  ansible.builtin.command: {apply}\n  when: latlab_file is changed\n"
        );
    };
    if files.lines().any(|line| !line.starts_with('#')) {
        let dest = "/etc/tmpfiles.d/latlab.conf";
        let apply = format!("systemd-tmpfiles --create {dest}");
        copy("Settings that shorten wake-up latency", dest, &files, &apply);
    }
    if !cmdline.is_empty() {
        let content = format!(
            "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {}\"",
            cmdline.trim_end()
        );
        let what = "Boot parameters that shorten wake-up latency";
        copy(what, "/etc/default/grub.d/latlab.cfg", &content, "update-grub");
    }
    for command in commands(d) {
        let _ = write!(
            out,
            "- name: Setting that shortens wake-up latency, until the next boot\n  ansible.builtin.shell: |\n      {command}\n"
        );
    }
    out
}

/// Commands that set what is no file, each once.
fn commands(d: &TuneDetail) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for command in improving(d).flat_map(|t| &t.files).filter_map(|f| f.command.as_deref()) {
        if !all.contains(&command) {
            all.push(command);
        }
    }
    all
}

/// The settings that improve the response as a profile of tuned.
pub fn tuned(d: &TuneDetail) -> String {
    let mut out =
        "[main]\nsummary=settings that latlab tune found to shorten wake-up latency\n".to_owned();
    let sysctl = sysctl(d);
    let sysctl: Vec<&str> = sysctl.lines().filter(|line| !line.starts_with('#')).collect();
    if !sysctl.is_empty() {
        let _ = write!(out, "\n[sysctl]\n{}\n", sysctl.join("\n").replace(" = ", "="));
    }
    let files: Vec<_> = improving(d)
        .flat_map(|t| &t.files)
        .filter(|f| f.command.is_none() && f.path.starts_with("/sys/"))
        .collect();
    if !files.is_empty() {
        out += "\n[sysfs]\n";
        for file in files {
            let _ = writeln!(out, "{}={}", file.path, file.value);
        }
    }
    let cmdline = cmdline(d);
    if !cmdline.is_empty() {
        out += &format!("\n[bootloader]\ncmdline_latlab=+{cmdline}");
    }
    for command in commands(d) {
        let _ = writeln!(out, "# not a setting of tuned: {command}");
    }
    if improving(d).any(|t| t.name == "idle=shallow") {
        out += "\n[cpu]\nforce_latency=0\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::tune::FileValue;

    fn detail(boot: Option<&str>, settings: &[(&str, &str, &str, TuneEffect)]) -> TuneDetail {
        let tried = |&(name, path, value, effect): &(&str, &str, &str, TuneEffect)| Tried {
            name: name.into(),
            files: match path {
                "" => Vec::new(),
                _ => vec![FileValue {
                    path: path.into(),
                    value: value.into(),
                    before: "x".into(),
                    command: path.starts_with("irq/").then(|| "chrt x".into()),
                }],
            },
            effect,
            ..Tried::default()
        };
        TuneDetail {
            boot: boot.map(str::to_owned),
            tried: settings.iter().map(tried).collect(),
            ..TuneDetail::default()
        }
    }

    #[test]
    fn settings_that_improve_are_in_the_file_of_each_tool() {
        let governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        let d = detail(
            None,
            &[
                ("stat", "/proc/sys/vm/stat_interval", "10", TuneEffect::Improves),
                ("governor", governor, "performance", TuneEffect::Improves),
                ("watchdog", "/proc/sys/kernel/nmi_watchdog", "0", TuneEffect::Worsens),
            ],
        );
        let not = format!("# not a sysctl: {governor} performance\n");
        assert_eq!(sysctl(&d), format!("vm.stat_interval = 10\n{not}"));
        let files =
            format!("w /proc/sys/vm/stat_interval - - - - 10\nw {governor} - - - - performance\n");
        assert_eq!(tmpfiles(&d), files);
        let profile = tuned(&d);
        assert!(profile.contains("[sysctl]\nvm.stat_interval=10\n"), "{profile}");
        assert!(profile.contains(&format!("[sysfs]\n{governor}=performance\n")), "{profile}");
        assert!(!profile.contains('#') && !profile.contains("watchdog"), "{profile}");
        let tasks = ansible(&d);
        assert!(tasks.contains("      w /proc/sys/vm/stat_interval - - - - 10\n"), "{tasks}");
        assert!(tasks.contains("systemd-tmpfiles --create /etc/tmpfiles.d/latlab.conf"), "{tasks}");
        assert!(!tasks.contains("grub"), "{tasks}");
    }

    #[test]
    fn what_is_no_file_is_a_command_in_each_format() {
        let thread = ("irq-threads=eth0:80", "irq/27-eth0", "fifo 80", TuneEffect::Improves);
        let d = detail(None, &[thread]);
        assert_eq!(sysctl(&d), "# a command, not a sysctl: chrt x\n");
        assert_eq!(tmpfiles(&d), "# a command, to be run at each boot: chrt x\n");
        assert!(tuned(&d).ends_with("# not a setting of tuned: chrt x\n"), "{}", tuned(&d));
        let tasks = ansible(&d);
        assert!(tasks.contains("ansible.builtin.shell: |\n      chrt x\n"), "{tasks}");
        assert!(!tasks.contains("tmpfiles"), "{tasks}");
    }

    #[test]
    fn boot_parameters_that_improve_are_on_one_line() {
        let boot = |name, effect| (name, "", "", effect);
        let d = detail(
            Some("x86_64-rt"),
            &[
                boot("isolcpus=1+nohz_full=1", TuneEffect::Improves),
                boot("idle=poll", TuneEffect::Undecided),
                boot("threadirqs", TuneEffect::Improves),
            ],
        );
        assert_eq!(cmdline(&d), "isolcpus=1 nohz_full=1 threadirqs\n");
        let tasks = ansible(&d);
        let line = "$GRUB_CMDLINE_LINUX_DEFAULT isolcpus=1 nohz_full=1 threadirqs\"\n";
        assert!(tasks.contains(line) && tasks.contains("update-grub"), "{tasks}");
        assert_eq!(ansible(&detail(None, &[])), "");
    }

    #[test]
    fn an_interval_that_excludes_nothing_is_none() {
        assert_eq!(interval((-0.02, 0.05)), "-2.0 % to +5.0 %");
        assert_eq!(interval((-0.999, 4.6e9)), "too few blocks");
    }
}
