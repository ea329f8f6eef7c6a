//! The page of a run, from `run.json` on stdin to stdout: for the screenshot tests.
//!
//! ```text
//! cargo run -p latlab-report --example page <fixtures/runs-v1/wakeup/run.json >page.html
//! ```
#![expect(clippy::disallowed_methods, reason = "an example uses stdin and stdout")]

use latlab_report::{html, sections};

fn main() -> std::io::Result<()> {
    let run = serde_json::from_reader(std::io::stdin().lock())?;
    html::render(&sections::page::of_run(&run), &mut std::io::stdout().lock())
}
