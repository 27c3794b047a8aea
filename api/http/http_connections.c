/*
 * Owns the connection table and the rules of its time: see http_connections.h. Refuses to know what is asked on a
 * connection.
 *
 * Slow is a body that comes at less than QUICK_BYTES a second. Nobody minds that as long as there are free slots; when
 * there are none, a body that has been slow for SLOW_US is as good as a connection that says nothing.
 *
 * A client is blamed for what it did not send in the time in which this process read: not while bytes of it wait in the
 * socket, nor for the time in which the process was stopped.
 */
#include "http_connections.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <utlist.h>

#define UNUSED_US        INT64_C(1000000) /* a connection that is silent for so long may lose its slot … */
#define SLOW_US          INT64_C(500000)  /* … and one whose body is slow for so long … */
#define PARTLY_US        INT64_C(100000)  /* … and one whose next head comes in pieces for so long */
#define QUICK_BYTES      4096             /* a second */
#define SILENCE_US       INT64_C(1000000)
#define DRAIN_SILENCE_US INT64_C(2000000)
#define BODY_GRACE_US    INT64_C(2000000)  /* after its deadline a body that still comes may come to its end … */
#define STALLED_US       INT64_C(250000)   /* … unless it has stopped for so long */
#define DEAF_US          INT64_C(15000000) /* and the library must have noticed that it was cut off */

enum { LET_BE = -1 }; /* besides SHUT_RD, SHUT_RDWR */

void dt_connections_init(struct dt_connections *table, const struct dt_config *config, const dt_clock *clock)
{
    *table = (struct dt_connections){.config = config, .clock = clock};
    table->connections = dt_gauge("duetime_http_connections", "Open HTTP connections.", "");
    pthread_mutex_init(&table->lock, NULL);
}

void dt_connections_clear(struct dt_connections *table)
{
    pthread_mutex_destroy(&table->lock);
}

void dt_connection_enter(const struct dt_connections *table, struct dt_connection *conn, enum dt_phase phase)
{
    int64_t now_us = dt_clock_mono_us(table->clock);
    atomic_store_explicit(&conn->since_us, now_us, memory_order_relaxed);
    atomic_store_explicit(&conn->heard_us, now_us, memory_order_relaxed);
    atomic_store_explicit(&conn->phase, phase, memory_order_release);
}

bool dt_connections_add(struct dt_connections *table, struct dt_connection *conn)
{
    pthread_mutex_lock(&table->lock);
    DL_PREPEND(table->first, conn);
    bool only = table->n++ == 0;
    if (only)
        table->looked_us = dt_clock_mono_us(table->clock);
    dt_metric_set(table->connections, (double)table->n);
    pthread_mutex_unlock(&table->lock);
    return only;
}

void dt_connections_remove(struct dt_connections *table, struct dt_connection *conn)
{
    pthread_mutex_lock(&table->lock);
    DL_DELETE(table->first, conn);
    table->n--;
    dt_metric_set(table->connections, (double)table->n);
    pthread_mutex_unlock(&table->lock);
}

/* ---- whose time is up ---- */

/*
 * The client has gone and libmicrohttpd does not know: its edge-triggered loop takes a short read for the end of what
 * there is, and misses a close that came together with the last bytes.
 */
static bool left_unnoticed(const struct dt_connection *conn)
{
    char byte;
    return recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* True if the socket has bytes that this process has not read: the client is not late then. */
static bool has_unread(const struct dt_connection *conn)
{
    int n = 0;
    return ioctl(conn->fd, FIONREAD, &n) == 0 && n > 0;
}

static int cut_off(struct dt_connection *conn, enum dt_cut why)
{
    int not_yet = DT_CUT_NOT;
    atomic_compare_exchange_strong(&conn->cut, &not_yet, why);
    return SHUT_RD;
}

/* A head that is not whole has its time from its first byte, or from the answer before it. Empty lines begin none. */
static int overdue_idle(const struct dt_connections *table, struct dt_connection *conn, int64_t now_us, int64_t idle_us)
{
    const struct dt_config *config = table->config;
    int64_t since_us = dt_receiver_head_since_us(conn->receiver);
    int64_t late_us = dt_earlier(now_us - since_us, idle_us) - config->http_head_timeout * 1000;
    if (since_us == 0) {
        bool silent = idle_us > config->http_idle_timeout * 1000;
        bool endless = idle_us > (config->http_idle_timeout + config->http_request_timeout) * 1000; /* empty lines */
        bool left = !silent && idle_us > SILENCE_US && left_unnoticed(conn);
        return endless || left || (silent && !has_unread(conn)) ? SHUT_RDWR : LET_BE;
    }
    if (late_us < 0 || has_unread(conn))
        return LET_BE;
    dt_receiver_late(conn->receiver);
    return late_us > DEAF_US ? SHUT_RDWR : SHUT_RD;
}

/* A body that is late, or will never come. */
static int overdue_reading(const struct dt_connections *table, struct dt_connection *conn, int64_t age_us,
                           int64_t silent_us)
{
    int64_t late_us = age_us - table->config->http_request_timeout * 1000;
    int64_t silence_us = late_us > 0 ? STALLED_US : table->config->http_idle_timeout * 1000;
    if (atomic_load_explicit(&conn->suspended, memory_order_relaxed))
        return LET_BE;
    if (late_us > DEAF_US)
        return SHUT_RDWR;
    if (late_us > BODY_GRACE_US || (silent_us > silence_us && !has_unread(conn)))
        return cut_off(conn, DT_CUT_LATE);
    if (atomic_load(&table->cutting) || (atomic_load(&table->draining) && silent_us > DRAIN_SILENCE_US))
        return cut_off(conn, DT_CUT_SHUTDOWN);
    return silent_us > SILENCE_US && left_unnoticed(conn) ? SHUT_RD : LET_BE;
}

/* How this connection's socket is to be shut down, its time being up. */
static int overdue(const struct dt_connections *table, struct dt_connection *conn, int64_t now_us)
{
    int64_t age_us = now_us - atomic_load_explicit(&conn->since_us, memory_order_relaxed);
    switch (atomic_load_explicit(&conn->phase, memory_order_acquire)) {
    case DT_PHASE_IDLE:
        return overdue_idle(table, conn, now_us, age_us);
    case DT_PHASE_READING:
        return overdue_reading(table, conn, age_us,
                               now_us - atomic_load_explicit(&conn->heard_us, memory_order_relaxed));
    case DT_PHASE_SENDING:
        return age_us > table->config->http_request_timeout * 1000 ? SHUT_RDWR : LET_BE;
    default:
        return LET_BE;
    }
}

/* A body that waits for us is as quick as it can be. */
static void note_speed(struct dt_connection *conn, int64_t now_us, int64_t passed_us)
{
    uint64_t bytes = dt_receiver_heard(conn->receiver);
    if ((int64_t)(bytes - conn->heard_bytes) * 1000000 >= passed_us * QUICK_BYTES || atomic_load(&conn->suspended))
        conn->quick_us = now_us;
    conn->heard_bytes = bytes;
}

/* Its own thread may set it meanwhile, which then counts. */
static void move_time(_Atomic int64_t *at_us, int64_t by_us, int64_t most_us)
{
    int64_t was_us = atomic_load(at_us);
    atomic_compare_exchange_strong(at_us, &was_us, dt_earlier(was_us + by_us, most_us));
}

static void forgive_missed(struct dt_connections *table, int64_t now_us)
{
    int64_t missed_us = dt_clock_missed_us(&table->looked_us, now_us, DT_SWEEP_US);
    for (struct dt_connection *conn = missed_us ? table->first : NULL; conn; conn = conn->next) {
        move_time(&conn->since_us, missed_us, now_us);
        move_time(&conn->heard_us, missed_us, now_us);
        conn->quick_us = dt_earlier(conn->quick_us + missed_us, now_us);
    }
}

/* Between two looks of the thread that sweeps, nothing was missed. */
static void forgive_now(struct dt_connections *table, int64_t now_us)
{
    if (now_us - table->looked_us > 2 * DT_SWEEP_US)
        forgive_missed(table, now_us);
}

void dt_connections_forgive(struct dt_connections *table)
{
    pthread_mutex_lock(&table->lock);
    forgive_now(table, dt_clock_mono_us(table->clock));
    pthread_mutex_unlock(&table->lock);
}

bool dt_connections_sweep(struct dt_connections *table)
{
    pthread_mutex_lock(&table->lock);
    int64_t now_us = dt_clock_mono_us(table->clock);
    int64_t passed_us = now_us - table->looked_us;
    forgive_missed(table, now_us);
    for (struct dt_connection *conn = table->first; conn; conn = conn->next) {
        note_speed(conn, now_us, passed_us);
        int how = overdue(table, conn, now_us);
        if (how != LET_BE)
            shutdown(conn->fd, how);
    }
    bool any = table->n > 0;
    pthread_mutex_unlock(&table->lock);
    return any;
}

/* ---- a crowd ---- */

/* How little would be lost; those before are given away first. */
enum loss { LOSS_STRANGER, LOSS_SLOW, LOSS_SILENT, LOSS_IN_USE };

struct use {
    enum loss loss;
    int64_t since_us; /* of no use */
};

static struct use idle_use(const struct dt_connection *conn, int64_t now_us, int64_t since_us)
{
    int64_t head_us = dt_receiver_head_since_us(conn->receiver);
    if (head_us && now_us - since_us > PARTLY_US && now_us - head_us > PARTLY_US)
        return (struct use){LOSS_SLOW, since_us};
    return (struct use){now_us - since_us > UNUSED_US ? LOSS_SILENT : LOSS_IN_USE, since_us};
}

static struct use reading_use(const struct dt_connection *conn, int64_t now_us, int64_t since_us)
{
    int64_t slow_us = conn->quick_us > since_us ? conn->quick_us : since_us;
    bool slow = now_us - slow_us > SLOW_US && !atomic_load(&conn->suspended);
    return (struct use){slow ? LOSS_SLOW : LOSS_IN_USE, slow_us};
}

static struct use use_of(const struct dt_connection *conn, int64_t now_us)
{
    int64_t since_us = atomic_load(&conn->since_us);
    int phase = atomic_load(&conn->phase);
    struct use use = {LOSS_IN_USE, since_us};
    if (!conn->leaving && phase == DT_PHASE_IDLE)
        use = idle_use(conn, now_us, since_us);
    else if (!conn->leaving && phase == DT_PHASE_READING)
        use = reading_use(conn, now_us, since_us);
    if (use.loss != LOSS_IN_USE && !atomic_load(&conn->known))
        use.loss = LOSS_STRANGER;
    return use;
}

/* Whose loss is least, of those up to `most`; and of these who is of no use for longest. */
static struct dt_connection *least_loss(const struct dt_connections *table, int64_t now_us, enum loss most)
{
    struct dt_connection *found = NULL;
    struct use least = {LOSS_IN_USE, 0};
    for (struct dt_connection *conn = table->first; conn; conn = conn->next) {
        struct use use = use_of(conn, now_us);
        if (use.loss > most || use.loss > least.loss || (use.loss == least.loss && use.since_us >= least.since_us))
            continue;
        found = conn;
        least = use;
    }
    return found;
}

void dt_connections_evict(struct dt_connections *table, size_t n, bool pressing)
{
    struct dt_connection *conn;
    enum loss most = pressing ? LOSS_SILENT : LOSS_SLOW;
    pthread_mutex_lock(&table->lock);
    int64_t now_us = dt_clock_mono_us(table->clock);
    forgive_now(table, now_us);
    for (size_t i = 0; i < n && (conn = least_loss(table, now_us, most)) != NULL; i++) {
        bool reading = atomic_load(&conn->phase) == DT_PHASE_READING;
        conn->leaving = true;
        shutdown(conn->fd, reading ? cut_off(conn, DT_CUT_SLOW) : SHUT_RDWR);
    }
    pthread_mutex_unlock(&table->lock);
}
