//! Reader of what the plugin of `latlab vm path` writes (docs/reference/vm-path.md).
//!
//! The file comes from a plugin inside QEMU, beside a guest that may be anything: numbers of blocks,
//! paths and steps are bounded, and each error names its line.

use std::collections::HashMap;

/// Blocks, steps of all paths and wake-ups that are read.
const BLOCKS_MAX: usize = 2_000_000;
const STEPS_MAX: usize = 20_000_000;
const WAKEUPS_MAX: usize = 10_000_000;
/// Paths; the plugin writes fewer.
const PATHS_MAX: usize = 1 << 16;

/// How control leaves a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaves {
    /// A jump, or the next instruction.
    #[default]
    Jump,
    /// A call.
    Call,
    /// A return.
    Return,
}

/// Instructions that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Address of the first.
    pub address: u64,
    /// Instructions in it.
    pub instructions: u32,
    /// How control leaves it.
    pub leaves: Leaves,
}

/// A block as it was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The block.
    pub block: Block,
    /// Instructions of it that were executed.
    pub executed: u64,
}

impl Step {
    /// Whether it was executed to its end.
    pub fn whole(&self) -> bool {
        self.executed >= u64::from(self.block.instructions)
    }
}

/// One wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    /// Latency as the measuring program told it, ns.
    pub latency_ns: u64,
    /// Executed instructions.
    pub instructions: u64,
    /// Index of its path; `None`: not kept.
    pub path: Option<usize>,
    /// Whether the CPU was idle when the timer expired.
    pub idle: bool,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathFile {
    /// QEMU's name of the architecture: `arm`, `x86_64`.
    pub arch: String,
    /// Different paths.
    pub paths: Vec<Vec<Step>>,
    /// Wake-ups in their order.
    pub wakeups: Vec<Wakeup>,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct FormatError {
    /// Line, from 1.
    pub line: usize,
    /// The reason.
    pub reason: &'static str,
}

/// Why a file with the state of interrupts has nothing to say.
pub(super) const STATE_UNKNOWN: &str = "the state of interrupts was not found in QEMU's CPU object";

/// Reads a file. A last line without its end is ignored: QEMU is killed at the end of a run.
///
/// # Errors
/// When a line is not understood, or there are more of one kind than expected.
pub fn read(text: &str) -> Result<PathFile, FormatError> {
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut reader = Reader::default();
    for (n, line) in complete.split('\n').enumerate() {
        let at = |reason| FormatError { line: n + 1, reason };
        if n == 0 {
            let arch = line.strip_prefix("latlab-path 1 ");
            reader.file.arch = arch.ok_or_else(|| at("not a path file of version 1"))?.to_owned();
        } else {
            reader.line(line).map_err(at)?;
        }
    }
    if reader.file.arch.is_empty() {
        return Err(FormatError { line: 1, reason: "not a path file of version 1" });
    }
    Ok(reader.file)
}

#[derive(Default)]
struct Reader {
    file: PathFile,
    blocks: HashMap<u32, Block>,
    steps: usize,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let mut words = line.split(' ');
        let kind = words.next().unwrap_or_default();
        let mut word = || words.next().ok_or("a word is missing");
        match kind {
            "B" => {
                let (id, address) = (number(word()?)?, hex(word()?)?);
                let block =
                    Block { address, instructions: number(word()?)?, leaves: leaves(word()?)? };
                self.blocks.insert(id, block);
                within(self.blocks.len(), BLOCKS_MAX, "too many blocks")
            }
            "P" => {
                let id: usize = number(word()?)?;
                self.file.paths.push(Vec::new());
                if id != self.file.paths.len() {
                    return Err("paths are not in order");
                }
                within(id, PATHS_MAX, "too many paths")
            }
            "S" => {
                let id = number(word()?)?;
                let block = *self.blocks.get(&id).ok_or("a block that no line before describes")?;
                let step = Step { block, executed: number(word()?)? };
                self.steps += 1;
                within(self.steps, STEPS_MAX, "too many steps")?;
                self.file.paths.last_mut().ok_or("a step before the first path")?.push(step);
                Ok(())
            }
            "W" => {
                let (latency_ns, instructions) = (number(word()?)?, number(word()?)?);
                let path: usize = number(word()?)?;
                if path > self.file.paths.len() {
                    return Err("a path that no line before describes");
                }
                let idle = match word()? {
                    "i" => true,
                    "b" => false,
                    _ => return Err("neither idle nor busy"),
                };
                let path = path.checked_sub(1);
                self.file.wakeups.push(Wakeup { latency_ns, instructions, path, idle });
                within(self.file.wakeups.len(), WAKEUPS_MAX, "too many wake-ups")
            }
            _ => Err("a line of an unknown kind"),
        }
    }
}

fn within(n: usize, most: usize, reason: &'static str) -> Result<(), &'static str> {
    if n <= most { Ok(()) } else { Err(reason) }
}

pub(super) fn number<T: std::str::FromStr>(word: &str) -> Result<T, &'static str> {
    word.parse().map_err(|_| "not a number")
}

pub(super) fn hex(word: &str) -> Result<u64, &'static str> {
    u64::from_str_radix(word, 16).map_err(|_| "not an address")
}

pub(super) fn leaves(word: &str) -> Result<Leaves, &'static str> {
    match word {
        "-" => Ok(Leaves::Jump),
        "c" => Ok(Leaves::Call),
        "r" => Ok(Leaves::Return),
        _ => Err("not a way to leave a block"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "latlab-path 1 arm\nB 1 c0100000 4 c\nB 2 c0200000 3 r\nP 1\nS 1 4\nS 2 3\n\
                        W 80 7 1 i 0\nW 81 7 1 i 0\nW 900 9 0 b 1\n";

    #[test]
    fn a_file_is_read() {
        let file = read(FILE).unwrap();
        assert_eq!((file.arch.as_str(), file.paths.len(), file.wakeups.len()), ("arm", 1, 3));
        assert_eq!(file.paths[0][1].block.leaves, Leaves::Return);
        assert_eq!(file.wakeups[1].path, Some(0));
        assert_eq!((file.wakeups[2].path, file.wakeups[2].idle), (None, false));
    }

    #[test]
    fn a_file_that_ends_anywhere_is_read_to_its_last_whole_line() {
        for end in FILE.find('\n').unwrap() + 1..FILE.len() {
            let file = read(&FILE[..end]).unwrap();
            assert!(file.wakeups.len() <= 3);
        }
        assert_eq!(read("latlab-pa").unwrap_err().line, 1);
    }

    #[test]
    fn an_error_names_its_line() {
        let wrong = [
            ("B 1 x 4 c", 2),
            ("B 1 c0100000 4 ?", 2),
            ("B 1 c0100000", 2),
            ("S 1 4", 2),
            ("P 2", 2),
            ("W 1 1 1 i 0", 2),
            ("W 1 1 0 x 0", 2),
            ("W -1 1 0 i 0", 2),
            ("X", 2),
            ("", 2),
            ("P 1\nS 7 1", 3),
        ];
        for (lines, line) in wrong {
            let error = read(&format!("latlab-path 1 arm\n{lines}\n")).unwrap_err();
            assert_eq!(error.line, line, "{lines}: {error}");
        }
        assert!(read("latlab-path 2 arm\n").is_err());
        assert!(read("").is_err());
    }
}
