//! As much of HTTP/1.1 as a browser on the same machine needs: one request for each connection.
//! Source: RFC 9112 (HTTP/1.1), sections 2 to 6.
//!
//! Each step is bounded: bytes of the head, of the body, and time for each of both.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Bytes of request line and headers.
const HEAD_MAX: usize = 16 << 10;
/// For the head, and again for the body, to arrive; and for the reply to leave.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// How often a waiting connection looks whether the server ends.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Request line and headers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub method: String,
    pub url: String,
    pub host: String,
    pub origin: Option<String>,
    pub site: Option<String>,
    /// Bytes of the body.
    pub length: usize,
    /// The client waits for a word before it sends the body.
    pub expects: bool,
}

/// A connection with what was read beyond the head.
pub(crate) struct Connection<'s> {
    stream: TcpStream,
    /// Whether the server ends: then nothing is waited for.
    stop: &'s (dyn Fn() -> bool + Sync),
    ahead: Vec<u8>,
}

impl<'s> Connection<'s> {
    pub fn new(stream: TcpStream, stop: &'s (dyn Fn() -> bool + Sync)) -> io::Result<Self> {
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream, stop, ahead: Vec::new() })
    }

    /// Reads some bytes before `deadline`; however slowly they come, it is not moved.
    fn read_some(&mut self, deadline: Instant) -> io::Result<()> {
        let mut buffer = [0; 8 << 10];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || (self.stop)() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left.min(POLL_INTERVAL)))?;
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.ahead.extend_from_slice(&buffer[..n]);
                    return Ok(());
                }
                Err(e) if is_no_end(&e) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// The head.
    pub fn head(&mut self) -> io::Result<Head> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(end) = self.ahead.windows(4).position(|w| w == b"\r\n\r\n") {
                let head = parse(&self.ahead[..end]);
                self.ahead.drain(..end + 4);
                return head.ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
            if self.ahead.len() > HEAD_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.read_some(deadline)?;
        }
    }

    /// The body of a request that was admitted.
    pub fn body(&mut self, head: &Head) -> io::Result<Vec<u8>> {
        if head.expects {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let deadline = Instant::now() + TIMEOUT;
        while self.ahead.len() < head.length {
            self.read_some(deadline)?;
        }
        self.ahead.truncate(head.length);
        Ok(std::mem::take(&mut self.ahead))
    }

    /// Sends a reply and ends the connection.
    pub fn reply(mut self, status: u16, headers: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len()));
        self.stream.write_all(head.as_bytes())?;
        self.stream.write_all(body)?;
        self.stream.flush()
    }
}

/// Nothing has come yet.
fn is_no_end(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        422 => "Unprocessable Content",
        _ => "Error",
    }
}

/// Request line and headers without the empty line; `None` for what is no request, or one whose
/// end cannot be told.
fn parse(text: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(text).ok()?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, url, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") {
        return None;
    }
    let mut head = Head { method: method.into(), url: url.into(), ..Head::default() };
    let mut lengths = 0;
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "host" if head.host.is_empty() => head.host = value.into(),
            // Two are not one: which is meant depends on who reads.
            "host" | "transfer-encoding" => return None,
            "origin" => head.origin = Some(value.into()),
            "sec-fetch-site" => head.site = Some(value.into()),
            "content-length" => {
                lengths += 1;
                head.length = value.parse().ok()?;
            }
            "expect" => head.expects = value.eq_ignore_ascii_case("100-continue"),
            _ => {}
        }
    }
    (lengths <= 1).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_and_an_ambiguous_one_is_not() {
        let text = b"POST /t/api/tiles?a=1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\ncontent-length: 3\r\nOrigin: x";
        let head = parse(text).unwrap();
        assert_eq!((head.method.as_str(), head.url.as_str()), ("POST", "/t/api/tiles?a=1"));
        assert_eq!((head.host.as_str(), head.length), ("127.0.0.1:1", 3));
        assert_eq!(head.origin.as_deref(), Some("x"));
        for wrong in [
            "GET /",
            "GET / HTTP/2",
            "GET / x HTTP/1.1",
            "GET / HTTP/1.1\r\nno colon",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
            "POST / HTTP/1.1\r\nContent-Length: -1",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b",
        ] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
