//! A store on PostgreSQL: its address, what of it may be printed, and TLS.
//!
//! `sslmode` and `sslrootcert` mean what they mean to libpq (PostgreSQL documentation, chapter
//! "libpq", SSL Support), in a URL and in `key=value` form:
//!
//! | sslmode | connection | certificate |
//! |---|---|---|
//! | `disable` | not encrypted | |
//! | `prefer` (default) | encrypted if the server can | any |
//! | `require` | encrypted, or an error | any; with a root certificate as `verify-ca` |
//! | `verify-ca` | encrypted, or an error | of a known authority |
//! | `verify-full` | encrypted, or an error | of a known authority, for this host |
//!
//! A socket of the same machine is not encrypted, whatever `sslmode` says. With `hostaddr` the server is
//! on the network; without `host` the address is the name that its certificate must have.

use super::tls::{Certificate, connector};
use crate::outcome::HintExt;
use anyhow::{anyhow, bail};
use postgres::config::{Host, SslMode};
use std::path::PathBuf;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// What a `key=value` address begins with.
const KEYWORDS: [&str; 8] =
    ["host", "hostaddr", "port", "user", "password", "dbname", "sslmode", "sslrootcert"];
const HINT: &str = "postgres://USER@HOST/DATABASE?sslmode=verify-full, or \"host=HOST user=USER dbname=DATABASE\"; @ / ? and % of a password are written %40 %2F %3F %25, or set PGPASSWORD";

/// Whether all that may be connected to are sockets of this machine.
fn is_local(config: &postgres::Config) -> bool {
    let hosts = config.get_hosts();
    config.get_hostaddrs().is_empty()
        && !hosts.is_empty()
        && hosts.iter().all(|h| matches!(h, Host::Unix(_)))
}

/// Gives addresses without a host their own text as the name for TLS; the address as it is shown.
///
/// # Errors
/// When an address has a socket for a host: it is no name for a certificate.
fn name_of_addresses(config: &mut postgres::Config) -> anyhow::Result<String> {
    if config.get_hosts().is_empty() {
        for address in config.get_hostaddrs().to_vec() {
            config.host(&address.to_string());
        }
    }
    let shown = shown(config);
    let is_socket = |h: &Host| matches!(h, Host::Unix(_));
    if !config.get_hostaddrs().is_empty() && config.get_hosts().iter().any(is_socket) {
        return Err(anyhow!("--store {shown}: hostaddr is an address, and host is a socket of this machine"))
            .hint("leave out hostaddr for the socket; for the address, host is the name of its server or left out");
    }
    Ok(shown)
}

/// Whether a store is on a server: anything that could hold a password is taken for one.
pub fn is_server(name: &str) -> bool {
    SCHEMES.iter().any(|s| name.starts_with(s)) || first_keyword(name).is_some()
}

fn first_keyword(name: &str) -> Option<&str> {
    let (key, _) = name.split_once('=')?;
    KEYWORDS.contains(&key.trim()).then_some(key)
}

/// A server that can be asked.
pub struct Server {
    config: postgres::Config,
    certificate: Option<Certificate>,
    shown: String,
}

impl Server {
    /// Reads an address.
    ///
    /// # Errors
    /// One sentence without any part of an address that was not understood: it may be a password.
    pub fn parse(name: &str) -> anyhow::Result<Self> {
        let unreadable =
            || Err(anyhow!("--store postgres://…: not the address of a server")).hint(HINT);
        let Some(taken) = Taken::from(name) else { return unreadable() };
        let Ok(mut config) = taken.address.parse::<postgres::Config>() else { return unreadable() };
        let named = |h: &Host| matches!(h, Host::Tcp(name) if name.contains(['@', ':', '/']) && name.parse::<std::net::Ipv6Addr>().is_err());
        if config.get_hosts().iter().any(named) {
            return unreadable();
        }
        let shown = name_of_addresses(&mut config)?;
        let local = is_local(&config);
        let certificate = taken
            .protection(local, std::env::home_dir())
            .map_err(|e| anyhow!("--store {shown}: {e}"))
            .hint(
                "sslmode=disable|prefer|require|verify-ca|verify-full, sslrootcert=FILE|system",
            )?;
        config.ssl_mode(certificate.0);
        if let (None, Ok(password)) = (config.get_password(), std::env::var("PGPASSWORD")) {
            config.password(password);
        }
        Ok(Self { config, certificate: certificate.1, shown })
    }

    /// Its address without a password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Connects.
    ///
    /// # Errors
    /// When it cannot be reached, refuses the user, or has not the certificate that is asked for.
    pub fn connect(&self) -> anyhow::Result<postgres::Client> {
        let connected = match &self.certificate {
            None => self.config.connect(postgres::NoTls),
            Some(certificate) => {
                let tls =
                    connector(certificate).map_err(|e| anyhow!("--store {}: {e}", self.shown))?;
                self.config.connect(tls)
            }
        };
        connected
            .map_err(|e| anyhow!("--store {}: {}", self.shown, with_causes(&e)))
            .hint("check that the server runs, that it has TLS if sslmode requires it, and that this user may use the database")
    }
}

/// An error with what is behind it, in one sentence.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(e) = next {
        words.push_str(": ");
        words.push_str(&e.to_string());
        next = e.source();
    }
    words
}

/// An address as the client library reads it, and the two options that it does not know.
#[derive(Debug, Default, PartialEq)]
struct Taken {
    address: String,
    sslmode: Option<String>,
    sslrootcert: Option<String>,
}

impl Taken {
    fn from(name: &str) -> Option<Self> {
        let mut taken = Self::default();
        if first_keyword(name).is_some() {
            let mut rest = name.trim_start();
            while !rest.is_empty() {
                let pair = pair(rest)?;
                if !taken.keep(pair.key, &pair.value) {
                    taken.address.push_str(&rest[..pair.len]);
                    taken.address.push(' ');
                }
                rest = rest[pair.len..].trim_start();
            }
            return Some(taken);
        }
        let Some((base, query)) = name.split_once('?') else {
            return Some(Self { address: name.to_owned(), ..taken });
        };
        taken.address = base.to_owned();
        let mut between = '?';
        for part in query.split('&') {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            if !taken.keep(key, &percent_decoded(value)?) {
                taken.address.push(between);
                taken.address.push_str(part);
                between = '&';
            }
        }
        Some(taken)
    }

    fn keep(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.sslmode = Some(value.to_owned()),
            "sslrootcert" => self.sslrootcert = Some(value.to_owned()),
            _ => return false,
        }
        true
    }

    /// How the connection is protected; `None` for a connection without TLS.
    fn protection(
        &self,
        local: bool,
        home: Option<PathBuf>,
    ) -> anyhow::Result<(SslMode, Option<Certificate>)> {
        let system = self.sslrootcert.as_deref() == Some("system");
        let mode = self.sslmode.as_deref().unwrap_or(if system { "verify-full" } else { "prefer" });
        if system && mode != "verify-full" {
            bail!("sslrootcert=system needs sslmode=verify-full");
        }
        let usual = home.map(|h| h.join(".postgresql/root.crt"));
        let roots = || self.sslrootcert.as_ref().map(PathBuf::from).or_else(|| usual.clone());
        let there = self.sslrootcert.is_some() || usual.as_ref().is_some_and(|f| f.exists());
        let roots = || match roots() {
            Some(file) => Ok(file),
            None => bail!("sslmode={mode} needs sslrootcert=FILE"),
        };
        let (mode, certificate) = match mode {
            "disable" => (SslMode::Disable, None),
            "prefer" => (SslMode::Prefer, Some(Certificate::Any)),
            "require" if there => (SslMode::Require, Some(Certificate::Of(roots()?))),
            "require" => (SslMode::Require, Some(Certificate::Any)),
            "verify-ca" => (SslMode::Require, Some(Certificate::Of(roots()?))),
            "verify-full" if system => (SslMode::Require, Some(Certificate::OfSystemForHost)),
            "verify-full" => (SslMode::Require, Some(Certificate::OfForHost(roots()?))),
            _ => bail!("sslmode is not one of disable, prefer, require, verify-ca and verify-full"),
        };
        Ok(if local { (SslMode::Disable, None) } else { (mode, certificate) })
    }
}

struct Pair<'a> {
    key: &'a str,
    value: String,
    /// Bytes of both.
    len: usize,
}

/// The first `key = value` or `key = 'val\'ue'` of a text.
fn pair(text: &str) -> Option<Pair<'_>> {
    let (key, after) = text.split_once('=')?;
    let blank = after.len() - after.trim_start().len();
    let mut chars = after[blank..].char_indices();
    let quoted = after[blank..].starts_with('\'');
    if quoted {
        chars.next();
    }
    let (mut value, mut end) = (String::new(), after[blank..].len());
    let mut closed = !quoted;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.push(chars.next()?.1),
            '\'' if quoted => {
                (closed, end) = (true, at + 1);
                break;
            }
            c if !quoted && c.is_whitespace() => {
                end = at;
                break;
            }
            c => value.push(c),
        }
    }
    closed.then(|| Pair { key: key.trim(), value, len: key.len() + 1 + blank + end })
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        out.push(match b {
            b'%' => {
                let digit = |b: u8| char::from(b).to_digit(16);
                (digit(bytes.next()?)? << 4 | digit(bytes.next()?)?) as u8
            }
            b => b,
        });
    }
    String::from_utf8(out).ok()
}

/// User, hosts, ports and database, as a URL.
fn shown(config: &postgres::Config) -> String {
    let ports = config.get_ports();
    let host = |(i, host): (usize, &Host)| {
        let name = match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        };
        // One port may be that of all hosts.
        match ports.get(i).or(ports.first()).filter(|p| **p != 5432) {
            Some(port) => format!("{name}:{port}"),
            None => name,
        }
    };
    let hosts: Vec<String> = config.get_hosts().iter().enumerate().map(host).collect();
    let user = config.get_user().map_or(String::new(), |u| format!("{u}@"));
    let database = config.get_dbname().map_or(String::new(), |d| format!("/{d}"));
    format!("postgres://{user}{}{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_an_address_prints_its_password() {
        for (name, printed) in [
            ("postgres://u:hunter2@h/db", "postgres://u@h/db"),
            ("postgresql://h/db?user=u&password=hunter2", "postgres://u@h/db"),
            ("postgres://u:hunter%402@h:9/db?sslmode=require", "postgres://u@h:9/db"),
            ("postgres://u:hunter2@%2Frun%2Fpg/db", "postgres://u@/run/pg/db"),
            ("host=h user=u password=hunter2 dbname=db", "postgres://u@h/db"),
            ("password = 'hun\\'ter2 x' host=h sslmode=prefer", "postgres://h"),
            ("user=u host=a,b password=hunter2", "postgres://u@a,b"),
            ("postgres://u:p?hunter2=x@h", "postgres://u@h"),
        ] {
            let server = Server::parse(name).unwrap_or_else(|e| panic!("{name}: {e:#}"));
            assert_eq!(server.shown(), printed, "{name}");
        }
        for name in [
            "postgres://u:p@hunter2@h/db",
            "postgres://u:hunter2@h:port/db",
            "postgres://u:hunter2@h/db?hunter2=1",
            "postgres://u:hunter2@h/db?x=%zz",
            "host=h password='hunter2",
            "password=hunter2 host",
            "password=hunter2 unknown=3",
        ] {
            assert!(is_server(name), "{name}");
            let error =
                format!("{:#}", Server::parse(name).err().unwrap_or_else(|| panic!("{name}")));
            assert!(
                !error.contains("hunter2") && error.contains("--store postgres://…"),
                "{error}"
            );
        }
        for file in ["h.sqlite", "runs=1.sqlite", "./host=x", "a/b.db"] {
            assert!(!is_server(file), "{file}");
        }
    }

    #[test]
    fn protection_is_that_of_libpq_and_fails_closed() {
        let home = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let taken = Taken::from(name).unwrap();
            taken.protection(false, Some(home.path().to_owned()))
        };
        let root = home.path().join(".postgresql/root.crt");
        let require = |certificate| (SslMode::Require, Some(certificate));
        for (name, expected) in [
            ("postgres://h", (SslMode::Prefer, Some(Certificate::Any))),
            ("postgres://h?sslmode=disable", (SslMode::Disable, None)),
            ("host=h sslmode=require", require(Certificate::Any)),
            ("host=h sslmode=require sslrootcert='a b'", require(Certificate::Of("a b".into()))),
            ("postgres://h?sslmode=verify-ca", require(Certificate::Of(root.clone()))),
            (
                "postgres://h?sslmode=verify-full&sslrootcert=%2Fa",
                require(Certificate::OfForHost("/a".into())),
            ),
            ("host=h sslrootcert=system", require(Certificate::OfSystemForHost)),
        ] {
            assert_eq!(of(name).unwrap(), expected, "{name}");
        }
        for name in [
            "postgres://h?sslmode=verify_full",
            "postgres://h?sslmode=",
            "postgres://h?sslmode=allow",
            "host=h sslmode=require sslrootcert=system",
        ] {
            assert!(of(name).is_err(), "{name}");
        }
        std::fs::create_dir_all(root.parent().unwrap()).unwrap();
        std::fs::write(&root, "").unwrap();
        assert_eq!(of("host=h sslmode=require").unwrap(), require(Certificate::Of(root)));
        let socket = Taken::from("postgres://%2Frun?sslmode=require").unwrap();
        assert_eq!(socket.protection(true, None).unwrap(), (SslMode::Disable, None));
    }

    #[test]
    fn only_a_socket_without_an_address_is_local() {
        let mode = |name: &str| {
            let server = Server::parse(name).unwrap_or_else(|e| panic!("{name}: {e:#}"));
            (server.config.get_ssl_mode(), server.certificate.is_some(), server.shown)
        };
        for (name, shown) in [
            ("hostaddr=127.0.0.1 user=u password=pw sslmode=require", "postgres://u@127.0.0.1"),
            ("hostaddr=::1 sslmode=verify-ca sslrootcert=/a", "postgres://::1"),
            ("postgres://u:pw@/db?hostaddr=127.0.0.1&sslmode=require", "postgres://u@127.0.0.1/db"),
            ("hostaddr=10.0.0.1,10.0.0.2 sslmode=require", "postgres://10.0.0.1,10.0.0.2"),
            ("host=h hostaddr=127.0.0.1 sslmode=require", "postgres://h"),
            ("host=/run/pg,h sslmode=require", "postgres:///run/pg,h"),
            ("dbname=d sslmode=require", "postgres:///d"),
        ] {
            assert_eq!(mode(name), (SslMode::Require, true, shown.to_owned()), "{name}");
        }
        let prefer = (SslMode::Prefer, true, "postgres://127.0.0.1".to_owned());
        assert_eq!(mode("hostaddr=127.0.0.1"), prefer);
        let socket = (SslMode::Disable, false, "postgres:///run/pg".to_owned());
        assert_eq!(mode("host=/run/pg sslmode=require"), socket);
        // verify-full compares the certificate with the address.
        let server = Server::parse("hostaddr=::1 sslmode=verify-full sslrootcert=/a").unwrap();
        assert_eq!(server.certificate, Some(Certificate::OfForHost("/a".into())));
        assert_eq!(server.config.get_hosts(), [Host::Tcp("::1".into())]);
        for name in [
            "host=/run/pg hostaddr=127.0.0.1 password=hunter2 sslmode=require",
            "postgres://u:hunter2@%2Frun%2Fpg/db?hostaddr=127.0.0.1",
            "host=h,/run/pg hostaddr=127.0.0.1,127.0.0.2 password=hunter2",
        ] {
            let error = Server::parse(name).err().unwrap_or_else(|| panic!("{name}")).to_string();
            assert!(error.contains("host is a socket") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn options_that_the_client_does_not_know_are_taken_out() {
        let taken = Taken::from("postgres://h/d?a=1&sslmode=verify-ca&b=2&sslrootcert=/x").unwrap();
        assert_eq!(taken.address, "postgres://h/d?a=1&b=2");
        let taken = Taken::from("host = h  sslmode=verify-ca  user='a \\'b'").unwrap();
        assert_eq!(taken.address, "host = h user='a \\'b' ");
    }
}
