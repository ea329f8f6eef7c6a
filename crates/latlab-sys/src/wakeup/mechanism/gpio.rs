//! Wake-ups by an edge at a GPIO input that is wired to an output: version 2 of the character device
//! (include/uapi/linux/gpio.h, from Linux 5.10 on).
//!
//! An event has the time at which the interrupt's handler saw the edge, ns of CLOCK_MONOTONIC.

use super::brought::Brought;
use crate::probe::syscall::read;
use latlab_model::wakeup::mechanism::{GpioLine, GpioWire};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// `_IOWR(0xB4, 0x07, struct gpio_v2_line_request)` and `_IOWR(0xB4, 0x0F, struct gpio_v2_line_values)`.
const GET_LINE: u32 = 0xc250_b407;
const SET_VALUES: u32 = 0xc010_b40f;
/// `GPIO_V2_LINE_FLAG_…`: input with both edges, output.
const INPUT: u64 = 1 << 2 | 1 << 4 | 1 << 5;
const OUTPUT: u64 = 1 << 3;
/// Time in which an edge has to arrive when it is tried, ns.
const ATTEMPT_NS: i64 = 200_000_000;

/// `struct gpio_v2_line_request`: a configuration is flags, a number of attributes and ten of them.
#[repr(C)]
struct Request {
    offsets: [u32; 64],
    consumer: [u8; 32],
    flags: u64,
    attribute_count: u32,
    padding: [u32; 5],
    attributes: [[u64; 3]; 10],
    line_count: u32,
    event_buffer_size: u32,
    unused: [u32; 5],
    fd: i32,
}

/// `struct gpio_v2_line_values`.
#[repr(C)]
struct Values {
    bits: u64,
    mask: u64,
}

const _: () = assert!(size_of::<Request>() == 592 && size_of::<Values>() == 16);
/// Bytes of `struct gpio_v2_line_event`, which begins with the time.
const EVENT: usize = 48;

/// An output and the input that it is wired to, while they are ours.
pub struct Wire {
    output: OwnedFd,
    input: OwnedFd,
    high: AtomicBool,
}

impl Wire {
    /// Requests both lines, and sees that a change of the output arrives at the input.
    ///
    /// # Errors
    /// When a line is not there or in use, or no edge arrives.
    pub fn open(wire: &GpioWire) -> io::Result<Self> {
        let (output, input) = (line(&wire.output, OUTPUT)?, line(&wire.input, INPUT)?);
        let wired = Self { output, input, high: AtomicBool::new(false) };
        // Both edges, and the output is low again.
        for _ in 0..2 {
            wired.change()?;
            let mut ready = [PollFd::new(&wired.input, PollFlags::IN)];
            let wait = Timespec { tv_sec: 0, tv_nsec: ATTEMPT_NS as _ };
            if poll(&mut ready, Some(&wait)).unwrap_or(0) == 0 {
                return Err(io::Error::other(format!(
                    "no edge at {} within {} ms of a change of {}: connect the two lines by a wire",
                    wire.input,
                    ATTEMPT_NS / 1_000_000,
                    wire.output
                )));
            }
            wired.wait()?;
        }
        Ok(wired)
    }

    /// The other level at the output.
    ///
    /// # Errors
    /// The driver's.
    #[inline]
    pub fn change(&self) -> io::Result<()> {
        let high = !self.high.load(Ordering::Relaxed);
        self.high.store(high, Ordering::Relaxed);
        let mut values = Values { bits: u64::from(high), mask: 1 };
        // SAFETY: the structure is the one of this request, and lives through the call.
        let rc = unsafe { libc::ioctl(self.output.as_raw_fd(), SET_VALUES as _, &raw mut values) };
        if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits for an edge.
    ///
    /// # Errors
    /// The kernel's.
    #[inline]
    pub fn wait(&self) -> io::Result<Brought> {
        let mut event = [0; EVENT];
        read(&self.input, &mut event)?;
        let stamp_ns = event.first_chunk().map_or(0, |time| u64::from_ne_bytes(*time));
        Ok(Brought { stamp_ns, ..Brought::default() })
    }
}

fn line(line: &GpioLine, flags: u64) -> io::Result<OwnedFd> {
    let path = ["/dev/", &line.chip].concat();
    let said = |text: String| io::Error::other(text);
    let chip = File::open(&path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            said(format!("{path}: there is no such GPIO chip (gpiodetect lists those that are)"))
        }
        _ => said(format!("{path}: {e}")),
    })?;
    let fd = request(&chip, line.offset, flags).map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY) => said(format!("{line}: another program or driver has this line (gpioinfo names it)")),
        Some(libc::ENOTTY) => said(format!("{path}: no GPIO chip, or a kernel without version 2 of its interface (from Linux 5.10 on)")),
        Some(libc::EINVAL) => said(format!("{line}: the chip has no such line, or the kernel no version 2 of the interface (from Linux 5.10 on)")),
        Some(libc::ENXIO | libc::EOPNOTSUPP | libc::ENOTSUP) if flags == INPUT => {
            said(format!("{line}: this line has no interrupt; choose another input"))
        }
        _ => said(format!("{line}: {e}")),
    })?;
    Ok(fd)
}

/// A descriptor of one line.
fn request(chip: &File, offset: u32, flags: u64) -> io::Result<OwnedFd> {
    // SAFETY: plain integers, for which zero is a value, and which the kernel wants for what is not used.
    let mut request: Request = unsafe { std::mem::zeroed() };
    request.offsets[0] = offset;
    request.consumer[..6].copy_from_slice(b"latlab");
    (request.flags, request.line_count) = (flags, 1);
    // SAFETY: the structure is the one of this request, and lives through the call.
    let rc = unsafe { libc::ioctl(chip.as_raw_fd(), GET_LINE as _, &raw mut request) };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(request.fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_gpio_chip_is_refused_by_name() {
        let open = |chip: &str| {
            let line = |offset| GpioLine { chip: chip.into(), offset };
            Wire::open(&GpioWire { output: line(0), input: line(1) })
                .map(drop)
                .unwrap_err()
                .to_string()
        };
        assert!(open("gpiochip987").contains("/dev/gpiochip987: there is no such GPIO chip"));
        assert!(open("null").contains("/dev/null: no GPIO chip"), "{}", open("null"));
    }
}
