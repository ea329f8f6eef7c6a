/* A control loop of PERIOD_US with a job of JOB_US, to absolute times; its own response times as JSON.
 * watch_loop SECONDS PERIOD_US JOB_US */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 1;
	long long period = atoll(argv[2]) * 1000, job = atoll(argv[3]) * 1000;
	size_t n = atof(argv[1]) * 1e9 / period, i;
	long long *took = calloc(n, sizeof(*took));
	struct sched_param param = { .sched_priority = 80 };

	if (!took || n < 1000 || period <= 0)
		return 1;
	prctl(PR_SET_NAME, "watch_loop");
	mlockall(MCL_CURRENT | MCL_FUTURE);
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		return 1;
	long long due = now();
	for (i = 0; i < n; i++) {
		due += period;
		struct timespec t = { due / 1000000000, due % 1000000000 };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		long long begun = now();
		while (now() - begun < job)
			;
		took[i] = now() - due;
	}
	qsort(took, n, sizeof(*took), by_value);
	printf("{\"n\": %zu, \"p50\": %lld, \"p99\": %lld, \"p999\": %lld, \"max\": %lld}\n", n, took[n / 2],
	       took[n * 99 / 100], took[n * 999 / 1000], took[n - 1]);
	return 0;
}
