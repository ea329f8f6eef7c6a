//! Public SSH keys: is this file one?
//!
//! Source: the line format of sshd(8), "AUTHORIZED_KEYS FILE FORMAT", and RFC 4253,
//! section 6.6: the decoded key begins with the length and the name of its type.

use base64::Engine;
use latlab_target::{Result, TargetError};
use std::path::Path;

const TYPES: [&str; 7] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// The keys in a file, one a line, without comments and empty lines.
pub fn read(path: &Path) -> Result<String> {
    let text = std::fs::read(path).map_err(TargetError::file(path))?;
    parse(path, &String::from_utf8_lossy(&text))
}

fn parse(path: &Path, text: &str) -> Result<String> {
    let wrong = |reason: &str, hint: String| TargetError::Content {
        path: path.to_path_buf(),
        reason: reason.into(),
        hint,
    };
    let public = || format!("the public key is {}.pub", path.display());
    if text.contains("PRIVATE KEY-----") {
        return Err(wrong("this is a private key, which belongs on no board", public()));
    }
    let mut keys = String::new();
    let lines = text.lines().enumerate().map(|(i, l)| (i + 1, l.trim()));
    for (number, line) in lines.filter(|(_, l)| !l.is_empty() && !l.starts_with('#')) {
        let Some(()) = recognized(line) else {
            let hint = "ssh-keygen -t ed25519 makes a pair of keys; the public one ends in .pub";
            return Err(wrong(&format!("line {number} is not a public SSH key"), hint.into()));
        };
        keys.push_str(line);
        keys.push('\n');
    }
    if keys.is_empty() {
        let hint = "ssh-keygen -t ed25519 makes a pair of keys; the public one ends in .pub";
        return Err(wrong("there is no key in it", hint.into()));
    }
    Ok(keys)
}

/// Options may stand before the type; the word behind it has to hold the same type.
fn recognized(line: &str) -> Option<()> {
    let mut words = line.split_whitespace().skip_while(|w| !TYPES.contains(w));
    let kind = words.next()?;
    let data = base64::engine::general_purpose::STANDARD.decode(words.next()?).ok()?;
    let length = u32::from_be_bytes(data.get(..4)?.try_into().ok()?) as usize;
    (data.get(4..)?.get(..length)? == kind.as_bytes() && data.len() > 4 + length + 4).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGqDrPvFSFVNnlNcuM8mQgPLvmtRDTCxiMrzmE7Z6xYK me@desk";

    #[test]
    fn keys_with_and_without_options_are_taken() {
        let file = Path::new("id.pub");
        let text = format!("# mine\n{KEY}\n\nno-pty,command=\"ls -l\" {KEY}\n");
        assert_eq!(parse(file, &text).unwrap().lines().count(), 2);
    }

    #[test]
    fn what_is_no_public_key_is_said() {
        let file = Path::new("/home/u/.ssh/id");
        let said = |text: &str| parse(file, text).unwrap_err();
        let private = said("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n");
        assert!(private.to_string().contains("this is a private key"));
        assert_eq!(private.hint().unwrap(), "the public key is /home/u/.ssh/id.pub");
        assert!(said("\n# nothing\n").to_string().contains("there is no key in it"));
        for bad in [
            "hello world",
            "ssh-ed25519",
            "ssh-ed25519 AAAA",
            &KEY.replace("ssh-ed25519", "ssh-rsa"),
            &KEY[..50],
        ] {
            assert!(said(bad).to_string().contains("line 1 is not a public SSH key"), "{bad}");
        }
    }
}
