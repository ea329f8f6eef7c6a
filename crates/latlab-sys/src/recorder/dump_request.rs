//! SIGUSR1: "write down what you have".

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// Installs the handler.
pub fn install() {
    // SAFETY: `action` is fully initialised, the handler only stores an atomic, and the old
    // action is not asked for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
}

/// Whether the signal came since the last call.
pub fn take() -> bool {
    ASKED.swap(false, Ordering::Relaxed)
}
