//! The configuration of a kernel that is built: Debian's without its modules, and fragments.

use latlab_target::{Result, TargetError};
use std::collections::BTreeMap;
use std::path::Path;

/// Options with their values as a `.config` has them (`y`, `m`, `n`, a number, a text in quotes).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Config(BTreeMap<String, String>);

impl Config {
    /// Reads a `.config` or a fragment; `# CONFIG_X is not set` is `n`, and other lines are comments.
    pub fn parse(text: &str) -> Self {
        let option = |line: &str| {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("# ").and_then(|l| l.strip_suffix(" is not set"))
            {
                return Some((name.to_owned(), "n".to_owned()));
            }
            let (name, value) = line.split_once('=')?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        let is_name = |name: &str| {
            let rest = name.strip_prefix("CONFIG_").unwrap_or_default();
            !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        Self(text.lines().filter_map(option).filter(|(name, _)| is_name(name)).collect())
    }

    /// What Debian builds in, without its modules and without the texts that name its files.
    pub fn without_modules(mut self) -> Self {
        self.0.retain(|_, value| value != "m");
        for name in ["CONFIG_SYSTEM_TRUSTED_KEYS", "CONFIG_MODULE_SIG_KEY", "CONFIG_BUILD_SALT"] {
            self.0.insert(name.into(), "\"\"".into());
        }
        self
    }

    /// A later value of an option replaces an earlier one.
    pub fn add(&mut self, other: &Self) {
        self.0.extend(other.0.iter().map(|(name, value)| (name.clone(), value.clone())));
    }

    /// Sets the text that follows the version in the kernel's name.
    pub fn set_suffix(&mut self, suffix: &str) {
        self.0.insert("CONFIG_LOCALVERSION".into(), format!("\"{suffix}\""));
    }

    /// A `.config`.
    pub fn render(&self) -> String {
        let line = |(name, value): (&String, &String)| match value.as_str() {
            "n" => format!("# {name} is not set\n"),
            _ => format!("{name}={value}\n"),
        };
        self.0.iter().map(line).collect()
    }

    /// Options of these that a finished configuration has not as wanted, with what it has. A module that is built
    /// in is as wanted, and so is an option that is wanted off and unknown.
    pub fn not_taken(&self, finished: &Self) -> Vec<String> {
        let differs = |(name, wanted): &(&String, &String)| {
            let has = finished.value(name);
            has != wanted.as_str() && !(wanted.as_str() == "m" && has == "y")
        };
        self.0
            .iter()
            .filter(differs)
            .map(|(name, _)| format!("{name}={}", finished.value(name)))
            .collect()
    }

    /// Whether it has this option, and has it off.
    pub fn switches_off(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| value == "n")
    }

    /// What an option has; `n` without it.
    pub fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("n", String::as_str)
    }

    /// Number of options.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// A fragment of the user's own.
///
/// # Errors
/// When it cannot be read, or sets nothing.
pub(super) fn own(path: &Path) -> Result<Config> {
    let text = std::fs::read_to_string(path).map_err(TargetError::file(path))?;
    let config = Config::parse(&text);
    if config.len() == 0 {
        return Err(TargetError::Content {
            path: path.to_owned(),
            reason: "no line sets an option".into(),
            hint: "lines are CONFIG_NAME=y, or # CONFIG_NAME is not set".into(),
        });
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_replace_what_debian_has_and_its_modules_are_left_out() {
        let debian = "CONFIG_HZ=250\nCONFIG_EXT4_FS=m\nCONFIG_SOUND=m\nCONFIG_SMP=y\n# CONFIG_KASAN is not set\n\
             CONFIG_SYSTEM_TRUSTED_KEYS=\"debian/certs/x.pem\"\nCONFIG_A-B=y\nCONFIG_=y\nother=1\n";
        let mut config = Config::parse(debian).without_modules();
        config.add(&Config::parse("CONFIG_SMP=n\nCONFIG_EXT4_FS=m # no comment\n"));
        config.add(&Config::parse("CONFIG_EXT4_FS=m"));
        config.set_suffix("-tracers");
        assert_eq!(
            config.render(),
            "CONFIG_BUILD_SALT=\"\"\nCONFIG_EXT4_FS=m\nCONFIG_HZ=250\n# CONFIG_KASAN is not set\n\
             CONFIG_LOCALVERSION=\"-tracers\"\nCONFIG_MODULE_SIG_KEY=\"\"\n# CONFIG_SMP is not set\n\
             CONFIG_SYSTEM_TRUSTED_KEYS=\"\"\n"
        );
    }

    #[test]
    fn options_that_the_kernel_did_not_take_are_told() {
        let wanted = Config::parse("CONFIG_A=y\nCONFIG_B=m\nCONFIG_C=n\nCONFIG_D=n\nCONFIG_E=m\n");
        let finished = Config::parse("CONFIG_B=y\nCONFIG_D=y\nCONFIG_E=m\nCONFIG_F=y\n");
        assert_eq!(wanted.not_taken(&finished), ["CONFIG_A=n", "CONFIG_D=y"]);
    }
}
