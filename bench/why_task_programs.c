/* Programs with a known fault, for bench/why-task: PROGRAM FAULT SECONDS PERIOD_US SIZE_US
 *
 * The measured thread is called "task". It works 200 us in each period; in every 20th period the fault makes it
 * SIZE_US later. Helpers run on the last CPU, the task on the first one (a deadline task where the kernel wants).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static const char *program, *fault;
static long period, size, first, last;
static int ask[2], answer[2], ask2[2], answer2[2], start_pipe[2], wake_hog[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, condition_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long started;
static volatile long held;

static int is(const char *text, const char *name) { return strcmp(text, name) == 0; }

static long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* So much of the thread's own time, whatever interrupts it. */
static void burn(long us)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    long end = t.tv_sec * 1000000000L + t.tv_nsec + us * 1000;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_sec * 1000000000L + t.tv_nsec < end);
}

static struct timespec spec(long ns) { return (struct timespec){ns / 1000000000, ns % 1000000000}; }

static void until(long ns)
{
    struct timespec t = spec(ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static void rest(long ns)
{
    struct timespec t = spec(ns > 0 ? ns : 0);
    nanosleep(&t, NULL);
}

static void get(int fd)
{
    char c;
    while (read(fd, &c, 1) < 0 && errno == EINTR)
        ;
}

static void put(int fd)
{
    while (write(fd, "x", 1) < 0 && errno == EINTR)
        ;
}

static void be(const char *name, int priority, long cpu)
{
    struct sched_param p = {priority};
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    prctl(PR_SET_NAME, name);
    if (sched_setaffinity(0, sizeof set, &set) || sched_setscheduler(0, SCHED_FIFO, &p)) {
        perror(name);
        exit(3);
    }
}

static void begin(void *(*run)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL)) {
        perror("pthread_create");
        exit(3);
    }
}

/* Answers each question; every 20th takes long, where that is the fault. */
static void *helper(void *unused)
{
    be("helper", 30, last);
    for (long k = 1;; k++) {
        get(ask[0]);
        int late = k % 20 == 0;
        burn(50);
        if (late && is(fault, "ask"))
            burn(size);
        if (is(fault, "chain")) {
            put(ask2[1]);
            get(answer2[0]);
        }
        if (late && is(fault, "starve")) {
            put(wake_hog[1]);
            burn(20);
        }
        put(answer[1]);
    }
    return unused;
}

static void *second(void *unused)
{
    be("second", 30, last);
    for (long k = 1;; k++) {
        get(ask2[0]);
        burn(k % 20 == 0 ? size : 30);
        put(answer2[1]);
    }
    return unused;
}

/* Holds the lock for long while the task wants it. */
static void *holder(void *unused)
{
    be("holder", 20, last);
    for (;;) {
        get(ask[0]);
        pthread_mutex_lock(&lock);
        held = 1;
        burn(size + 100);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *hog(void *unused)
{
    int beside = is(fault, "starve");
    be("hog", beside ? 40 : 60, beside ? last : first);
    for (;;) {
        get(wake_hog[0]);
        burn(size);
    }
    return unused;
}

static void *producer(void *unused)
{
    be("producer", 70, last);
    for (long t = now() + period;; t += period) {
        until(t);
        burn(20);
        if (is(program, "pipe")) {
            put(start_pipe[1]);
        } else {
            pthread_mutex_lock(&condition_lock);
            started++;
            pthread_cond_signal(&condition);
            pthread_mutex_unlock(&condition_lock);
        }
    }
    return unused;
}

static void nothing(int unused) {}

/* Sends signals to the task while it sleeps, three in every period. */
static void *signaller(void *unused)
{
    be("signaller", 40, last);
    for (;;) {
        rest(period / 3);
        syscall(SYS_tgkill, getpid(), getpid(), SIGUSR2);
    }
    return unused;
}

/* Another process, which stops this one before every 20th activation until size after its time. */
static void stop_from(pid_t task, long begun)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be("stopper", 60, last);
    for (long due = begun + 20 * period;; due += 20 * period) {
        until(due - 300000);
        kill(task, SIGSTOP);
        until(due + size * 1000);
        kill(task, SIGCONT);
    }
}

static void work(long k)
{
    int late = k % 20 == 0;
    burn(100);
    if (late && is(fault, "burn"))
        burn(size);
    if (is(fault, "sleep"))
        rest(late ? size * 1000 : 60000);
    if (is(fault, "ask") || is(fault, "chain") || is(fault, "starve")) {
        put(ask[1]);
        get(answer[0]);
    }
    if (late && is(fault, "hog"))
        put(wake_hog[1]);
    if (is(fault, "lock") || is(fault, "pi")) {
        if (late) {
            held = 0;
            put(ask[1]);
            while (!held)
                ;
        }
        pthread_mutex_lock(&lock);
        burn(5);
        pthread_mutex_unlock(&lock);
    }
    burn(100);
}

struct attributes {
    unsigned size, policy;
    unsigned long long flags;
    int nice;
    unsigned priority;
    unsigned long long runtime, deadline, period;
};

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    program = argv[1];
    fault = argv[2];
    double seconds = atof(argv[3]);
    period = atol(argv[4]) * 1000;
    size = atol(argv[5]);
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    for (last = CPU_SETSIZE - 1; !CPU_ISSET(last, &cpus); last--)
        ;
    for (first = 0; !CPU_ISSET(first, &cpus); first++)
        ;
    mlockall(MCL_CURRENT | MCL_FUTURE);
    int *all[] = {ask, answer, ask2, answer2, start_pipe, wake_hog};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (pipe(all[i]))
            return 3;
    if (is(fault, "pi")) {
        pthread_mutexattr_t inherit;
        pthread_mutexattr_init(&inherit);
        pthread_mutexattr_setprotocol(&inherit, PTHREAD_PRIO_INHERIT);
        pthread_mutex_init(&lock, &inherit);
    }
    if (is(fault, "ask") || is(fault, "chain") || is(fault, "starve"))
        begin(helper);
    if (is(fault, "chain"))
        begin(second);
    if (is(fault, "lock") || is(fault, "pi"))
        begin(holder);
    if (is(fault, "hog") || is(fault, "starve"))
        begin(hog);
    if (is(program, "pipe") || is(program, "cond"))
        begin(producer);
    if (is(program, "deadline")) {
        struct attributes a = {sizeof a, 6, 0, 0, 0, period * 9 / 10, period, period};
        prctl(PR_SET_NAME, "task");
        if (syscall(SYS_sched_setattr, 0, &a, 0)) {
            perror("sched_setattr");
            return 3;
        }
    } else {
        be("task", 50, first);
    }
    if (is(fault, "signal")) {
        signal(SIGUSR2, nothing);
        begin(signaller);
    }
    int fd = -1;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    struct itimerspec every = {spec(period), spec(period)};
    if (is(program, "timerfd")) {
        fd = timerfd_create(CLOCK_MONOTONIC, 0);
        timerfd_settime(fd, 0, &every, NULL);
    }
    if (is(program, "posix")) {
        struct sigevent event = {0};
        timer_t timer;
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGUSR1;
        timer_create(CLOCK_MONOTONIC, &event, &timer);
        timer_settime(timer, 0, &every, NULL);
    }
    long begun = now(), t = begun, done = 0;
    pid_t task = getpid();
    if (is(fault, "stop") && fork() == 0)
        stop_from(task, begun);
    for (long k = 1; now() < begun + (long)(seconds * 1e9); k++) {
        t += period;
        if (is(program, "abs")) {
            until(t);
        } else if (is(program, "rel")) {
            rest(t - now());
        } else if (is(program, "poll")) {
            struct timespec left = spec(t - now() > 0 ? t - now() : 0);
            ppoll(NULL, 0, &left, NULL);
        } else if (is(program, "timerfd")) {
            unsigned long long n;
            if (read(fd, &n, sizeof n) < 0)
                return 3;
        } else if (is(program, "posix")) {
            int number;
            sigwait(&signals, &number);
        } else if (is(program, "pipe")) {
            get(start_pipe[0]);
        } else if (is(program, "cond")) {
            pthread_mutex_lock(&condition_lock);
            while (started <= done)
                pthread_cond_wait(&condition, &condition_lock);
            done = started;
            pthread_mutex_unlock(&condition_lock);
        } else if (is(program, "deadline")) {
            sched_yield();
        } else {
            return 2;
        }
        work(k);
    }
    return 0;
}
