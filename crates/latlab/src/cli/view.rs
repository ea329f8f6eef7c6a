//! `latlab view`: its options.

use crate::outcome::HintExt;
use anyhow::anyhow;
use std::path::PathBuf;

/// Show a trace in the browser.
///
/// Serves one page on 127.0.0.1, whose address contains an access token, prints the
/// address, and opens a browser if there is one. PATH is a trace.dat (of trace-cmd or
/// latlab), ftrace's text, or a run with captures; several are shown below each other.
/// Ends with Ctrl-C.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = super::examples::VIEW)]
pub struct Args {
    /// Traces (trace.dat, ftrace's text) or a run with captures.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Port (default: a free one).
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Do not open a browser.
    #[arg(long)]
    pub no_open: bool,
    /// Add this to a trace's times (`-1.5ms`, `20us`): one for each PATH, in order.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    offset: Vec<String>,
    /// A wake-up later than this is late (`100us`), in traces without markers.
    #[arg(long, value_name = "TIME")]
    limit: Option<String>,
    /// Write one self-contained HTML file instead of serving.
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
    /// Export: begin at this time, in seconds as printed.
    #[arg(long, value_name = "SECONDS", requires = "export")]
    pub from: Option<String>,
    /// Export: end at this time, in seconds as printed.
    #[arg(long, value_name = "SECONDS", requires = "export")]
    pub to: Option<String>,
}

impl Args {
    /// ns to be added to each trace's times.
    ///
    /// # Errors
    /// A time that makes no sense, or more of them than there are traces.
    pub fn offsets(&self) -> anyhow::Result<Vec<i64>> {
        if self.offset.len() > self.paths.len() {
            return Err(anyhow!("--offset: more offsets than traces"))
                .hint("name one for each PATH, in order; 0: no offset");
        }
        let mut all = vec![0; self.paths.len()];
        for (at, text) in all.iter_mut().zip(&self.offset) {
            *at = time_ns("--offset", text)?;
        }
        Ok(all)
    }

    /// The window of an export, ns of the trace's clock.
    ///
    /// # Errors
    /// A time that makes no sense.
    pub fn window(&self) -> anyhow::Result<(Option<u64>, Option<u64>)> {
        let of = |option: &str, text: &Option<String>| {
            let ns =
                text.as_ref().map(|t| time_ns(option, &format!("{}s", t.trim_end_matches('s'))));
            ns.transpose().map(|n| n.map(i64::unsigned_abs))
        };
        Ok((of("--from", &self.from)?, of("--to", &self.to)?))
    }

    /// The limit in ns, where one was given.
    ///
    /// # Errors
    /// A time that makes no sense.
    pub fn limit_ns(&self) -> anyhow::Result<Option<u64>> {
        let of = |t: &String| time_ns("--limit", t).map(i64::unsigned_abs);
        self.limit.as_ref().map(of).transpose()
    }
}

/// `1.5ms`, `-20us`, `300` (µs, as elsewhere) in ns.
fn time_ns(option: &str, text: &str) -> anyhow::Result<i64> {
    let at = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit.trim() {
        "ns" => Some(1.0),
        "" | "us" | "µs" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        _ => None,
    };
    let ns = scale.and_then(|s| number.trim().parse::<f64>().ok().map(|n| n * s));
    match ns.filter(|ns| ns.is_finite() && ns.abs() < 9e18) {
        Some(ns) => Ok(ns.round() as i64),
        None => {
            Err(anyhow!("{option}: {text:?} is not a time")).hint("write it as 100us, 1.5ms or 2s")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        let of = |t| time_ns("--offset", t).ok();
        assert_eq!(of("1.5ms"), Some(1_500_000));
        assert_eq!(of("-20us"), Some(-20_000));
        assert_eq!(of("7"), Some(7_000));
        assert_eq!(of("2s"), Some(2_000_000_000));
        assert!(of("x").is_none() && of("1 week").is_none() && of("1e30s").is_none());
    }
}
