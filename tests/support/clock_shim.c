/* Preloaded into one program: its wall clock is wrong by DUETIME_CLOCK_SKEW_MS. Waits until an absolute wall-clock time
 * are put right again, so that only what the program believes is wrong, not how long the C library lets it sleep. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define SURELY_WALL_CLOCK 1000000000 /* s; a monotonic clock counts from the start of the machine */

static long long skew_ns(void)
{
    static long long skew = -1;
    if (skew == -1) {
        const char *text = getenv("DUETIME_CLOCK_SKEW_MS");
        skew = text ? atoll(text) * 1000000 : 0;
    }
    return skew;
}

static struct timespec moved(struct timespec t, long long ns)
{
    long long all = t.tv_sec * 1000000000LL + t.tv_nsec + ns;
    return (struct timespec){.tv_sec = all / 1000000000, .tv_nsec = all % 1000000000};
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    int code;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    code = real(id, t);
    if (code == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        *t = moved(*t, skew_ns());
    return code;
}

int gettimeofday(struct timeval *restrict tv, void *restrict)
{
    struct timespec t;
    if (clock_gettime(CLOCK_REALTIME, &t) != 0)
        return -1;
    *tv = (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *out)
{
    struct timespec t;
    if (clock_gettime(CLOCK_REALTIME, &t) != 0)
        return (time_t)-1;
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict at)
{
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec true_time = at->tv_sec > SURELY_WALL_CLOCK ? moved(*at, -skew_ns()) : *at;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    return real(cond, mutex, &true_time);
}
