//! A campaign as data: boards × kernels × experiments × repetitions, in random order, within each board's time.
//!
//! The plan depends on the campaign alone. An experiment's identifier depends on what is measured where, and
//! not on the order or on other experiments: what is finished stays finished when a campaign grows.
//!
//! Order: one block for each repetition, and in it all experiments of a board in random order, so that
//! what changes slowly (temperature, time of day) hits all experiments alike (R. A. Fisher, *The Design of
//! Experiments*, 1935: randomized blocks). Where a board has several kernels, the kernels of a block are in random order
//! and the experiments of each follow one another: a card is written once for each (split plots, F. Yates, *Complex
//! Experiments*, 1935).

mod file;

pub(in crate::fleet) use file::is_name;
pub use file::{Board, Campaign, CampaignError, Experiment, Kernel, LINES, LavaBoard};

use crate::fnv;
use file::check;
use latlab_stats::rng::SplitMix64;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Identifier, a name of a directory.
    pub id: String,
    /// Board.
    pub board: String,
    /// Where the board is, with the kernel's options.
    pub target: String,
    /// Kernel, where the campaign names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Experiment.
    pub experiment: String,
    /// Repetition, from 1.
    pub repetition: u32,
    /// Command and options.
    pub command: Vec<String>,
    /// Seconds that it takes.
    pub seconds: u64,
    /// Image of the board's card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<PathBuf>,
    /// Requirements on its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// What runs after a run that does not meet them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_failure: Vec<String>,
}

impl Line {
    /// Board, kernel where the campaign names them, and repetition.
    pub fn place(&self, between: &str) -> String {
        let parts = std::iter::once(self.board.clone()).chain(self.kernel.clone());
        parts.chain([self.repetition.to_string()]).collect::<Vec<_>>().join(between)
    }
}

/// All measurements of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// In their order.
    pub lines: Vec<Line>,
    /// Those for which a board has no time.
    pub over_budget: Vec<Line>,
}

/// The plan of a campaign.
///
/// # Errors
/// When a name is no name of a file or occurs twice, two boards are one target, or a command leaves no run.
pub fn plan(campaign: &Campaign) -> Result<Plan, CampaignError> {
    check(campaign)?;
    let mut plan = Plan::default();
    let mut used = vec![0u64; campaign.board.len()];
    for repetition in 1..=campaign.repetitions {
        for (board, used) in campaign.board.iter().zip(&mut used) {
            let order = fnv::of_texts([board.name.as_str(), &repetition.to_string()]);
            let mut random = SplitMix64::new(campaign.seed ^ order);
            let mut kernels = kernels_of(campaign, board);
            random.shuffle(&mut kernels);
            let mut block = Vec::new();
            for kernel in kernels {
                let mut lines: Vec<Line> = (campaign.experiment.iter())
                    .filter(|e| e.boards.is_empty() || e.boards.contains(&board.name))
                    .filter(|e| {
                        kernel.is_none_or(|k| e.kernels.is_empty() || e.kernels.contains(&k.name))
                    })
                    .map(|e| line(campaign, board, kernel, e, repetition))
                    .collect();
                random.shuffle(&mut lines);
                block.extend(lines);
            }
            for line in block {
                if board.budget_s.is_some_and(|budget| *used + line.seconds > budget) {
                    plan.over_budget.push(line);
                } else {
                    *used += line.seconds;
                    plan.lines.push(line);
                }
            }
        }
    }
    Ok(plan)
}

/// The kernels that a board measures with; `None`: as it is.
fn kernels_of<'a>(campaign: &'a Campaign, board: &Board) -> Vec<Option<&'a Kernel>> {
    let its = |k: &&Kernel| k.boards.is_empty() || k.boards.contains(&board.name);
    let kernels: Vec<_> = campaign.kernel.iter().filter(its).map(Some).collect();
    if kernels.is_empty() { vec![None] } else { kernels }
}

fn line(
    campaign: &Campaign,
    board: &Board,
    kernel: Option<&Kernel>,
    e: &Experiment,
    repetition: u32,
) -> Line {
    let options = kernel.and_then(|k| k.options.as_deref());
    let target = options.map_or_else(|| board.place(), |o| [&board.place(), ",", o].concat());
    let name = kernel.map(|k| k.name.as_str());
    let measured = [campaign.name.as_str(), &target].into_iter().chain(name);
    let hash = fnv::digits(fnv::of_texts(measured.chain(e.command.iter().map(String::as_str))), 8);
    let repeated = repetition.to_string();
    let id = std::iter::once(board.name.as_str()).chain(name).chain([&*e.name, &repeated, &hash]);
    Line {
        id: id.collect::<Vec<_>>().join("-"),
        board: board.name.clone(),
        target,
        kernel: name.map(str::to_owned),
        experiment: e.name.clone(),
        repetition,
        command: e.command.clone(),
        seconds: e.seconds,
        image: kernel.and_then(|k| k.image.clone()).or_else(|| board.image.clone()),
        check: e.check.clone(),
        on_failure: e.on_failure.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn campaign() -> Campaign {
        let board = |i: u32| Board {
            name: format!("b{i}"),
            target: format!("ssh://b{i}"),
            budget_s: None,
            sbatch: Vec::new(),
            lava: None,
            image: None,
        };
        let experiment = |name: &str| Experiment {
            name: name.into(),
            command: ["wakeup", "-D", name].map(String::from).into(),
            seconds: 10,
            boards: Vec::new(),
            kernels: Vec::new(),
            check: None,
            on_failure: Vec::new(),
        };
        Campaign {
            name: "nightly".into(),
            seed: 1,
            repetitions: 3,
            attempts: 2,
            wait_s: 0,
            quarantine: 2,
            board: (0..4).map(board).collect(),
            kernel: Vec::new(),
            experiment: ["1", "2", "3", "4", "5"].map(experiment).into(),
            sbatch: Vec::new(),
            lavacli: Vec::new(),
        }
    }

    #[test]
    fn a_plan_has_each_measurement_once_in_random_blocks() {
        let plan = plan(&campaign()).unwrap();
        let ids: BTreeSet<&String> = plan.lines.iter().map(|l| &l.id).collect();
        assert_eq!((ids.len(), plan.lines.len()), (60, 60));
        let orders: BTreeSet<Vec<&str>> = (plan.lines.chunks(5))
            .map(|block| {
                let first = &block[0];
                assert!(
                    block
                        .iter()
                        .all(|l| (l.repetition, &l.board) == (first.repetition, &first.board))
                );
                block.iter().map(|l| l.experiment.as_str()).collect()
            })
            .collect();
        assert!(orders.len() > 8, "12 blocks in {} orders", orders.len());
        assert_eq!(super::plan(&campaign()).unwrap(), plan, "the same campaign, the same plan");
    }

    #[test]
    fn what_is_finished_stays_finished_when_a_campaign_grows() {
        let small = plan(&campaign()).unwrap();
        let mut larger = campaign();
        larger.seed = 2;
        larger.repetitions = 4;
        larger.experiment.remove(0);
        let larger = plan(&larger).unwrap();
        let known = |l: &&Line| small.lines.iter().any(|s| s.id == l.id);
        assert_eq!(larger.lines.iter().filter(known).count(), 48);
    }

    #[test]
    fn a_budget_leaves_out_later_repetitions() {
        let mut c = campaign();
        c.board[0].budget_s = Some(65);
        let plan = plan(&c).unwrap();
        let of = |lines: &[Line]| lines.iter().filter(|l| l.board == "b0").count();
        assert_eq!((of(&plan.lines), of(&plan.over_budget)), (6, 9));
        assert!(plan.lines.iter().filter(|l| l.board == "b0").all(|l| l.repetition <= 2));
    }

    /// A board has all its kernels in each block, and all experiments of a kernel follow one another.
    #[test]
    fn kernels_are_measured_in_random_order_within_each_block() {
        let mut c = campaign();
        let plain = plan(&c).unwrap();
        c.board[0].target = "vm:armv7-rt".into();
        c.board[1].target = "labgrid:b1".into();
        c.board[1].image = Some("old.img".into());
        let kernel = |name: &str, board: &str, options: Option<&str>, image: Option<&str>| Kernel {
            name: name.into(),
            boards: vec![board.into()],
            options: options.map(String::from),
            image: image.map(PathBuf::from),
            job: None,
        };
        c.kernel = vec![
            kernel("debian", "b0", Some("mem=128"), None),
            kernel("own", "b0", Some("build=latency"), None),
            kernel("new", "b1", None, Some("new.img")),
        ];
        c.experiment[4].kernels = vec!["own".into(), "new".into()];
        let plan = plan(&c).unwrap();
        let of = |board: &'static str| plan.lines.iter().filter(move |l| l.board == board);
        assert_eq!((of("b0").count(), of("b1").count(), of("b2").count()), (3 * 9, 3 * 5, 3 * 5));
        assert!(of("b1").all(|l| l.image == Some("new.img".into()) && l.target == "labgrid:b1"));
        let own = of("b0").find(|l| l.kernel.as_deref() == Some("own")).unwrap();
        assert_eq!(own.target, "vm:armv7-rt,build=latency");
        assert!(own.id.starts_with("b0-own-"), "{}", own.id);
        let blocks: Vec<_> = (1..=3).map(|n| of("b0").filter(move |l| l.repetition == n)).collect();
        for block in blocks {
            let kernels: Vec<_> = block.map(|l| l.kernel.as_deref().unwrap_or_default()).collect();
            let changes = kernels.windows(2).filter(|w| w[0] != w[1]).count();
            assert_eq!((kernels.len(), changes), (9, 1), "{kernels:?}");
        }
        let first: BTreeSet<_> = (0..20)
            .filter_map(|seed| {
                let plan = super::plan(&Campaign { seed, ..c.clone() }).ok()?;
                plan.lines.iter().find(|l| l.board == "b0")?.kernel.clone()
            })
            .collect();
        assert_eq!(first.len(), 2, "either kernel is the first");
        // Boards without a kernel have the lines that they had.
        assert!(of("b2").all(|l| plain.lines.iter().any(|p| p.id == l.id)));
    }

    #[test]
    fn campaigns_that_cannot_run_are_refused() {
        let said = |edit: &dyn Fn(&mut Campaign)| {
            let mut c = campaign();
            edit(&mut c);
            plan(&c).unwrap_err().to_string()
        };
        assert!(said(&|c| c.board[1].name = "../x".into()).contains("a name has"));
        assert!(said(&|c| c.board[1].target = "ssh://b0".into()).contains("another board"));
        assert!(
            said(&|c| c.experiment[0].command = vec!["record".into()]).contains("leaves no run")
        );
        assert!(said(&|c| c.experiment[0].command.push("--out=/etc".into())).contains("is set by"));
        assert!(said(&|c| c.experiment[0].boards = vec!["zz".into()]).contains("no board"));
        let kernel = |name: &str| Kernel { name: name.into(), ..Kernel::default() };
        assert!(
            said(&|c| c.experiment[0].kernels = vec!["zz".into()]).contains("no kernel \"zz\"")
        );
        assert!(said(&|c| c.kernel = vec![kernel("k")]).contains("kernel k: board b0 cannot"));
        let with = |k: Kernel| Kernel { options: Some("build=latency".into()), ..k };
        assert!(said(&|c| c.kernel = vec![with(kernel("k"))]).contains("options are of vm:"));
        let on = |k: Kernel, board: &str| Kernel { boards: vec![board.into()], ..k };
        assert!(said(&|c| c.kernel = vec![on(kernel("k"), "zz")]).contains("no board \"zz\""));
        assert!(said(&|c| c.repetitions = 1_000_000).contains("at most"));
        assert!(said(&|c| c.experiment[0].seconds = u64::MAX / 2).contains("at most 31536000"));
        assert!(said(&|c| c.board.clear()).contains("at least one"));
        assert!(said(&|c| c.board[0].target.clear()).contains("neither a target"));
        assert!(said(&|c| c.board[0].image = Some("a.img".into())).contains("labgrid:PLACE"));
        let failing = |c: &mut Campaign| c.experiment[0].on_failure = vec!["report".into()];
        assert!(said(&failing).contains("leaves no run"));
    }
}
