//! The sender: gives the receiver its blocks, and wakes it in those of other mechanisms than timers.

use super::shared::{Ready, Row, Shared, WARM_UP};
use crate::policy::{self, Budget};
use crate::wakeup::{WakeupError, os};
use latlab_model::wakeup::config::Policy;
use std::sync::atomic::Ordering;

/// Length of a block, ns, and its number of wake-ups.
const BLOCK_NS: u64 = 100_000_000;
const BLOCK: std::ops::RangeInclusive<u64> = 5..=1_000;
/// A measurement of known length has at least so many blocks of each row.
const ROUNDS: u64 = 10;
/// A receiver that is not back so long after a call, in so many checks, was not woken by it.
const LOST_NS: u64 = 1_000_000_000;
const LOST_CHECKS: u32 = 3;

/// The thread from its first to its last line.
pub fn send(shared: &Shared<'_>, ready: &Ready) {
    os::block_stop_signals();
    let config = shared.config;
    let below = shared.sender_priority();
    let set = policy::set(config.policy, below, Budget::default());
    let set = set.map_err(|source| WakeupError::Policy {
        policy: config.policy,
        priority: below,
        source,
    });
    let failed = set.is_err();
    let _ = ready.send((1, set.map(|()| os::tid())));
    if failed {
        return;
    }
    while shared.start_ns.load(Ordering::Acquire) == 0 && !shared.control.stopping() {
        os::sleep_for(1_000_000);
    }
    os::sleep_until(shared.start_ns.load(Ordering::Acquire).min(os::now_ns() + LOST_NS));
    rounds(shared);
    // What follows is no measurement: no longer in anybody's way.
    let _ = policy::set(Policy::Other, 0, Budget::default());
    shared.turn.end();
}

/// Wake-ups of a block: 100 ms, less where the measurement would have less than ten of each row.
fn block_of(shared: &Shared<'_>) -> u64 {
    let interval = shared.config.interval_ns;
    let rounds = interval.saturating_mul(shared.rows.len() as u64 * ROUNDS);
    let most = shared.config.duration_ns.map_or(u64::MAX, |d| (d / rounds).saturating_sub(WARM_UP));
    (BLOCK_NS / interval).min(most).clamp(*BLOCK.start(), *BLOCK.end())
}

/// Blocks of all rows in random order, again and again.
fn rounds(shared: &Shared<'_>) {
    let rows = shared.rows;
    let block = block_of(shared);
    let mut left: Vec<u64> = vec![shared.config.loops.unwrap_or(u64::MAX); rows.len()];
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    loop {
        shuffle(&mut order, &mut random);
        for &k in &order {
            if shared.control.stopping() || os::now_ns() >= shared.end_ns() {
                return;
            }
            if left[k] == 0 || rows[k].lost.load(Ordering::Relaxed) {
                continue;
            }
            let count = block.min(left[k]);
            send_block(shared, k, count);
            left[k] -= if shared.config.loops.is_some() { count } else { 0 };
        }
        let is_done = |(row, &left): (&Row, &u64)| left == 0 || row.lost.load(Ordering::Relaxed);
        if rows.iter().zip(&left).all(is_done) {
            return;
        }
    }
}

/// Fisher–Yates with xorshift64 (Marsaglia 2003): the same order in every run.
fn shuffle(order: &mut [usize], random: &mut u64) {
    for i in (1..order.len()).rev() {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        order.swap(i, (*random % (i as u64 + 1)) as usize);
    }
}

fn send_block(shared: &Shared<'_>, k: usize, count: u64) {
    let row = &shared.rows[k];
    if let Some(cpu) = row.woken.from {
        // That it can be bound was tried before; a CPU that went offline is measured from another.
        let _ = policy::bind(&[cpu]);
    }
    let Some(pair) = &row.pair else {
        shared.turn.give(k, count);
        while !shared.turn.wait_back(LOST_NS) {}
        return;
    };
    let (policy, priority) = (shared.config.policy, shared.sender_priority());
    pair.begin(policy, priority);
    shared.turn.give(k, count);
    let lost = !calls(shared, k, count + WARM_UP);
    row.lost.fetch_or(lost, Ordering::Relaxed);
    // It is back already, unless it was told to stop or was not woken.
    let receiver = shared.receiver.load(Ordering::Relaxed);
    while !shared.turn.is_back() {
        pair.end();
        os::end_sleep_of(receiver);
        shared.turn.wait_back(1_000_000);
    }
    pair.release(policy, priority);
}

/// Wakes the receiver so many times; false when a call did not wake it.
fn calls(shared: &Shared<'_>, k: usize, calls: u64) -> bool {
    let Some(pair) = &shared.rows[k].pair else { return true };
    let (interval, end_ns) = (shared.config.interval_ns, shared.end_ns());
    let mut last = os::now_ns();
    let (mut next, mut made, mut late) = (last + interval, 0, 0);
    while !shared.turn.is_back() {
        let at = if made < calls { next } else { os::now_ns() + interval.min(1_000_000) };
        while !os::sleep_until(at) && !shared.control.stopping() {}
        if shared.control.stopping() || at >= end_ns {
            return true;
        }
        let now = os::now_ns();
        if let Some(echo) = pair.echo().filter(|_| !pair.all_taken())
            && echo.is_lost(now.saturating_sub(last))
        {
            if echo.is_gone() {
                return false;
            }
            // The call is made again: it woke nobody.
            made = made.saturating_sub(1);
            last = now;
        }
        let may_call = pair.all_taken() || last == now;
        if made < calls && may_call {
            if pair.wake().is_err() {
                return false;
            }
            (last, late) = (now, 0);
            made += 1;
        } else if now.saturating_sub(last) > LOST_NS {
            late += 1;
            if late == LOST_CHECKS {
                return false;
            }
        }
        next += interval;
        let now = os::now_ns();
        if next <= now {
            next = now + interval;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_every_round_and_orders_differ() {
        let (mut order, mut random) = ((0..6).collect::<Vec<_>>(), 1);
        let mut orders = std::collections::BTreeSet::new();
        for _ in 0..20 {
            shuffle(&mut order, &mut random);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
            orders.insert(order.clone());
        }
        assert!(orders.len() > 10);
    }
}
