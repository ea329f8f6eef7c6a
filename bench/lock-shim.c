/*
 * Preloaded into cyclictest (bench/fault-sizes): after each sleep the task takes
 * and gives back the lock that the faults inversion and inversion-pi hold, so
 * that the latency it measures includes the wait. The file's layout is that of
 * crates/latlab-sys/src/shared_lock.rs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint32_t *words;
static int (*sleeps)(clockid_t, int, const struct timespec *, struct timespec *);

__attribute__((constructor)) static void start(void)
{
	int fd = open("/dev/shm/latlab-lock", O_RDWR);
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at != MAP_FAILED)
		words = at;
	*(void **)&sleeps = dlsym(RTLD_NEXT, "clock_nanosleep");
}

static int swapped(uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(words, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void take_and_give_back(void)
{
	uint32_t tid = syscall(SYS_gettid);

	if (words[1]) {
		if (!swapped(0, tid))
			syscall(SYS_futex, words, FUTEX_LOCK_PI, 0, NULL);
		if (!swapped(tid, 0))
			syscall(SYS_futex, words, FUTEX_UNLOCK_PI);
		return;
	}
	if (!swapped(0, 1))
		while (__atomic_exchange_n(words, 2, __ATOMIC_SEQ_CST))
			syscall(SYS_futex, words, FUTEX_WAIT, 2, NULL);
	if (__atomic_exchange_n(words, 0, __ATOMIC_SEQ_CST) == 2)
		syscall(SYS_futex, words, FUTEX_WAKE, 1);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
	int rc = sleeps(clock, flags, until, left);

	if (words && !rc)
		take_and_give_back();
	return rc;
}
