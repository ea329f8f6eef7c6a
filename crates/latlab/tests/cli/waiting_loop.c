/* A control loop of 5 ms that waits at two places inside: for a lock, whose owner sometimes has it for 2 ms, and for
 * a sensor, which every tenth time takes 2 ms. */
#include "control_loop.h"
#include <pthread.h>
#include <stdlib.h>

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
    prctl(PR_SET_NAME, "lock_owner");
    pthread_create(&other, NULL, owner, NULL);
    struct timespec next = begin();
    for (int n = 0; n < periods; n++) {
        wait_for_next(&next);
        update_state(n);
        read_sensor(n);
    }
    return 0;
}
