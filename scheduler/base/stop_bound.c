/*
 * Client libraries end their own threads, and some of them wait for a server that is away as long as they see fit: no
 * timeout of ours bounds what they do while they are destroyed. A thread beside all of that does.
 */
#include "stop_bound.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "thread.h"

static void end_later(void *arg)
{
    struct timespec left = {.tv_sec = (time_t)(uintptr_t)arg};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    DT_LOG(WARN, "main", "ends now, although a server that is away holds something up",
           DT_I("seconds", (int64_t)(uintptr_t)arg));
    _exit(EXIT_SUCCESS);
}

void dt_stop_bound(unsigned seconds)
{
    if (!dt_thread_start_detached(end_later, (void *)(uintptr_t)seconds))
        DT_LOG(WARN, "main", "no thread that bounds the end of the program");
}
