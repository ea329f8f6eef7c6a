//! How often a sweep finds the knee of a simulated machine, and how often it invents one.
//!
//! `cargo run --release -p latlab-testkit --example sweep-score [SWEEPS]`

use latlab_analysis::sweep::analyse::analyse;
use latlab_model::sweep::Analysis;
use latlab_testkit::sweep_sim::{Surface, is_right, plan, points};
use std::io::Write;

fn sweep(surface: &Surface, seed: u64) -> Analysis {
    let plan = plan(seed);
    analyse(&plan, &points(surface, &plan, seed), &[("L2".into(), 1_048_576.0)])
}

fn main() -> std::io::Result<()> {
    let sweeps: u64 =
        std::env::args_os().nth(1).and_then(|a| a.to_str()?.parse().ok()).unwrap_or(500);
    let mut out = std::io::stdout().lock();
    let study =
        Surface { unloaded: 16_000.0, alloc: 2.0, keep: 1.0, knee: Some((6, 8)), noise: 0.12 };
    for (name, surface) in [
        ("as the study: x2 between 4M and 16M", study),
        ("step at the third size", Surface { knee: Some((2, 3)), ..study }),
        ("slow rise over five sizes", Surface { knee: Some((3, 7)), alloc: 3.0, ..study }),
        ("x1.5 in noise of 10 %", Surface { alloc: 1.5, noise: 0.10, ..study }),
        ("x4 in noise of 25 %", Surface { alloc: 4.0, noise: 0.25, ..study }),
    ] {
        let knee = surface.knee.unwrap_or((0, 1));
        let right = (0..sweeps).filter(|&s| is_right(&sweep(&surface, s), knee)).count();
        writeln!(
            out,
            "{name:<40} found within a step: {:.1} %",
            right as f64 * 100.0 / sweeps as f64
        )?;
    }
    for noise in [0.05, 0.12, 0.4] {
        let flat = Surface { knee: None, noise, ..study };
        let wrong = (0..sweeps).filter(|&s| !sweep(&flat, s).knees.is_empty()).count();
        writeln!(
            out,
            "flat, noise {noise:<28} knees invented: {:.1} %",
            wrong as f64 * 100.0 / sweeps as f64
        )?;
    }
    out.flush()
}
