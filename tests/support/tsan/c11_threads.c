/* C11 threads by POSIX threads, linked into every program of the tsan preset. ThreadSanitizer of gcc 12 knows only the
 * latter: a thread of librdkafka, which asks for the former, would crash in its first malloc, and its locks would order
 * nothing. In glibc the types are the same objects (its own mtx_lock calls what pthread_mutex_lock calls). */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "mtx_t is a pthread_mutex_t");
_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "cnd_t is a pthread_cond_t");

#define MUTEX(m) ((pthread_mutex_t *)(void *)(m))
#define COND(c)  ((pthread_cond_t *)(void *)(c))

struct start {
    thrd_start_t run;
    void *arg;
};

static int result(int error)
{
    switch (error) {
    case 0:
        return thrd_success;
    case ENOMEM:
        return thrd_nomem;
    case EBUSY:
        return thrd_busy;
    case ETIMEDOUT:
        return thrd_timedout;
    default:
        return thrd_error;
    }
}

static void *begin(void *arg)
{
    struct start start = *(struct start *)arg;
    free(arg);
    return (void *)(intptr_t)start.run(start.arg);
}

int thrd_create(thrd_t *thread, thrd_start_t run, void *arg)
{
    struct start *start = malloc(sizeof *start);
    if (!start)
        return thrd_nomem;
    *start = (struct start){run, arg};
    int error = pthread_create(thread, NULL, begin, start);
    if (error)
        free(start);
    return result(error);
}

int thrd_join(thrd_t thread, int *code)
{
    void *value = NULL;
    int error = pthread_join(thread, &value);
    if (code)
        *code = (int)(intptr_t)value;
    return result(error);
}

int thrd_detach(thrd_t thread)
{
    return result(pthread_detach(thread));
}

int mtx_init(mtx_t *mutex, int type)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, type & mtx_recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
    int error = pthread_mutex_init(MUTEX(mutex), &attr);
    pthread_mutexattr_destroy(&attr);
    return result(error);
}

void mtx_destroy(mtx_t *mutex)
{
    pthread_mutex_destroy(MUTEX(mutex));
}

int mtx_lock(mtx_t *mutex)
{
    return result(pthread_mutex_lock(MUTEX(mutex)));
}

int mtx_trylock(mtx_t *mutex)
{
    return result(pthread_mutex_trylock(MUTEX(mutex)));
}

int mtx_unlock(mtx_t *mutex)
{
    return result(pthread_mutex_unlock(MUTEX(mutex)));
}

int cnd_init(cnd_t *cond)
{
    return result(pthread_cond_init(COND(cond), NULL));
}

void cnd_destroy(cnd_t *cond)
{
    pthread_cond_destroy(COND(cond));
}

int cnd_signal(cnd_t *cond)
{
    return result(pthread_cond_signal(COND(cond)));
}

int cnd_broadcast(cnd_t *cond)
{
    return result(pthread_cond_broadcast(COND(cond)));
}

int cnd_wait(cnd_t *cond, mtx_t *mutex)
{
    return result(pthread_cond_wait(COND(cond), MUTEX(mutex)));
}

int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex, const struct timespec *restrict until)
{
    return result(pthread_cond_timedwait(COND(cond), MUTEX(mutex), until));
}
