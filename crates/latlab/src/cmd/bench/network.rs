//! The other machine of a measurement over a network: its address, and whether a server is there.

use crate::outcome::HintExt;
use anyhow::{Context, anyhow, bail};
use latlab_sys::probe::registry::Instance;
use latlab_sys::probe::remote;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Finds the server of each instance that has a host, once for each host.
///
/// # Errors
/// When a name has no address, or no server of this version answers there.
pub fn find_peers(instances: &mut [Instance]) -> anyhow::Result<()> {
    let mut known: BTreeMap<String, SocketAddr> = BTreeMap::new();
    for instance in instances {
        let Some(host) = instance.params.get("host") else { continue };
        let address = match known.get(host) {
            Some(address) => *address,
            None => {
                let address = reachable(&format!("host={host}"), host)?;
                known.insert(host.clone(), address);
                address
            }
        };
        instance.peer = Some(address);
    }
    Ok(())
}

/// The first address of a host at which a server answers. `option` is what named it, for sentences.
///
/// # Errors
/// When the name has no address, or no server of this version answers.
pub fn reachable(option: &str, host: &str) -> anyhow::Result<SocketAddr> {
    let mut last = None;
    for address in addresses(option, host)? {
        match remote::check(address) {
            Ok(()) => return Ok(address),
            Err(error) => last = Some((address, error)),
        }
    }
    let Some((address, error)) = last else { bail!("{option}: the name has no address") };
    Err(anyhow!("{option}: {}", latlab_report::messages::note(&error.reason())))
        .hint(format!("on that machine: latlab bench --serve {}", remote::address_text(address)))
}

/// The addresses of `NAME[:PORT]`, with the server's port where it has none.
///
/// # Errors
/// When the name has no address.
pub fn addresses(option: &str, host: &str) -> anyhow::Result<Vec<SocketAddr>> {
    if let Some(address) = address(host) {
        return Ok(vec![address]);
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => {
            let port = port.parse().map_err(|_| anyhow!("{option}: expected NAME[:PORT]"))?;
            (name, port)
        }
        None => (host, remote::PORT),
    };
    named(name, port).with_context(|| format!("{option}: no address"))
}

/// An address, with the usual port unless it names one.
pub(super) fn address(text: &str) -> Option<SocketAddr> {
    #[cfg(feature = "host")]
    let ip = text.parse::<std::net::IpAddr>();
    #[cfg(not(feature = "host"))]
    let ip = text.parse::<std::net::Ipv4Addr>();
    ip.map_or_else(|_| remote::parse_address(text), |ip| Some((ip, remote::PORT).into()))
}

#[cfg(feature = "host")]
fn named(name: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
    use std::net::ToSocketAddrs;
    Ok((name, port).to_socket_addrs()?.collect())
}

/// A board build has no resolver: names of /etc/hosts, and addresses.
#[cfg(not(feature = "host"))]
fn named(name: &str, port: u16) -> anyhow::Result<Vec<SocketAddr>> {
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let found: Vec<SocketAddr> = hosts
        .lines()
        .filter_map(|line| {
            let mut words = line.split('#').next()?.split_whitespace();
            let address: std::net::Ipv4Addr = words.next()?.parse().ok()?;
            words.any(|w| w == name).then(|| (address, port).into())
        })
        .collect();
    if found.is_empty() {
        bail!("\"{name}\" is not in /etc/hosts; this build takes those names and addresses");
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_a_port_or_the_usual_one() {
        let of = |host: &str| addresses("", host).unwrap()[0].to_string();
        assert_eq!(of("192.0.2.7"), "192.0.2.7:27380");
        assert_eq!(of("192.0.2.7:99"), "192.0.2.7:99");
        #[cfg(feature = "host")]
        assert_eq!(of("fd00::7"), "[fd00::7]:27380");
        #[cfg(feature = "host")]
        assert_eq!(of("[fd00::7]:99"), "[fd00::7]:99");
        assert!(
            addresses("host=board:x", "board:x").unwrap_err().to_string().contains("NAME[:PORT]")
        );
        assert!(addresses("", "board:70000").is_err());
    }
}
