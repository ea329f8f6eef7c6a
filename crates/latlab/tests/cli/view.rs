//! `latlab view` as a server: who is answered, and how it ends.

use crate::common::{command, fixture, signal};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

struct Viewer {
    child: Child,
    port: u16,
    token: String,
    _dir: tempfile::TempDir,
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Viewer {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut child = command(dir.path(), &["--json", "view", &fixture("trace/f6.dat")])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).unwrap();
        let url = said["url"].as_str().unwrap().trim_start_matches("http://127.0.0.1:");
        let (port, token) = url.trim_end_matches('/').split_once('/').unwrap();
        let (port, token) = (port.parse().unwrap(), token.to_owned());
        Self { child, port, token, _dir: dir }
    }

    fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    fn status(&self, head: &str) -> String {
        let mut reply = String::new();
        self.send(head).read_to_string(&mut reply).unwrap();
        reply.lines().next().unwrap_or_default().to_owned()
    }
}

#[test]
fn nobody_without_the_token_holds_the_server_up() {
    let mut viewer = Viewer::start();
    let host = format!("Host: 127.0.0.1:{}\r\n", viewer.port);
    let get = format!("GET /{}/api/status HTTP/1.1\r\n{host}\r\n", viewer.token);
    assert_eq!(viewer.status(&get), "HTTP/1.1 200 OK");
    // A body that does not come: refused before it is waited for.
    let stalled = format!("POST /x/api/tiles HTTP/1.1\r\n{host}Content-Length: 100000\r\n\r\n");
    let mut refused: Vec<TcpStream> = (0..8).map(|_| viewer.send(&stalled)).collect();
    assert_eq!(viewer.status(&stalled), "HTTP/1.1 403 Forbidden");
    for stream in &mut refused {
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 403 "), "{reply}");
    }
    assert_eq!(viewer.status(&get.replace(&viewer.token, "0123")), "HTTP/1.1 403 Forbidden");
    let other = get.replace("127.0.0.1:", "example.org:");
    assert_eq!(viewer.status(&other), "HTTP/1.1 403 Forbidden");
    assert_eq!(viewer.status("DELETE / HTTP/1.1\r\n\r\n"), "HTTP/1.1 400 Bad Request");
    // Connections that say nothing are closed, and neither they nor a body of the page's own that
    // does not come hold up others or the end.
    let mut idle: Vec<TcpStream> = (0..16).map(|_| viewer.send("GET /")).collect();
    assert_eq!(viewer.status(&get), "HTTP/1.1 200 OK");
    for stream in &mut idle {
        assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0);
    }
    let _idle: Vec<TcpStream> = (0..8).map(|_| viewer.send("GET /")).collect();
    let own = stalled.replace("/x/", &format!("/{}/", viewer.token));
    let _stalled: Vec<TcpStream> = (0..4).map(|_| viewer.send(&own)).collect();
    assert_eq!(viewer.status(&get), "HTTP/1.1 200 OK");
    signal(&viewer.child, Signal::INT);
    assert_eq!(viewer.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_browser_is_not_given_the_token_on_its_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let words = dir.path().join("words");
    let script = format!("#!/bin/sh\ncp \"$1\" {0}.page; echo \"$@\" > {0}\n", words.display());
    crate::common::script(&dir.path().join("xdg-open"), &script);
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let mut child = command(dir.path(), &["view", &fixture("trace/f6.dat")])
        .env("PATH", path)
        .env("DISPLAY", ":99")
        .env("XDG_RUNTIME_DIR", dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let said = crate::common::wait_for("xdg-open", Duration::from_millis(10), || {
        std::fs::read_to_string(&words).ok().filter(|w| !w.is_empty())
    });
    let page = std::fs::read_to_string(words.with_extension("page")).unwrap();
    signal(&child, Signal::INT);
    child.wait().unwrap();
    assert!(said.trim().ends_with("/view.html") && !said.contains("http"), "{said}");
    assert!(page.contains(url.trim()));
    let left = std::fs::read_dir(dir.path()).unwrap().flatten();
    assert!(!left.into_iter().any(|e| e.file_name().to_string_lossy().starts_with("latlab-")));
}
