/* A real-time thread `ctl_loop` with a period of 5 ms. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

/* The calling thread becomes the control loop; its first period begins now. */
static struct timespec begin(void)
{
    struct sched_param p = {.sched_priority = 50};
    struct timespec now;
    prctl(PR_SET_NAME, "ctl_loop");
    sched_setscheduler(0, SCHED_FIFO, &p);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now;
}

static void wait_for_next(struct timespec *next)
{
    next->tv_nsec += 5000000;
    if (next->tv_nsec >= 1000000000) {
        next->tv_nsec -= 1000000000;
        next->tv_sec++;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
}
