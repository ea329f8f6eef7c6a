//! Requirements that come with latlab, each with the source of its figures.

/// A profile.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Name, as `@NAME` on the command line.
    pub name: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// The requirements.
    pub text: &'static str,
}

/// All profiles.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "audio-5ms",
        what: "audio with periods of 5 ms",
        text: "\
# 240 frames at 48 kHz are 5 ms. A period is lost when the wake-up and the computation together take longer than it;
# half of it is left to the computation.
wakeup: max < 2500 us, missed = 0, interval 5 ms, priority 70, under cpu, 10 min
",
    },
    Profile {
        name: "motor-1khz",
        what: "motor and robot control at 1 kHz",
        text: "\
# A command each millisecond (Franka Control Interface: 1 kHz). A wake-up in 100 us leaves 900 us to computation and
# network; a late one is a missed command.
wakeup: p99.9 < 50 us, max < 100 us, missed = 0, interval 1 ms, priority 80, under cpu, 10 min
",
    },
    Profile {
        name: "ethercat-250us",
        what: "EtherCAT with a cycle of 250 us",
        text: "\
# The share of the cycle that jitter may take is the application's; a fifth of it here, 50 us.
wakeup: p99.99 < 30 us, max < 50 us, missed = 0, interval 250 us, priority 90, under cpu, 10 min
doctor: rt.throttling = ok
",
    },
    Profile {
        name: "vran",
        what: "telco vRAN: a busy loop and a wake-up on isolated CPUs",
        text: "\
# Red Hat, Configuring virtualization on RHEL 10 for Real Time, stress tests: oslat at most 20 us, cyclictest at most
# 40 us with an interval of 200 us, each for 12 hours.
noise: max < 20 us, threshold 1 us, 12 h
wakeup: max < 40 us, missed = 0, interval 200 us, priority 95, 12 h
",
    },
    Profile {
        name: "cnc-base",
        what: "CNC: step pulses by software in a base thread",
        text: "\
# LinuxCNC's base thread has a period of 25 us by default (latency-plot(1), --base); the servo thread 1 ms. Software
# step pulses need jitter well below the base period.
wakeup: max < 20 us, interval 1 ms, priority 90, under cpu, 10 min
noise: max < 20 us, threshold 1 us, 10 min
",
    },
];

/// The profile of a name.
pub fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|p| p.name == name)
}
