/*
 * A table of names, which only one thread uses, and lookups, each on a thread of its own. Table and lookups share
 * struct exchange_point: under a lock, the list of lookups that have ended. The last user of the struct frees it.
 *
 * A lookup points to its entry of the table, but only the table's thread follows this pointer. An entry stays until its
 * lookup has ended.
 */
#include "host_names.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <unistd.h>
#include <utlist.h>

#include "base/assert.h"
#include "base/fair.h"
#include "base/thread.h"

struct lookup {
    struct exchange_point *point;
    struct dt_host_name *name; /* entry of the table; only for the table's thread */
    int64_t owner;
    struct lookup *next;
    struct dt_strbuf addresses;
    const char *reason; /* reason of the failure; NULL: addresses were found */
    bool unanswered;    /* name servers failed, so it is unknown whether the name exists */
    char host[];
};

struct exchange_point {
    pthread_mutex_t lock;
    unsigned users; /* number of users: the table, and each lookup */
    int wake_fd;
    struct lookup *ended;
};

struct dt_host_names {
    struct exchange_point *point;
    struct dt_host_name *by_host; /* names in the order in which drop_one_unused_name checks them */
    struct dt_shares running;
};

static void lookup_free(struct lookup *lookup)
{
    dt_strbuf_clear(&lookup->addresses);
    free(lookup);
}

static void release_exchange_point(struct exchange_point *point)
{
    pthread_mutex_lock(&point->lock);
    dt_assert_cmp(point->users, >, 0);
    bool last = --point->users == 0;
    pthread_mutex_unlock(&point->lock);
    if (!last)
        return;
    while (point->ended) {
        struct lookup *lookup = point->ended;
        point->ended = lookup->next;
        lookup_free(lookup);
    }
    close(point->wake_fd);
    pthread_mutex_destroy(&point->lock);
    free(point);
}

/* ---- a lookup, on its own thread ---- */

static void run_lookup(void *arg)
{
    static const uint64_t one = 1;
    struct lookup *lookup = arg;
    struct exchange_point *point = lookup->point;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    unsigned n = 0;
    pthread_setname_np(pthread_self(), "lookup");
    int failed = getaddrinfo(lookup->host, NULL, &hints, &found);
    for (const struct addrinfo *a = failed ? NULL : found; a && n < DT_HOST_ADDRESSES; a = a->ai_next, n++) {
        char text[INET6_ADDRSTRLEN] = "";
        const bool ipv6 = a->ai_family == AF_INET6;
        const void *address = a->ai_addr;
        if (ipv6)
            inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, text, sizeof(text));
        else if (a->ai_family == AF_INET)
            inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, sizeof(text));
        if (text[0])
            dt_strbuf_addf(&lookup->addresses, ipv6 ? "%s[%s]" : "%s%s", lookup->addresses.n > 0 ? "," : "", text);
    }
    if (!failed)
        freeaddrinfo(found);
    lookup->unanswered =
        failed == EAI_AGAIN || failed == EAI_SYSTEM || failed == EAI_MEMORY || lookup->addresses.failed;
    lookup->reason = failed                     ? gai_strerror(failed)
                     : lookup->addresses.failed ? "memory is out"
                     : lookup->addresses.n == 0 ? "the name has neither an IPv4 nor an IPv6 address"
                                                : NULL;
    pthread_mutex_lock(&point->lock);
    LL_PREPEND(point->ended, lookup);
    pthread_mutex_unlock(&point->lock);
    ssize_t ignored = write(point->wake_fd, &one, sizeof(one)); /* fails if the counter is full: the reader is awake */
    (void)ignored;
    release_exchange_point(point);
}

/* Starts a lookup if the owner may have one more. If memory or a thread is missing, the state is NO_TURN. */
static void start_lookup(dt_host_names *names, struct dt_host_name *name, int64_t owner, int64_t now_us)
{
    if (name->asked || !dt_shares_take(&names->running, owner, 1, now_us))
        return;
    size_t n = strlen(name->host) + 1;
    struct lookup *lookup = calloc(1, sizeof(*lookup) + n);
    if (lookup) {
        lookup->point = names->point;
        lookup->name = name;
        lookup->owner = owner;
        memcpy(lookup->host, name->host, n);
        pthread_mutex_lock(&names->point->lock);
        names->point->users++;
        pthread_mutex_unlock(&names->point->lock);
        name->asked = dt_thread_start_detached(run_lookup, lookup);
    }
    if (name->asked)
        return;
    if (lookup) {
        release_exchange_point(names->point);
        lookup_free(lookup);
    }
    dt_shares_give_back(&names->running, owner, 1);
}

/* ---- the table ---- */

static void free_name(dt_host_names *names, struct dt_host_name *name)
{
    HASH_DEL(names->by_host, name);
    free(name->addresses);
    free(name);
}

static bool is_name_usable(const struct dt_host_name *name, int64_t now_us)
{
    return name->addresses && now_us < name->found_us + DT_HOST_NAME_USED_US;
}

/* Frees the first name of the table if no request needs it, and if it is not usable or the table is full. Otherwise
 * moves the name to the end, which allocates no memory. */
static void drop_one_unused_name(dt_host_names *names, int64_t now_us)
{
    struct dt_host_name *first = names->by_host;
    if (!first)
        return;
    const bool many = HASH_COUNT(names->by_host) >= DT_HOST_NAMES_MAX;
    if (!first->asked && first->waiting == 0 && (many || !is_name_usable(first, now_us))) {
        free_name(names, first);
    } else if (first->hh.next) {
        HASH_DEL(names->by_host, first);
        HASH_ADD_KEYPTR(hh, names->by_host, first->host, strlen(first->host), first);
    }
}

dt_status dt_host_names_find(dt_host_names *names, const char *host, int64_t owner, int64_t now_us,
                             struct dt_host_name **out)
{
    const size_t n = strlen(host);
    struct dt_host_name *name;
    HASH_FIND(hh, names->by_host, host, n, name);
    if (!name) {
        drop_one_unused_name(names, now_us);
        if (HASH_COUNT(names->by_host) >= DT_HOST_NAMES_MAX) /* nothing was dropped: the first name is in use */
            drop_one_unused_name(names, now_us);
        name = calloc(1, sizeof(*name) + n + 1);
        if (!name)
            return DT_NOMEM;
        memcpy(name->host, host, n);
        HASH_ADD_KEYPTR(hh, names->by_host, name->host, n, name);
        if (!name->hh.tbl) {
            free(name);
            return DT_NOMEM;
        }
    }
    *out = name;
    if (!name->addresses || now_us >= name->asks_us)
        start_lookup(names, name, owner, now_us);
    name->state = is_name_usable(name, now_us) ? DT_HOST_NAME_KNOWN
                  : name->asked                ? DT_HOST_NAME_ASKED
                                               : DT_HOST_NAME_NO_TURN;
    return DT_OK;
}

struct dt_host_name *dt_host_names_ended(dt_host_names *names, int64_t now_us)
{
    pthread_mutex_lock(&names->point->lock);
    struct lookup *lookup = names->point->ended;
    if (lookup)
        names->point->ended = lookup->next;
    pthread_mutex_unlock(&names->point->lock);
    if (!lookup)
        return NULL;
    struct dt_host_name *name = lookup->name;
    dt_assert(name->asked);
    dt_shares_give_back(&names->running, lookup->owner, 1);
    name->asked = false;
    if (lookup->unanswered && is_name_usable(name, now_us)) {
        name->asks_us = now_us + DT_HOST_NAME_AGAIN_US;
    } else {
        free(name->addresses);
        name->addresses = lookup->reason ? NULL : lookup->addresses.p;
        name->reason = lookup->reason;
        name->found_us = now_us;
        name->asks_us = now_us + DT_HOST_NAME_KEPT_US;
        if (!lookup->reason)
            lookup->addresses = (struct dt_strbuf){0};
    }
    name->state = name->addresses ? DT_HOST_NAME_KNOWN : DT_HOST_NAME_FAILED;
    lookup_free(lookup);
    return name;
}

void dt_host_names_doubt(dt_host_names *names, const char *host, int64_t owner, int64_t now_us)
{
    struct dt_host_name *name;
    HASH_FIND_STR(names->by_host, host, name);
    if (!name)
        return;
    name->asks_us = now_us;
    start_lookup(names, name, owner, now_us);
}

dt_status dt_host_names_new(int wake_fd, dt_host_names **out)
{
    dt_host_names *names = calloc(1, sizeof(*names));
    if (!names)
        return DT_NOMEM;
    struct exchange_point *point = calloc(1, sizeof(*point));
    const int fd = dup(wake_fd);
    if (!point || fd < 0 || pthread_mutex_init(&point->lock, NULL) != 0) {
        if (fd >= 0)
            close(fd);
        free(point);
        free(names);
        return DT_SYSTEM;
    }
    point->users = 1;
    point->wake_fd = fd;
    names->point = point;
    names->running = (struct dt_shares){.total = DT_LOOKUPS_MAX, .part = DT_LOOKUPS_PART};
    *out = names;
    return DT_OK;
}

void dt_host_names_free(dt_host_names *names)
{
    struct dt_host_name *name;
    struct dt_host_name *next;
    if (!names)
        return;
    HASH_ITER(hh, names->by_host, name, next)
    free_name(names, name);
    dt_shares_clear(&names->running);
    release_exchange_point(names->point);
    free(names);
}
