/*
 * Makes the n-th call for memory, for a descriptor, for a thread or of the database fail, in a program that is linked
 * with this file (nth_api, nth_dispatcher: the products' own main and libraries). A test turns the knobs from outside,
 * in a file that both map: DUETIME_NTH names it. Without it nothing ever fails.
 *
 *   memory      calls from our own code alone (the linker wraps them): libraries that end the process when there is no
 *               memory are theirs to mend
 *   descriptor, thread   calls from everywhere, libraries included: the program's definitions come first. But for the
 *               two threads of ZooKeeper's client, which ends the process by an assertion when it does not get them
 *   statement   calls of the database by threads that serve requests, which answer as a server does that refuses this
 *               one and goes on; the log names each that failed
 *
 * The layout is tests/harness/harm/nth.py's, too.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/failing_calls.h"

enum kind { MEMORY, DESCRIPTOR, THREAD, STATEMENT, KINDS };

struct knobs {
    struct {
        _Atomic int64_t left;  /* calls until one fails; 0: none does */
        _Atomic int64_t calls; /* seen so far */
        _Atomic int64_t failed;
    } of[KINDS];
};

static struct knobs idle;
static struct knobs *knobs = &idle;

/* After that only coverage's counters are written, which end the process when there is no memory. */
static void let_go(void)
{
    knobs = &idle;
}

__attribute__((constructor)) static void map_knobs(void)
{
    const char *path = getenv("DUETIME_NTH");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *at = mmap(NULL, sizeof *knobs, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED && atexit(let_go) == 0)
        knobs = at;
}

static int fails(enum kind kind)
{
    atomic_fetch_add(&knobs->of[kind].calls, 1);
    if (atomic_load(&knobs->of[kind].left) <= 0 || atomic_fetch_sub(&knobs->of[kind].left, 1) != 1)
        return 0;
    atomic_fetch_add(&knobs->of[kind].failed, 1);
    return 1;
}

/* ---- memory: --wrap ---- */

#define WRAP_MEMORY(type, name, params, args)                                                                          \
    __typeof__(name) __real_##name;                                                                                    \
    __typeof__(name) __wrap_##name;                                                                                    \
    type __wrap_##name params                                                                                          \
    {                                                                                                                  \
        if (!fails(MEMORY))                                                                                            \
            return __real_##name args;                                                                                 \
        errno = ENOMEM;                                                                                                \
        return NULL;                                                                                                   \
    }

CALLS_FOR_MEMORY(WRAP_MEMORY)

/* ---- descriptors and threads: definitions that come before the libraries' ---- */

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define PRECEDE(name, params, args)                                                                                    \
    int name params                                                                                                    \
    {                                                                                                                  \
        if (!fails(DESCRIPTOR))                                                                                        \
            return NEXT(name) args;                                                                                    \
        errno = EMFILE;                                                                                                \
        return -1;                                                                                                     \
    }

PRECEDE(socket, (int domain, int type, int protocol), (domain, type, protocol))
PRECEDE(accept4, (int fd, __SOCKADDR_ARG address, socklen_t *size, int flags), (fd, address, size, flags))
PRECEDE(epoll_create1, (int flags), (flags))
PRECEDE(eventfd, (unsigned count, int flags), (count, flags))
PRECEDE(pipe, (int fds[2]), (fds))
PRECEDE(pipe2, (int fds[2], int flags), (fds, flags))

static int is_zookeepers(void *caller)
{
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "zookeeper");
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*run)(void *),
                   void *restrict arg)
{
    return !is_zookeepers(__builtin_return_address(0)) && fails(THREAD) ? EAGAIN
                                                                        : NEXT(pthread_create)(thread, attr, run, arg);
}

/* ---- statements: --wrap ---- */

/* Others look at the database at times of their own. */
static int serves_requests(void)
{
    static const char *const names[] = {"worker", "committer", "results"};
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

static dt_status refused(const char *what, struct dt_error *err)
{
    fprintf(stderr, "nth: refused: %.120s\n", what);
    return dt_fail(err, DT_INTERNAL, "the test lets it fail: %.60s", what);
}

#define WRAP_STATEMENT(name, what, params, args)                                                                       \
    __typeof__(name) __real_##name;                                                                                    \
    __typeof__(name) __wrap_##name;                                                                                    \
    dt_status __wrap_##name params                                                                                     \
    {                                                                                                                  \
        return serves_requests() && fails(STATEMENT) ? refused(what, error) : __real_##name args;                      \
    }

CALLS_OF_THE_DATABASE(WRAP_STATEMENT)
WRAP_STATEMENT(dt_db_begin, "begin", (dt_db * db, struct dt_error *error), (db, error))
WRAP_STATEMENT(dt_db_begin_soon, "begin_soon", (dt_db * db, struct dt_error *error), (db, error))
WRAP_STATEMENT(dt_db_begin_snapshot, "begin_snapshot", (dt_db * db, struct dt_error *error), (db, error))
WRAP_STATEMENT(dt_db_ask_index, sql, (dt_db * db, const char *sql, struct dt_params params, struct dt_error *error),
               (db, sql, params, error))

/* An answer that breaks off: its rows were seen. */
__typeof__(dt_db_end) __real_dt_db_end;
__typeof__(dt_db_end) __wrap_dt_db_end;

dt_status __wrap_dt_db_end(dt_db *db, struct dt_error *err)
{
    dt_status status = __real_dt_db_end(db, err);
    return status == DT_OK && serves_requests() && fails(STATEMENT) ? refused("the end of an answer", err) : status;
}
