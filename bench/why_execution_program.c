/* A task whose every 10th activation takes longer for a known reason, for bench/why-execution:
 * WAIT FAULT SECONDS PERIOD_US SIZE
 *
 * WAIT: abs (clock_nanosleep to an absolute time), timerfd, poll (ppoll with the rest of the period).
 * FAULT, and what SIZE counts: none; work (turns of the task's loop), pages (pages written for the first time),
 * calls (system calls), preempt (turns of a thread of higher priority), wait (us that the task sleeps inside).
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { USUAL = 20000, EVERY = 10, PAGES = 4096 };
static sem_t go;
static long size;

static void turns(long n)
{
    for (volatile long k = 0; k < n; k++)
        ;
}

static void be(const char *name, int priority)
{
    struct sched_param p = {priority};
    prctl(PR_SET_NAME, name);
    if (sched_setscheduler(0, SCHED_FIFO, &p)) {
        perror(name);
        exit(3);
    }
}

static void *hog(void *unused)
{
    be("hog", 60);
    for (;;) {
        sem_wait(&go);
        turns(size);
    }
    return unused;
}

static struct timespec spec(int64_t ns) { return (struct timespec){ns / 1000000000, ns % 1000000000}; }

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    const char *wait = argv[1], *fault = argv[2];
    int64_t period = atol(argv[4]) * 1000LL, end = now() + atol(argv[3]) * 1000000000LL;
    size = atol(argv[5]);
    pthread_t thread;
    sem_init(&go, 0, 0);
    if (pthread_create(&thread, NULL, hog, NULL))
        return 3;
    be("task", 50);
    char *memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    int64_t next = now() + period;
    for (long k = 1; now() < end; k++, next += period) {
        struct timespec t = spec(next), rest = spec(next > now() ? next - now() : 0);
        if (strcmp(wait, "timerfd") == 0) {
            struct itimerspec at = {{0, 0}, t};
            uint64_t expired;
            timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
            if (read(timer, &expired, sizeof expired) < 0)
                return 3;
        } else if (strcmp(wait, "poll") == 0) {
            ppoll(NULL, 0, &rest, NULL);
        } else {
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        }
        turns(USUAL);
        if (k % EVERY != 0)
            continue;
        if (strcmp(fault, "work") == 0)
            turns(size);
        if (strcmp(fault, "pages") == 0) {
            for (long page = 0; page < size && page < PAGES; page++)
                memory[page * 4096] = 1;
            // Outside of the next activations: what is given back costs little.
            madvise(memory, PAGES * 4096, MADV_DONTNEED);
        }
        if (strcmp(fault, "calls") == 0)
            for (long n = 0; n < size; n++)
                syscall(SYS_getppid);
        if (strcmp(fault, "preempt") == 0)
            sem_post(&go);
        if (strcmp(fault, "wait") == 0) {
            struct timespec inside = spec(size * 1000LL);
            nanosleep(&inside, NULL);
        }
    }
    return 0;
}
