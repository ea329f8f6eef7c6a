/* Sets the wall clock of one process back and forth by an hour with each reading, for tests: LD_PRELOAD=this.
 * STEPS_HIT names a file that is made when the clock was read. Other clocks are left alone, as by
 * clock_settime(2). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static atomic_long readings;

static long step(void) {
    const char *hit = getenv("STEPS_HIT");
    if (hit) close((int)syscall(SYS_openat, AT_FDCWD, hit, O_WRONLY | O_CREAT, 0600));
    return atomic_fetch_add(&readings, 1) % 2 ? -3600 : 3600;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int r = (int)syscall(SYS_clock_gettime, clock, at);
    if (r == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += step();
    return r;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
