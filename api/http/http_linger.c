/*
 * Owns duplicates of sockets whose connections are over as far as the HTTP server is concerned. Refuses to know what
 * was answered on them.
 *
 * Invariants: at most SOCKETS_MAX at a time, each until its peer closes or its time is up; slots are taken by any
 * thread and given back by the waiting thread alone, which alone looks at what is in one. An owner whose clients read
 * no answers leaves places to others (base/fair.h).
 */
#include "http_linger.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fair.h"

#define LINGER_MAX  64  /* sockets whose rest is dropped … */
#define SOCKETS_MAX 320 /* … and those with an answer to be sent */
#define OWNERS_PART 2
#define LOOK_MS     250 /* between two looks at deadlines, while there are sockets */

struct slot {
    int fd; /* -1 = free */
    int64_t until_us;
    struct dt_strbuf text; /* to be sent */
    size_t sent;
    struct dt_hold hold; /* of it */
    bool is_answer;      /* not all of it is sent: it has a place of its owner's share */
    int64_t owner;
    bool heard_all; /* its peer sends nothing more */
};

struct dt_linger {
    int wake_fd;
    pthread_mutex_t lock; /* of the slots */
    struct slot slots[SOCKETS_MAX];
    struct dt_shares shares; /* of answers */
    int64_t looked_us;       /* the waiting thread's; 0: there were no sockets */
};

dt_status dt_linger_new(dt_linger **out)
{
    *out = NULL;
    dt_linger *linger = calloc(1, sizeof(*linger));
    if (!linger)
        return DT_NOMEM;
    linger->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (linger->wake_fd < 0) {
        free(linger);
        return DT_SYSTEM;
    }
    linger->shares = (struct dt_shares){.total = SOCKETS_MAX - LINGER_MAX, .part = OWNERS_PART};
    pthread_mutex_init(&linger->lock, NULL);
    for (int i = 0; i < SOCKETS_MAX; i++)
        linger->slots[i].fd = -1;
    *out = linger;
    return DT_OK;
}

static void slot_clear(dt_linger *linger, struct slot *slot)
{
    if (slot->is_answer)
        dt_shares_give_back(&linger->shares, slot->owner, 1);
    close(slot->fd);
    slot->fd = -1;
    dt_strbuf_clear(&slot->text);
    dt_hold_less(&slot->hold, DT_HOLD_ALL);
}

/* Says whether there is more to wait for. */
static bool drop_input(int fd)
{
    char waste[16384];
    for (int rounds = 0; rounds < 64; rounds++) {
        ssize_t n = recv(fd, waste, sizeof(waste), MSG_DONTWAIT);
        if (n == 0)
            return false;
        if (n < 0)
            return true; /* would block; an error ends with the time limit, or with the next poll */
    }
    return true;
}

/* Discards unread input before the socket is closed. If input were left, the kernel would send a reset, and the client
 * could lose the end of the answer. */
static void end_slot(dt_linger *linger, struct slot *slot)
{
    (void)drop_input(slot->fd);
    slot_clear(linger, slot);
}

void dt_linger_free(dt_linger *linger)
{
    if (!linger)
        return;
    for (int i = 0; i < SOCKETS_MAX; i++)
        if (linger->slots[i].fd >= 0)
            end_slot(linger, &linger->slots[i]);
    close(linger->wake_fd);
    dt_shares_clear(&linger->shares);
    pthread_mutex_destroy(&linger->lock);
    free(linger);
}

void dt_linger_wake(dt_linger *linger)
{
    uint64_t one = 1;
    if (write(linger->wake_fd, &one, sizeof(one)) < 0)
        return; /* it is awake already */
}

/* False: the first `most` places are all taken, or the owner has its share; the slot is still the caller's. */
static bool take_slot(dt_linger *linger, struct slot *slot, int most, int64_t now_us)
{
    int i = 0;
    pthread_mutex_lock(&linger->lock);
    while (i < most && linger->slots[i].fd >= 0)
        i++;
    const bool taken = i < most && (!slot->is_answer || dt_shares_take(&linger->shares, slot->owner, 1, now_us));
    if (taken)
        linger->slots[i] = *slot;
    else
        slot->is_answer = false;
    pthread_mutex_unlock(&linger->lock);
    if (taken)
        dt_linger_wake(linger);
    return taken;
}

void dt_linger_add(dt_linger *linger, int fd, int64_t until_us)
{
    struct slot slot = {.fd = dup(fd), .until_us = until_us};
    if (slot.fd >= 0 && !take_slot(linger, &slot, LINGER_MAX, 0))
        slot_clear(linger, &slot);
}

/* All is with the kernel: the peer shall see the end of it. */
static void sent_all(dt_linger *linger, struct slot *slot)
{
    shutdown(slot->fd, SHUT_WR);
    dt_strbuf_clear(&slot->text);
    dt_hold_less(&slot->hold, DT_HOLD_ALL);
    if (slot->is_answer)
        dt_shares_give_back(&linger->shares, slot->owner, 1);
    slot->is_answer = false;
}

/* Sends what the peer takes now. False: it takes nothing any more. */
static bool send_more(dt_linger *linger, struct slot *slot)
{
    while (slot->sent < slot->text.n) {
        ssize_t n = send(slot->fd, slot->text.p + slot->sent, slot->text.n - slot->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        slot->sent += (size_t)n;
    }
    sent_all(linger, slot);
    return true;
}

void dt_linger_send(dt_linger *linger, int fd, struct dt_strbuf *text, struct dt_hold *hold, int64_t owner,
                    int64_t now_us, int64_t until_us)
{
    struct slot slot = {.fd = fd, .until_us = until_us, .text = *text, .hold = *hold, .owner = owner};
    dt_strbuf_init(text);
    dt_hold_init(hold, slot.hold.budget);
    const bool sends = send_more(linger, &slot);
    slot.is_answer = sends && slot.text.p && owner;
    if (!sends || !take_slot(linger, &slot, SOCKETS_MAX, now_us))
        slot_clear(linger, &slot);
}

size_t dt_linger_unsent(dt_linger *linger)
{
    size_t n = 0;
    pthread_mutex_lock(&linger->lock);
    for (int i = 0; i < SOCKETS_MAX; i++)
        n += linger->slots[i].fd >= 0 && linger->slots[i].text.p != NULL;
    pthread_mutex_unlock(&linger->lock);
    return n;
}

static short events_of(const struct slot *slot)
{
    return (short)((slot->heard_all ? 0 : POLLIN) | (slot->text.p ? POLLOUT : 0));
}

static nfds_t collect_sockets(dt_linger *linger, struct pollfd *fds, int *slots, int64_t now_us)
{
    nfds_t n = 0;
    const int64_t missed_us = dt_clock_missed_us(&linger->looked_us, now_us, INT64_C(1000) * LOOK_MS);
    fds[n++] = (struct pollfd){.fd = linger->wake_fd, .events = POLLIN};
    pthread_mutex_lock(&linger->lock);
    for (int i = 0; i < SOCKETS_MAX; i++) {
        struct slot *slot = &linger->slots[i];
        if (slot->fd < 0)
            continue;
        slot->until_us += missed_us;
        if (slot->until_us <= now_us) {
            end_slot(linger, slot);
            continue;
        }
        slots[n] = i;
        fds[n++] = (struct pollfd){.fd = slot->fd, .events = events_of(slot)};
    }
    pthread_mutex_unlock(&linger->lock);
    return n;
}

/* Serves what a socket is ready for. False: it is done with. */
static bool tend(dt_linger *linger, struct slot *slot, short ready)
{
    if (ready & (POLLERR | POLLNVAL))
        return false;
    if (ready & POLLIN)
        slot->heard_all = !drop_input(slot->fd);
    if ((ready & POLLOUT) && slot->text.p && !send_more(linger, slot))
        return false;
    if (ready & POLLHUP)
        return false;
    return !slot->heard_all || slot->text.p;
}

static void tend_slot(dt_linger *linger, int slot, short ready)
{
    pthread_mutex_lock(&linger->lock);
    if (!tend(linger, &linger->slots[slot], ready))
        slot_clear(linger, &linger->slots[slot]);
    pthread_mutex_unlock(&linger->lock);
}

void dt_linger_wait(dt_linger *linger, int64_t now_us, int timeout_ms)
{
    struct pollfd fds[SOCKETS_MAX + 1];
    int slots[SOCKETS_MAX + 1];
    nfds_t n = collect_sockets(linger, fds, slots, now_us);
    if (n == 1)
        linger->looked_us = 0;
    else if (timeout_ms < 0 || timeout_ms > LOOK_MS)
        timeout_ms = LOOK_MS;
    if (poll(fds, n, timeout_ms) <= 0)
        return;
    uint64_t count;
    if (fds[0].revents && read(linger->wake_fd, &count, sizeof(count)) < 0)
        return;
    for (nfds_t i = 1; i < n; i++)
        if (fds[i].revents)
            tend_slot(linger, slots[i], fds[i].revents);
}
