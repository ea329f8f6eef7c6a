//! `latlab bench --serve`: the server of measurements over a network.

use crate::outcome::Outcome;
use crate::term;
use anyhow::{Context, anyhow};
use latlab_sys::probe::{remote, server};
use latlab_sys::{policy, signal};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// `--serve`: answers sessions until a signal, or for the time of `-D`.
pub(super) fn serve(
    place: &str,
    cpu: Option<u32>,
    duration: Option<Duration>,
) -> anyhow::Result<Outcome> {
    let place = match place {
        "" => SocketAddr::from((Ipv4Addr::LOCALHOST, remote::PORT)),
        text => super::network::address(text).ok_or_else(|| {
            anyhow!("--serve {text}: expected an address of this machine, or ADDRESS:PORT")
        })?,
    };
    if let Some(cpu) = cpu {
        policy::bind(&[latlab_model::units::CpuId(cpu)]).context("sched_setaffinity")?;
    }
    let listener = TcpListener::bind(place).with_context(|| format!("--serve {place}"))?;
    let mut out = term::stdout();
    writeln!(out, "listening on {} until Ctrl-C", listener.local_addr()?)?;
    out.flush()?;
    let begun = Instant::now();
    let ends = || {
        signal::stop_requested().is_some() || duration.is_some_and(|most| begun.elapsed() >= most)
    };
    let sessions = server::serve(&listener, &ends)?;
    writeln!(out, "{sessions} sessions")?;
    out.flush()?;
    Ok(Outcome::Done)
}
