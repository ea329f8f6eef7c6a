//! Ticks, timers and interrupts: from the kernel's counters, and from a trace.
//!
//! ```text
//! /proc/interrupts, softirqs, timer_list ──proc──▶ Counters ──live::rates──▶ Live
//! Event ──trace::Analyzer──▶ TimerTrace: chains, functions, periods, handlers, what the tick costs
//! ```
//!
//! A timer's way (timer wheel): `timer_start` → the interrupt → `softirq_raise` → end of the
//! interrupt → `softirq_entry` → `timer_expire_entry` … `timer_expire_exit` → `softirq_exit`. A
//! high-resolution timer's function runs in the interrupt itself, or in its own softirq. The interrupt is
//! `irq_handler_entry` (ARM and others) or `irq_vectors:local_timer_entry` (x86).

mod account;
pub mod from_trace;
pub mod live;
pub mod part;
pub mod trace;
