/*
 * Owns what has arrived on a connection and is not the library's yet: see http_receiver.h.
 *
 * The library waits edge-triggered: when it gets fewer bytes than it has room for, it takes the socket for empty. So
 * fewer are given to it only when the socket is empty indeed, and what is held back is either the beginning of
 * something that is not whole, whose rest will wake the library, or refused: then the socket is shut down for reading,
 * which wakes it, too.
 *
 * Invariants: held = passed bytes that the library had no room for, then bytes that are not whole or refused;
 * everything but the atomics belongs to the HTTP thread. A descriptor has its receiver in the table from new to free.
 */
#include "http_receiver.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/http/frames.h"

#define DESCRIPTORS 65536              /* beyond any limit of connections that can be configured */
#define READ_MORE   ((size_t)4 * 1024) /* at once, when something is not whole */

struct dt_receiver {
    int fd;
    const dt_clock *clock;
    dt_receiver_refuse *refuse;
    void *arg;
    struct dt_frames frames;
    struct dt_strbuf held;
    size_t ready; /* of what is held: passed */
    _Atomic int64_t head_since_us;
    _Atomic uint64_t heard;
    _Atomic bool late;
};

static _Atomic(struct dt_receiver *) receivers[DESCRIPTORS];

dt_receiver *dt_receiver_new(int fd, const dt_clock *clock, dt_receiver_refuse *refuse, void *arg)
{
    dt_receiver *r = fd >= 0 && fd < DESCRIPTORS ? calloc(1, sizeof(*r)) : NULL;
    if (!r)
        return NULL;
    r->fd = fd;
    r->clock = clock;
    r->refuse = refuse;
    r->arg = arg;
    dt_frames_init(&r->frames);
    dt_strbuf_init(&r->held);
    atomic_store(&receivers[fd], r);
    return r;
}

void dt_receiver_free(dt_receiver *r)
{
    if (!r)
        return;
    atomic_store(&receivers[r->fd], NULL);
    dt_strbuf_clear(&r->held);
    free(r);
}

uint64_t dt_receiver_heads(const dt_receiver *r)
{
    return r->frames.heads;
}

int64_t dt_receiver_head_since_us(const dt_receiver *r)
{
    return atomic_load_explicit(&r->head_since_us, memory_order_relaxed);
}

uint64_t dt_receiver_heard(const dt_receiver *r)
{
    return atomic_load_explicit(&r->heard, memory_order_relaxed);
}

void dt_receiver_late(dt_receiver *r)
{
    atomic_store(&r->late, true);
}

static ssize_t receive(dt_receiver *r, void *p, size_t n)
{
    ssize_t got = recvfrom(r->fd, p, n, 0, NULL, NULL);
    if (got > 0)
        atomic_store_explicit(&r->heard, dt_receiver_heard(r) + (uint64_t)got, memory_order_relaxed);
    return got;
}

/* The bytes held behind the passed ones have changed: notes whether they are the beginning of a head. */
static void note_held(dt_receiver *r)
{
    bool begun = r->held.n > r->ready && r->frames.next == DT_FRAME_HEAD;
    int64_t since_us = dt_receiver_head_since_us(r);
    if (begun == (since_us != 0))
        return;
    atomic_store_explicit(&r->head_since_us, begun ? dt_clock_mono_us(r->clock) : 0, memory_order_relaxed);
}

/* Tells the client why it is over, once all that came before was answered. */
static ssize_t end_input(dt_receiver *r)
{
    if (r->frames.next == DT_FRAME_REFUSED)
        r->refuse(r->arg, dt_problem_for_http(r->frames.status), r->frames.detail);
    else if (atomic_load(&r->late) && dt_receiver_head_since_us(r))
        r->refuse(r->arg, DT_PROBLEM_TIMEOUT, "no whole request in time");
    return 0;
}

static ssize_t fail(int error)
{
    errno = error;
    return -1;
}

/* Gives what is passed, as much as there is room for. */
static size_t give(dt_receiver *r, char *p, size_t room)
{
    size_t n = r->ready < room ? r->ready : room;
    if (n == 0)
        return 0;
    memcpy(p, r->held.p, n);
    memmove(r->held.p, r->held.p + n, r->held.n - n);
    r->held.n -= n;
    r->ready -= n;
    if (r->held.n == 0)
        dt_strbuf_clear(&r->held);
    return n;
}

/* Checks the buffered bytes that were not checked yet, and marks those that the library may read. */
static void judge_held(dt_receiver *r)
{
    r->ready += dt_frames_pass(&r->frames, (struct dt_str){r->held.p + r->ready, r->held.n - r->ready});
    note_held(r);
}

/* While nothing is held, bytes go straight to where the library wants them, but for those that cannot be passed. */
static ssize_t receive_straight(dt_receiver *r, char *p, size_t room, size_t *given)
{
    ssize_t got = receive(r, p, room);
    if (got <= 0)
        return got;
    size_t passed = dt_frames_pass(&r->frames, (struct dt_str){p, (size_t)got});
    *given += passed;
    if (passed < (size_t)got) {
        dt_strbuf_add(&r->held, p + passed, (size_t)got - passed);
        note_held(r);
    }
    return got;
}

/* Something is held: what comes stands behind it. */
static ssize_t receive_behind(dt_receiver *r, char *p, size_t room, size_t *given)
{
    char more[READ_MORE];
    ssize_t got = receive(r, more, sizeof(more));
    if (got <= 0)
        return got;
    dt_strbuf_add(&r->held, more, (size_t)got);
    if (!r->held.failed)
        judge_held(r);
    *given += give(r, p, room);
    return got;
}

/* Chooses what the library is told when it gets nothing. */
static ssize_t nothing(dt_receiver *r, ssize_t got)
{
    if (r->held.failed)
        return fail(ENOMEM);
    if (got == 0 || r->frames.next == DT_FRAME_REFUSED)
        return end_input(r);
    return got < 0 ? got : fail(EAGAIN);
}

static ssize_t read_for_library(dt_receiver *r, char *p, size_t room)
{
    size_t given = give(r, p, room);
    ssize_t got = 1;
    for (bool more = true; more && given < room && r->frames.next != DT_FRAME_REFUSED && !r->held.failed;) {
        bool straight = r->held.n == 0;
        size_t wanted = straight ? room - given : READ_MORE;
        got = straight ? receive_straight(r, p + given, wanted, &given)
                       : receive_behind(r, p + given, room - given, &given);
        more = got > 0 && (size_t)got == wanted;
    }
    if (given == 0)
        return nothing(r, got);
    if (r->frames.next == DT_FRAME_REFUSED && r->ready == 0)
        shutdown(r->fd, SHUT_RD); /* wakes the library, which then learns of the end */
    return (ssize_t)given;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's names are reserved ones */
ssize_t recv(int fd, void *p, size_t n, int flags)
{
    dt_receiver *r = fd >= 0 && fd < DESCRIPTORS && !(flags & MSG_PEEK)
                         ? atomic_load_explicit(&receivers[fd], memory_order_relaxed)
                         : NULL;
    return r ? read_for_library(r, p, n) : recvfrom(fd, p, n, flags, NULL, NULL);
}
