//! `--by`: mechanisms that wake a task; `--core`: what else schedules it.

use clap::ValueEnum;
use latlab_model::wakeup::mechanism::{EchoHost, GpioLine, GpioWire, Mechanism};

/// A real-time core beside Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CoreArg {
    /// Cobalt of Xenomai 3.
    Cobalt,
    /// EVL (Xenomai 4).
    Evl,
}

/// Mechanisms, each once, in the order in which they were named.
#[derive(Clone, Debug, Default)]
pub struct By {
    /// The mechanisms.
    pub mechanisms: Vec<Mechanism>,
    /// The machine of `udp:HOST`.
    pub host: Option<EchoHost>,
    /// The lines of `gpio:…`.
    pub gpio: Option<GpioWire>,
}

impl By {
    /// A single timer, which any number of threads can have.
    pub fn only_timer(&self) -> Option<Mechanism> {
        match self.mechanisms.as_slice() {
            [one] if one.is_timer() => Some(*one),
            _ => None,
        }
    }

    /// As on the command line.
    pub fn names(&self) -> String {
        names(self.mechanisms.iter().copied(), ",")
    }
}

fn names(mechanisms: impl Iterator<Item = Mechanism>, separator: &str) -> String {
    mechanisms.map(Mechanism::id).collect::<Vec<_>>().join(separator)
}

/// Those that need no name of a machine or line: `all`.
fn inside() -> impl Iterator<Item = Mechanism> {
    Mechanism::ALL.into_iter().filter(|m| !m.is_outside())
}

/// `timerfd,futex`, `udp:HOST`, `gpio:CHIP:OUT:IN`, or `all`.
///
/// # Errors
/// A name that is no mechanism, or is there twice.
pub fn parse(text: &str) -> Result<By, String> {
    if text == "all" {
        return Ok(By { mechanisms: inside().collect(), ..By::default() });
    }
    let mut by = By::default();
    for word in text.split(',') {
        let mechanism = match word.split_once(':') {
            Some(("udp", host)) => {
                by.host = Some(echo_host(host)?);
                Mechanism::UdpHost
            }
            Some(("gpio", lines)) => {
                by.gpio = Some(wire(lines)?);
                Mechanism::Gpio
            }
            _ if word == "gpio" => return Err(no_lines()),
            _ => inside().find(|m| m.id() == word).ok_or_else(|| {
                let known = names(inside(), ", ");
                format!("'{word}' is no mechanism: {known}, udp:HOST, gpio:CHIP:OUT:IN, all")
            })?,
        };
        if by.mechanisms.contains(&mechanism) {
            return Err(format!("'{word}' is named twice"));
        }
        by.mechanisms.push(mechanism);
    }
    Ok(by)
}

/// `NAME[:PORT]`; its address is not known yet.
fn echo_host(name: &str) -> Result<EchoHost, String> {
    let (host, port) = match name.strip_prefix('[').and_then(|n| n.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        // Of several colons none is that of a port.
        None if name.matches(':').count() > 1 => (name, None),
        None => name.split_once(':').map_or((name, None), |(h, p)| (h, Some(p))),
    };
    let is_port = |p: &str| p.parse::<u16>().is_ok_and(|p| p > 0);
    if host.is_empty() || port.is_some_and(|p| !is_port(p)) {
        return Err(format!(
            "'udp:{name}': expected udp:NAME of latlab bench --serve, or udp:NAME:PORT of a UDP echo server"
        ));
    }
    Ok(EchoHost { name: name.to_owned(), address: String::new(), is_latlab: port.is_none() })
}

fn no_lines() -> String {
    "gpio: expected gpio:CHIP:OUT:IN (such as gpio:gpiochip0:17:27), with a wire from line OUT to line IN; gpioinfo lists lines".to_owned()
}

/// `CHIP:OUT:IN`, or `CHIP:OUT:CHIP:IN` with a line of another chip.
fn wire(text: &str) -> Result<GpioWire, String> {
    let words: Vec<&str> = text.split(':').collect();
    let [chip, output, rest @ ..] = words.as_slice() else { return Err(no_lines()) };
    let (other, input) = match rest {
        [input] => (chip, input),
        [other, input] => (other, input),
        _ => return Err(no_lines()),
    };
    let wire = line(chip, output).zip(line(other, input));
    let (output, input) = wire.ok_or_else(no_lines)?;
    if output == input {
        return Err(format!("gpio:{text}: the input is the output; name two lines"));
    }
    Ok(GpioWire { output, input })
}

/// A line of `gpiochip0`, `/dev/gpiochip0` or `0`.
fn line(chip: &str, offset: &str) -> Option<GpioLine> {
    let chip = chip.strip_prefix("/dev/").unwrap_or(chip);
    let is_number = !chip.is_empty() && chip.bytes().all(|b| b.is_ascii_digit());
    let chip = if is_number { ["gpiochip", chip].concat() } else { chip.to_owned() };
    let is_name = chip.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    let offset = offset.parse().ok()?;
    (is_name && !chip.is_empty()).then_some(GpioLine { chip, offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_server_of_latlab_unless_it_has_a_port() {
        let host = |text: &str| parse(text).unwrap().host.unwrap();
        assert!(host("udp:board").is_latlab && host("udp:fd00::7").is_latlab);
        assert!(host("udp:[fd00::7]").is_latlab);
        for with in ["udp:192.0.2.7:7", "udp:[fd00::7]:7"] {
            assert!(!host(with).is_latlab, "{with}");
        }
        for wrong in
            ["udp:", "udp:board:", "udp:board:x", "udp:board:0", "udp::7", "udp:board:70000"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let by = parse("timerfd,udp,udp:board").unwrap();
        assert_eq!(by.names(), "timerfd,udp,udp-host");
        assert!(parse("udp:a,udp:b").unwrap_err().contains("named twice"));
        assert!(parse("udp-host").is_err() && !parse("all").unwrap().names().contains("gpio"));
    }

    #[test]
    fn gpio_lines_are_of_one_chip_or_of_two() {
        let lines = |text: &str| {
            let wire = parse(text).unwrap().gpio.unwrap();
            [wire.output.to_string(), wire.input.to_string()]
        };
        assert_eq!(lines("gpio:gpiochip0:17:27"), ["gpiochip0:17", "gpiochip0:27"]);
        assert_eq!(lines("gpio:0:17:/dev/gpiochip1:3"), ["gpiochip0:17", "gpiochip1:3"]);
        for wrong in [
            "gpio",
            "gpio:",
            "gpio:0",
            "gpio:0:1",
            "gpio:0:1:1",
            "gpio:0:1:x",
            "gpio:../x:1:2",
            "gpio::1:2",
        ] {
            assert!(parse(wrong).unwrap_err().contains("gpio"), "{wrong}");
        }
    }
}
