//! Functions of the C library that a static build replaces, because they bring most of it along: 0.1 MB of message
//! catalogues, character sets, a dynamic linker, `printf` and `scanf` that no board needs.
//!
//! **Invariant:** no code of latlab and of its C dependencies calls them; their callers are in glibc and in `std`.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `std` asks for the bounds of a thread's stack, to tell an overflow from another bad address; glibc reads
/// `/proc/self/maps` with `scanf` for it. Without them an overflow is SIGSEGV without a message.
///
/// Returns ENOSYS.
#[unsafe(no_mangle)]
extern "C" fn pthread_getattr_np(_thread: libc::pthread_t, _attributes: *mut c_void) -> c_int {
    libc::ENOSYS
}

/// The English text of an error, without a look into the catalogues of other languages.
#[unsafe(no_mangle)]
extern "C" fn __dcgettext(
    _domain: *const c_char,
    text: *const c_char,
    _category: c_int,
) -> *const c_char {
    text
}

/// An assertion of glibc that does not hold.
#[unsafe(no_mangle)]
extern "C" fn __assert_fail(
    _expression: *const c_char,
    _file: *const c_char,
    _line: c_uint,
    _function: *const c_char,
) -> ! {
    std::process::abort()
}

/// `malloc_stats` and `malloc_info`, which are in the same object as `malloc`, print with it.
///
/// Returns that nothing was written.
#[unsafe(no_mangle)]
extern "C" fn fprintf(_stream: *mut c_void, _format: *const c_char) -> c_int {
    -1
}

/// `std` looks for functions that only some C libraries have, and does without them.
///
/// Returns that there is none: nothing can be loaded into a static program.
#[unsafe(no_mangle)]
extern "C" fn dlsym(_library: *mut c_void, _name: *const c_char) -> *mut c_void {
    std::ptr::null_mut()
}

/// Names the calling thread, as `std` does; glibc's prints a path for other threads.
///
/// Returns 0, or the number of an error: ENOSYS for another thread.
#[unsafe(no_mangle)]
extern "C" fn pthread_setname_np(thread: libc::pthread_t, name: *const c_char) -> c_int {
    // SAFETY: no argument.
    if thread != unsafe { libc::pthread_self() } {
        return libc::ENOSYS;
    }
    // SAFETY: the caller's string ends with 0; the kernel reads at most 16 bytes of it.
    match unsafe { libc::prctl(libc::PR_SET_NAME, name) } {
        0 => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL),
    }
}

/// The end of a thread releases what its resolver has: no host is looked up.
#[unsafe(no_mangle)]
extern "C" fn __resolv_context_freeres() {}

/// As [`__resolv_context_freeres`].
#[unsafe(no_mangle)]
extern "C" fn __resolv_conf_detach(_state: *mut c_void) {}

/// Returns that there is no resolver.
#[unsafe(no_mangle)]
extern "C" fn __res_vinit(_state: *mut c_void, _preinit: c_int) -> c_int {
    -1
}

/// An array of glibc was used beyond its end.
#[unsafe(no_mangle)]
extern "C" fn __libc_dynarray_at_failure(_size: usize, _index: usize) -> ! {
    std::process::abort()
}
