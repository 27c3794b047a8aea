/* Writes what a server has counted to its files every second, so that kill -9 costs the last second alone. Linked into
 * the programs of the preset `coverage`; short-lived ones write at their end, as ever. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

void dt_coverage_flush(void); /* the linker is told to want it */

extern void __gcov_dump(void);
extern void __gcov_reset(void);

/* What is counted between the two is lost; a line that matters is passed again. */
void dt_coverage_flush(void)
{
    __gcov_dump();
    __gcov_reset();
}

static void *run(void *)
{
    for (;;) {
        sleep(1);
        dt_coverage_flush();
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    static const char servers[] = "duetime-";
    sigset_t all, before;
    pthread_t thread;
    if (strncmp(program_invocation_short_name, servers, sizeof servers - 1) != 0)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, run, NULL) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
