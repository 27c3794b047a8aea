/*
 * How quiet the machine is: a thread a core looks at the clock without a pause; whenever it was not let go on for
 * longer than 0.2 ms, that time is lost. Nothing else should run meanwhile.
 *
 *   stalls SECONDS          prints: percent lost of all cores' time, stalls longer than 5 ms, the longest in ms
 */
#include "bare.h"

#include <pthread.h>
#include <unistd.h>

#define CORES_MAX 256
#define LOST_S    0.0002
#define LONG_S    0.005

struct core {
    pthread_t thread;
    double until, lost, longest;
    int n_long;
};

static void *spin(void *arg)
{
    struct core *core = arg;
    double last = now();
    while (last < core->until) {
        double t = now(), gap = t - last;
        if (gap > LOST_S)
            core->lost += gap;
        core->n_long += gap > LONG_S;
        core->longest = gap > core->longest ? gap : core->longest;
        last = t;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct core cores[CORES_MAX];
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    double seconds = argc == 2 ? atof(argv[1]) : 0, lost = 0, longest = 0;
    int n_long = 0;
    if (seconds <= 0)
        die("usage", "stalls SECONDS");
    n = n < CORES_MAX ? n : CORES_MAX;
    for (long i = 0; i < n; i++) {
        cores[i].until = now() + seconds;
        if (pthread_create(&cores[i].thread, NULL, spin, &cores[i]) != 0)
            die("pthread_create", "no thread");
    }
    for (long i = 0; i < n; i++) {
        pthread_join(cores[i].thread, NULL);
        lost += cores[i].lost;
        n_long += cores[i].n_long;
        longest = cores[i].longest > longest ? cores[i].longest : longest;
    }
    printf("%.3f %d %.1f\n", 100 * lost / (seconds * (double)n), n_long, longest * 1000);
}
