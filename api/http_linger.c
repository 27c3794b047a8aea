/*
 * Owns duplicates of sockets whose connections are over as far as the HTTP server is concerned. Refuses to know what
 * was answered on them.
 *
 * Invariants: at most LINGER_MAX at a time, each until its peer closes or its time is up; slots are taken by any thread
 * and given back by the waiting thread alone.
 */
#include "http_linger.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_MAX 64

struct slot {
    int fd; /* -1 = free */
    int64_t until_us;
};

struct dt_linger {
    int wake_fd;
    pthread_mutex_t lock; /* of the slots */
    struct slot slots[LINGER_MAX];
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
    pthread_mutex_init(&linger->lock, NULL);
    for (int i = 0; i < LINGER_MAX; i++)
        linger->slots[i].fd = -1;
    *out = linger;
    return DT_OK;
}

void dt_linger_free(dt_linger *linger)
{
    if (!linger)
        return;
    for (int i = 0; i < LINGER_MAX; i++)
        if (linger->slots[i].fd >= 0)
            close(linger->slots[i].fd);
    close(linger->wake_fd);
    pthread_mutex_destroy(&linger->lock);
    free(linger);
}

void dt_linger_wake(dt_linger *linger)
{
    uint64_t one = 1;
    if (write(linger->wake_fd, &one, sizeof(one)) < 0)
        return; /* it is awake already */
}

void dt_linger_add(dt_linger *linger, int fd, int64_t until_us)
{
    pthread_mutex_lock(&linger->lock);
    for (int i = 0; i < LINGER_MAX; i++) {
        if (linger->slots[i].fd >= 0)
            continue;
        linger->slots[i] = (struct slot){dup(fd), until_us};
        break;
    }
    pthread_mutex_unlock(&linger->lock);
    dt_linger_wake(linger);
}

/* Whether there is more to wait for. */
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

static nfds_t collect(dt_linger *linger, struct pollfd *fds, int *slots, int64_t now_us)
{
    nfds_t n = 0;
    fds[n++] = (struct pollfd){.fd = linger->wake_fd, .events = POLLIN};
    pthread_mutex_lock(&linger->lock);
    for (int i = 0; i < LINGER_MAX; i++) {
        struct slot *slot = &linger->slots[i];
        if (slot->fd < 0)
            continue;
        if (slot->until_us <= now_us) {
            close(slot->fd);
            slot->fd = -1;
            continue;
        }
        slots[n] = i;
        fds[n++] = (struct pollfd){.fd = slot->fd, .events = POLLIN};
    }
    pthread_mutex_unlock(&linger->lock);
    return n;
}

static void give_back(dt_linger *linger, int slot)
{
    pthread_mutex_lock(&linger->lock);
    close(linger->slots[slot].fd);
    linger->slots[slot].fd = -1;
    pthread_mutex_unlock(&linger->lock);
}

void dt_linger_wait(dt_linger *linger, int64_t now_us, int timeout_ms)
{
    struct pollfd fds[LINGER_MAX + 1];
    int slots[LINGER_MAX + 1];
    nfds_t n = collect(linger, fds, slots, now_us);
    if (n > 1 && (timeout_ms < 0 || timeout_ms > 1000))
        timeout_ms = 1000;
    if (poll(fds, n, timeout_ms) <= 0)
        return;
    uint64_t count;
    if (fds[0].revents && read(linger->wake_fd, &count, sizeof(count)) < 0)
        return;
    for (nfds_t i = 1; i < n; i++) {
        bool over = (fds[i].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
        if (!over && (fds[i].revents & POLLIN))
            over = !drop_input(fds[i].fd);
        if (over)
            give_back(linger, slots[i]);
    }
}
