/* See thread.h. Invariant: a thread that was started is joined exactly once. */
#include "thread.h"

#include <sys/resource.h>

#include "assert.h"

static _Thread_local bool lowered; /* dt_thread_lower was called on this thread */

static void *thread_main(void *arg)
{
    struct dt_thread *thread = arg;
    pthread_setname_np(pthread_self(), thread->name);
    thread->run(thread->arg);
    return NULL;
}

dt_status dt_thread_start(struct dt_thread *thread, const char *name, void (*run)(void *arg), void *arg,
                          struct dt_error *err)
{
    dt_assert(!thread->started);
    if (lowered)
        return dt_fail(err, DT_SYSTEM,
                       "a thread with a lowered priority cannot start threads, because they would inherit it");
    thread->name = name;
    thread->run = run;
    thread->arg = arg;
    if (pthread_create(&thread->id, NULL, thread_main, thread) != 0)
        return dt_fail(err, DT_SYSTEM, "the thread %s could not be started", name);
    thread->started = true;
    return DT_OK;
}

struct detached {
    void (*run)(void *arg);
    void *arg;
};

static void *detached_main(void *arg)
{
    struct detached detached = *(struct detached *)arg;
    free(arg);
    detached.run(detached.arg);
    return NULL;
}

bool dt_thread_start_detached(void (*run)(void *arg), void *arg)
{
    struct detached *detached = malloc(sizeof(*detached));
    pthread_attr_t attr;
    pthread_t id;
    if (!detached)
        return false;
    *detached = (struct detached){run, arg};
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    const bool started = pthread_create(&id, &attr, detached_main, detached) == 0;
    pthread_attr_destroy(&attr);
    if (!started)
        free(detached);
    return started;
}

void dt_thread_lower(int nice)
{
    lowered = setpriority(PRIO_PROCESS, 0, nice) == 0; /* lowers only this thread's priority; the system may refuse */
}

void dt_thread_ask_stop(struct dt_thread *thread, dt_mailbox *mailbox)
{
    atomic_store(&thread->stopping, true);
    if (mailbox)
        dt_mailbox_signal(mailbox, DT_THREAD_STOP);
}

void dt_thread_join(struct dt_thread *thread)
{
    if (!thread->started)
        return;
    dt_assert(!pthread_equal(thread->id, pthread_self()));
    pthread_join(thread->id, NULL);
    thread->started = false;
}

void dt_thread_stop(struct dt_thread *thread, dt_mailbox *mailbox)
{
    dt_thread_ask_stop(thread, mailbox);
    dt_thread_join(thread);
}
