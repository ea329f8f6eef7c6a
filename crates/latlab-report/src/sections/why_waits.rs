//! Where the activations of a program wait, by its functions.

use crate::doc::{Block, Column, Table};
use latlab_model::latency::{UserFrame, WaitSite, WaitSites, Waits};
use latlab_model::units::format_ns;

/// Places of a table.
const SITES: usize = 8;
/// Functions of a cell.
const FUNCTIONS: usize = 3;

/// The table of places, and what is missing in it.
pub fn blocks(waits: Option<&WaitSites>) -> Vec<Block> {
    let Some(waits) = waits else { return Vec::new() };
    if let Some(error) = &waits.error {
        return vec![Block::Text(format!("No user stacks were recorded: {error}."))];
    }
    let mut blocks = Vec::new();
    let shown: Vec<&WaitSite> =
        (waits.sites.iter()).filter(|s| s.late.count > 0 || waits.late == 0).take(SITES).collect();
    if !shown.is_empty() {
        blocks.push(Block::Table(table(waits, &shown)));
    }
    if waits.without_stack > 0 {
        let n = waits.without_stack;
        let s = if n == 1 { "" } else { "s" };
        blocks.push(Block::Text(format!("{n} wait{s} of late activations without a user stack.")));
    } else if shown.is_empty() {
        let which = if waits.late > 0 { "late activation" } else { "activation" };
        blocks.push(Block::Text(format!("No {which} waits inside.")));
    }
    blocks
}

fn table(waits: &WaitSites, shown: &[&WaitSite]) -> Table {
    let mean = |w: &Waits, of: u64| match of {
        0 => "-".to_owned(),
        of => format_ns(w.total_ns as f64 / of as f64),
    };
    let row = |s: &&WaitSite| {
        let longest = if waits.late > 0 { s.late.longest_ns } else { s.on_time.longest_ns };
        vec![
            place(&s.stack),
            mean(&s.late, waits.late),
            mean(&s.on_time, waits.on_time),
            format_ns(longest as f64),
        ]
    };
    let more = match waits.sites.len() - shown.len() {
        0 => String::new(),
        _ => "; all places are in run.json".to_owned(),
    };
    Table {
        caption: format!(
            "Waits inside of activations in captures ({} late, {} on time), mean by place, innermost function first{more}",
            waits.late, waits.on_time
        ),
        columns: vec![
            Column::left("place"),
            Column::right("late"),
            Column::right("on time"),
            Column::right("longest"),
        ],
        rows: shown.iter().map(row).collect(),
    }
}

/// The innermost function that was not put into another one, and the next ones of the program; those of libraries
/// where there are none.
fn place(stack: &[UserFrame]) -> String {
    let first = stack.iter().position(|f| !f.inlined).unwrap_or(0);
    let (first, outer) = stack[first.min(stack.len())..].split_at(stack.len().min(1));
    let own: Vec<&UserFrame> =
        outer.iter().filter(|f| !f.is_library()).take(FUNCTIONS - 1).collect();
    let next = match own.is_empty() {
        true => outer.iter().take(FUNCTIONS - 1).collect(),
        false => own,
    };
    let all: Vec<String> = first.iter().chain(next).map(text).collect();
    all.join(" < ")
}

/// Of a library, its name in place of a line in it.
fn text(frame: &UserFrame) -> String {
    match frame.is_library() && !frame.function.starts_with('+') {
        true => format!("{} [{}]", frame.function, frame.object),
        false => frame.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, object: &str, place: &str) -> UserFrame {
        let [function, object, place] = [function, object, place].map(str::to_owned);
        UserFrame { function, object, place, inlined: false }
    }

    #[test]
    fn functions_of_the_program_come_before_those_of_libraries() {
        let all = [
            UserFrame { inlined: true, ..frame("futex_wait", "libc.so.6", "futex.h:146") },
            frame("lock_wait", "libc.so.6", "lock.c:49"),
            frame("pthread_mutex_lock", "libc.so.6", ""),
            UserFrame { inlined: true, ..frame("update", "loop", "loop.c:13") },
            frame("step", "loop", "loop.c:42"),
            frame("main", "loop", "loop.c:99"),
        ];
        assert_eq!(
            place(&all),
            "lock_wait [libc.so.6] < update (loop.c:13) (inlined) < step (loop.c:42)"
        );
        let library = ["a", "b", "c", "d"].map(|f| frame(f, "libc.so.6", "x.c:1"));
        assert_eq!(place(&library), "a [libc.so.6] < b [libc.so.6] < c [libc.so.6]");
        assert_eq!(place(&[frame("+0x1234", "loop", "")]), "loop+0x1234");
        assert_eq!(place(&[]), "");
    }

    #[test]
    fn a_place_is_compared_by_activation() {
        let waits = |count, total_ns| Waits { count, total_ns, longest_ns: total_ns };
        let site =
            |name, late, on_time| WaitSite { stack: vec![frame(name, "", "")], late, on_time };
        let sites = vec![
            site("read", waits(4, 8_000_000), waits(10, 1_000_000)),
            site("only_on_time", waits(0, 0), waits(3, 9_000)),
        ];
        let all = WaitSites { late: 4, on_time: 10, sites, ..WaitSites::default() };
        let [Block::Table(table)] = &blocks(Some(&all))[..] else { panic!("one table") };
        assert_eq!(table.rows, [["read", "2.00 ms", "100 µs", "8.00 ms"].map(str::to_owned)]);
        let none = WaitSites { error: Some("no permission".into()), ..WaitSites::default() };
        let [Block::Text(text)] = &blocks(Some(&none))[..] else { panic!("one sentence") };
        assert_eq!(text, "No user stacks were recorded: no permission.");
    }
}
