//! Whether fair tasks that ran before a control group got runtime had the CPU by its limit (`cpu.max`) or by the
//! scheduler's choice, where counters of the group tell it.

use super::summary::Digest;
use latlab_model::latency::{Cause, Share, Window};

/// Gives such time to its cause in all wake-ups of a capture: no runtime where the group was `throttled` at the end of each
/// period, tasks of equal priority where in none.
pub(super) fn decide(digest: &mut Digest, throttled: bool) {
    digest.windows.iter_mut().for_each(|window| decide_window(window, throttled));
    let parts = digest.examples.iter_mut().flatten().flat_map(|example| &mut example.parts);
    for part in parts.filter(|part| part.cause == Cause::FairOrBandwidth) {
        part.cause = cause(throttled);
    }
}

fn cause(throttled: bool) -> Cause {
    if throttled { Cause::Throttled } else { Cause::EqualPriority }
}

fn decide_window(window: &mut Window, throttled: bool) {
    for (group, _) in &mut window.shares {
        if group.cause == Cause::FairOrBandwidth {
            group.cause = cause(throttled);
            if throttled {
                group.who.clear();
            }
        }
    }
    let shares = &mut window.shares;
    let mut i = 0;
    while i < shares.len() {
        match shares[..i].iter().position(|s| s.0 == shares[i].0) {
            Some(same) => {
                let (_, more) = shares.remove(i);
                join(&mut shares[same].1, &more);
            }
            None => i += 1,
        }
    }
}

/// Adds the times of a share to another one.
fn join(known: &mut Share, more: &Share) {
    known.ns = known.ns.saturating_add(more.ns);
    known.times += more.times;
    known.whole_ns = known.whole_ns.saturating_add(more.whole_ns);
    known.not_compared_ns = known.not_compared_ns.saturating_add(more.not_compared_ns);
    known.silent_ns = known.silent_ns.max(more.silent_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use latlab_model::latency::Group;

    fn decided(throttled: bool) -> Vec<(Cause, String, u64)> {
        let of = |cause, who: &str, ns| {
            (Group { cause, who: who.into() }, Share { ns, times: 1, ..Share::default() })
        };
        let shares = vec![
            of(Cause::EqualPriority, "make", 2_000),
            of(Cause::FairOrBandwidth, "make", 8_000),
            of(Cause::FairOrBandwidth, "sh", 4_000),
        ];
        let mut digest = Digest::default();
        digest.windows.push(Window { shares, ..Window::default() });
        decide(&mut digest, throttled);
        let shares = digest.windows.remove(0).shares.into_iter();
        shares.map(|(g, s)| (g.cause, g.who, s.ns)).collect()
    }

    #[test]
    fn the_counters_of_the_group_decide() {
        let of = |cause, who: &str, ns| (cause, who.to_owned(), ns);
        let limited =
            vec![of(Cause::EqualPriority, "make", 2_000), of(Cause::Throttled, "", 12_000)];
        assert_eq!(decided(true), limited);
        let shared =
            vec![of(Cause::EqualPriority, "make", 10_000), of(Cause::EqualPriority, "sh", 4_000)];
        assert_eq!(decided(false), shared);
    }
}
