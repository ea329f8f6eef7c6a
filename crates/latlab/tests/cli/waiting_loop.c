/* A control loop of 5 ms that waits at two places inside: for a lock, whose owner sometimes has it for 2 ms, and for
 * a sensor, which every tenth time takes 2 ms. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile double state[64];

static void pause_us(long us)
{
    struct timespec t = {0, us * 1000};
    nanosleep(&t, NULL);
}

static inline __attribute__((always_inline)) void mix(int k)
{
    for (int i = 0; i < 64; i++)
        state[i] = state[i] * 0.9 + k;
}

static inline __attribute__((always_inline)) void take_lock(void)
{
    pthread_mutex_lock(&lock);
}

__attribute__((noinline)) static void update_state(int k)
{
    take_lock();
    mix(k);
    pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void read_sensor(int n)
{
    pause_us(n % 10 == 3 ? 2000 : 100);
    mix(n);
}

static void *owner(void *unused)
{
    for (int n = 0;; n++) {
        pause_us(13000 + n % 7 * 1000);
        pthread_mutex_lock(&lock);
        pause_us(2000);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

int main(int argc, char **argv)
{
    int periods = argc > 1 ? atoi(argv[1]) : 1000;
    pthread_t other;
    struct sched_param p = {.sched_priority = 50};
    struct timespec next;
    prctl(PR_SET_NAME, "lock_owner");
    pthread_create(&other, NULL, owner, NULL);
    prctl(PR_SET_NAME, "ctl_loop");
    sched_setscheduler(0, SCHED_FIFO, &p);
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int n = 0; n < periods; n++) {
        next.tv_nsec += 5000000;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        update_state(n);
        read_sensor(n);
    }
    return 0;
}
