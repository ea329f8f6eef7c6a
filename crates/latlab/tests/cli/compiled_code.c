/* A loop of 5 ms that waits inside of code which it made while it runs, named by a perf map as run-time compilers
 * write it; x86-64. */
#include "control_loop.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};

static long n;

__attribute__((noinline)) static void pause_inside(void)
{
    struct timespec t = {0, n % 10 == 3 ? 2000000 : 100000};
    nanosleep(&t, NULL);
    n++;
}

int main(int argc, char **argv)
{
    int periods = argc > 1 ? atoi(argv[1]) : 1000;
    char name[64];
    unsigned char *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(made + 64, code, sizeof(code));
    snprintf(name, sizeof(name), "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx %zx made_step loop.js:7\n", (unsigned long)(made + 64), sizeof(code));
    fclose(map);
    struct timespec next = begin();
    for (int k = 0; k < periods; k++) {
        wait_for_next(&next);
        ((void (*)(void (*)(void)))(made + 64))(pause_inside);
    }
    unlink(name);
    return 0;
}
