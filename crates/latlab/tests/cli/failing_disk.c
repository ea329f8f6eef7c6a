/* Makes one call of a process on a disk fail, for tests: LD_PRELOAD=this FAIL_UNDER=DIR FAIL_AT=N FAIL_HOW=HOW.
 *
 * Calls that change something below DIR are counted from 0; number N fails, by HOW:
 *   ENOSPC  it, and every later one that needs space: the disk is full
 *   EIO     it alone; EIO-SQLITE is the same call by call, for a library that ignores some
 *   EINTR   it alone, where the call can be interrupted
 *   SHORT   a write of more than one byte writes half
 * FAIL_HIT names a file that is made when that happened. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITE, SYNC, MAKE, REMOVE, RENAME };
static atomic_long calls;
static atomic_int full;

static int below(const char *path) {
    const char *dir = getenv("FAIL_UNDER");
    char absolute[4096], cwd[4096];
    if (!dir) return 0;
    if (path[0] != '/' && getcwd(cwd, sizeof cwd)) {
        snprintf(absolute, sizeof absolute, "%.2000s/%.2000s", cwd, path);
        path = absolute;
    }
    return strncmp(path, dir, strlen(dir)) == 0;
}

static int fd_below(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    /* A pipe or a socket is called "pipe:[NUMBER]". */
    return path[0] == '/' && below(path);
}

/* 0: go on; -1: fail with errno; 1: write half. */
static int fails(enum kind kind, size_t length) {
    const char *how = getenv("FAIL_HOW"), *at = getenv("FAIL_AT"), *hit = getenv("FAIL_HIT");
    if (!how || !at || !hit) return 0;
    int space = kind == WRITE || kind == MAKE;
    long number = atomic_fetch_add(&calls, 1);
    if (space && full) return errno = ENOSPC, -1;
    if (number != atol(at)) return 0;
    close((int)syscall(SYS_openat, AT_FDCWD, hit, O_WRONLY | O_CREAT, 0600));
    if (!strcmp(how, "ENOSPC")) {
        full = 1;
        return space ? (errno = ENOSPC, -1) : 0;
    }
    if (!strncmp(how, "EIO", 3)) return errno = EIO, -1;
    if (!strcmp(how, "EINTR")) return kind == WRITE || kind == SYNC ? (errno = EINTR, -1) : 0;
    return kind == WRITE && length > 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRITES(name, PARAMETERS, ARGUMENTS)                          \
    ssize_t name PARAMETERS {                                        \
        if (fd_below(fd)) {                                          \
            int f = fails(WRITE, n);                                 \
            if (f < 0) return -1;                                    \
            if (f > 0) n /= 2;                                       \
        }                                                            \
        return REAL(name) ARGUMENTS;                                 \
    }
WRITES(write, (int fd, const void *b, size_t n), (fd, b, n))
WRITES(pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
WRITES(pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o))
ssize_t writev(int fd, const struct iovec *v, int n) {
    if (fd_below(fd)) {
        int f = fails(WRITE, n > 0 ? v[0].iov_len : 0);
        if (f < 0) return -1;
        if (f > 0) return REAL(write)(fd, v[0].iov_base, v[0].iov_len / 2);
    }
    return REAL(writev)(fd, v, n);
}
#define OF_FD(name, kind, PARAMETERS, ARGUMENTS) \
    int name PARAMETERS { return fd_below(fd) && fails(kind, 0) < 0 ? -1 : REAL(name) ARGUMENTS; }
OF_FD(fsync, SYNC, (int fd), (fd))
OF_FD(fdatasync, SYNC, (int fd), (fd))
OF_FD(ftruncate, WRITE, (int fd, off_t n), (fd, n))
OF_FD(ftruncate64, WRITE, (int fd, off64_t n), (fd, n))
#define OF_PATH(name, kind, PARAMETERS, ARGUMENTS) \
    int name PARAMETERS { return below(p) && fails(kind, 0) < 0 ? -1 : REAL(name) ARGUMENTS; }
OF_PATH(rename, RENAME, (const char *p, const char *to), (p, to))
OF_PATH(unlink, REMOVE, (const char *p), (p))
OF_PATH(mkdir, MAKE, (const char *p, mode_t m), (p, m))
#define OPENS(name)                                                              \
    int name(const char *p, int flags, ...) {                                    \
        va_list rest;                                                            \
        va_start(rest, flags);                                                   \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                \
        va_end(rest);                                                            \
        if (flags & O_CREAT && below(p) && fails(MAKE, 0) < 0) return -1;        \
        return REAL(name)(p, flags, mode);                                       \
    }
OPENS(open)
OPENS(open64)
