/*
 * The HTTP client: one thread, one multi handle of libcurl, one epoll set, and the lists of exchanges with their
 * limits. http_curl_exchange.c has single exchanges.
 *
 *   send() ──> inbox ──> [waits for its name, for a first connection] ──> under way in libcurl ──> answered
 *      lock, wake_fd          host_names.h, receivers.c                   sockets, timer
 *
 * Invariants:
 *  - An exchange is in exactly one of the three lists until it is answered; each is answered once and freed.
 *  - Only the client's thread uses the members, except inbox, in_flight, bytes and the request to stop.
 *  - Work for an event is bounded by the exchanges that it concerns: libcurl is told which socket is ready
 *    (curl_multi_socket_action), and never walks through all exchanges.
 *  - libcurl is never called from its own callbacks.
 *  - If this thread could not read for a while, limits move by that time before libcurl checks them, so that receivers
 *    are not timed out for it.
 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/thread.h"
#include "http_curl.h"
#include "wire_guard.h"

#define TURN_AGAIN_US  INT64_C(250000) /* pause between two tries of a name that did not get a lookup */
#define EVENTS_AT_ONCE 128
#define SHUT_US        INT64_C(3000000) /* time until kept connections are too old for libcurl (IDLE_MAX_S) */
#define SLEEP_MAX_US   (INT64_C(60) * 1000000)
#define LOOK_US        INT64_C(250000) /* time between two calls of dt_clock_missed_us */
#define STOPPED        "the process stops"
#define SPARE_MAX      128 /* most libcurl handles that are kept for further requests */

struct dt_http_client {
    struct dt_http_settings set; /* its texts are copied below */
    char *allow_hosts;
    char *ca_file; /* file of authorities; NULL: the system's */
    int wake_fd, epoll_fd;
    struct dt_thread thread;

    pthread_mutex_t lock;
    struct dt_client_exchange *inbox;
    _Atomic unsigned in_flight; /* written only under the lock */
    size_t bytes;

    CURLM *multi;
    int64_t timer_us; /* monotonic time when libcurl must be called; INT64_MAX: never */
    dt_host_names *names;
    dt_contacts *contacts;
    dt_receivers *receivers;
    struct dt_client_exchange *waiting;
    int64_t waiting_until_us; /* lower bound of the time at which the first waiting exchange ends its wait */
    struct dt_client_exchange *under_way;
    CURL *spare[SPARE_MAX];
    unsigned n_spare;
    dt_wire_guard *guard;
    int64_t looked_us;          /* monotonic time when sockets were last checked, or should have been checked */
    int64_t prolonged_until_us; /* lower bound of the earliest limit of a prolonged exchange */
    /* After connections were shut, requests use new connections until this time: kept ones may have been shut
     * (SHUT_US). */
    int64_t fresh_until_us;
};

static int64_t read_now_us(const dt_http_client *client)
{
    return dt_clock_mono_us(client->set.clock);
}

static void wake_thread(const dt_http_client *client)
{
    static const uint64_t one = 1;
    ssize_t ignored = write(client->wake_fd, &one, sizeof(one)); /* fails if the counter is full: the reader is awake */
    (void)ignored;
}

/* ---- ends ---- */

static void deliver_answer(dt_http_client *client, struct dt_client_exchange *exchange,
                           const struct dt_http_answer *answer)
{
    dt_assert(!exchange->easy && !exchange->name);
    pthread_mutex_lock(&client->lock);
    dt_assert_cmp(client->in_flight, >, 0);
    dt_assert_cmp(client->bytes, >=, exchange->bytes);
    client->in_flight--;
    client->bytes -= exchange->bytes;
    pthread_mutex_unlock(&client->lock);
    dt_contact_leave(exchange, read_now_us(client));
    dt_receivers_end(exchange, answer->body_whole, read_now_us(client));
    client->set.answered(client->set.arg, exchange->tag, answer);
    dt_client_exchange_free(exchange);
}

/* Ends an exchange that was not passed to libcurl. */
static void end_before_transfer(dt_http_client *client, struct dt_client_exchange *exchange, enum dt_http_end end,
                                const char *detail)
{
    struct dt_http_answer answer = {
        .end = end, .duration_ms = (read_now_us(client) - exchange->taken_us) / 1000, .detail = detail};
    deliver_answer(client, exchange, &answer);
}

/* ---- beginnings ---- */

static void make_exchange_wait(dt_http_client *client, struct dt_client_exchange *exchange, int64_t until_us)
{
    exchange->wait_until_us = dt_earlier(until_us, exchange->until_us);
    client->waiting_until_us = dt_earlier(client->waiting_until_us, exchange->wait_until_us);
    DL_APPEND(client->waiting, exchange);
}

/* Passes an exchange, which is in no list, to libcurl, or makes it wait for the first connection to its host.
 * addresses: NULL if the host is an address. */
static void begin_transfer(dt_http_client *client, struct dt_client_exchange *exchange, const char *addresses)
{
    int64_t now_us = read_now_us(client);
    if (!dt_contact_may_begin(client->contacts, exchange, now_us)) {
        make_exchange_wait(client, exchange, now_us + DT_CONTACT_WAIT_US);
        return;
    }
    CURL *easy = client->n_spare > 0 ? client->spare[--client->n_spare] : dt_easy_new(client->ca_file);
    if (!easy) {
        end_before_transfer(client, exchange, DT_HTTP_CONNECT, "libcurl returned no handle");
        return;
    }
    exchange->allowed = &client->set.allowed;
    exchange->guard = client->guard;
    exchange->fresh = read_now_us(client) < client->fresh_until_us;
    dt_receivers_begin(client->receivers, exchange, read_now_us(client));
    exchange->may_send = client->set.may_send;
    exchange->arg = client->set.arg;
    if (dt_client_exchange_attach(exchange, easy, addresses, read_now_us(client)) == DT_OK &&
        curl_multi_add_handle(client->multi, easy) == CURLM_OK) {
        DL_APPEND(client->under_way, exchange);
        return;
    }
    curl_easy_cleanup(dt_client_exchange_detach(exchange));
    end_before_transfer(client, exchange, DT_HTTP_CONNECT, "libcurl rejected the request");
}

static void resolve_and_begin(dt_http_client *client, struct dt_client_exchange *exchange)
{
    const char *host = exchange->url.host;
    struct in_addr address;
    struct dt_host_name *name;
    if (!dt_host_allowed(dt_str(client->allow_hosts), host)) {
        end_before_transfer(client, exchange, DT_HTTP_FORBIDDEN, "the name of the host is not allowed");
    } else if (strchr(host, ':') || inet_pton(AF_INET, host, &address) == 1) {
        begin_transfer(client, exchange, NULL);
    } else if (dt_host_names_find(client->names, host, exchange->owner, read_now_us(client), &name) != DT_OK) {
        end_before_transfer(client, exchange, DT_HTTP_DNS, "memory is out");
    } else if (name->state == DT_HOST_NAME_KNOWN) {
        begin_transfer(client, exchange, name->addresses);
    } else {
        name->waiting++;
        exchange->name = name;
        exchange->no_turn = name->state == DT_HOST_NAME_NO_TURN;
        if (exchange->no_turn) {
            exchange->until_us = exchange->taken_us + INT64_C(1000) * DT_HTTP_TURN_MS;
            client->waiting_until_us = dt_earlier(client->waiting_until_us, read_now_us(client) + TURN_AGAIN_US);
        }
        make_exchange_wait(client, exchange, exchange->until_us);
    }
}

static struct dt_client_exchange *take_new_exchanges(dt_http_client *client)
{
    pthread_mutex_lock(&client->lock);
    struct dt_client_exchange *all = client->inbox;
    client->inbox = NULL;
    pthread_mutex_unlock(&client->lock);
    return all;
}

/* ---- exchanges that wait ---- */

static void remove_from_waiting(dt_http_client *client, struct dt_client_exchange *exchange)
{
    DL_DELETE(client->waiting, exchange);
    if (exchange->name) {
        dt_assert_cmp(exchange->name->waiting, >, 0);
        exchange->name->waiting--;
    }
    exchange->name = NULL;
}

/* The time of a request begins when the lookup of its name begins. */
static void stop_waiting_for_name(dt_http_client *client, struct dt_client_exchange *exchange)
{
    remove_from_waiting(client, exchange);
    if (exchange->no_turn) {
        exchange->taken_us = read_now_us(client);
        exchange->until_us = exchange->taken_us + exchange->timeout_us;
    }
    exchange->no_turn = false;
}

/* Begins lookups for exchanges whose owners may now have one. */
static void begin_waiting_lookups(dt_http_client *client)
{
    struct dt_client_exchange *exchange;
    struct dt_client_exchange *next;
    struct dt_host_name *name;
    DL_FOREACH_SAFE(client->waiting, exchange, next)
    {
        if (!exchange->no_turn ||
            dt_host_names_find(client->names, exchange->url.host, exchange->owner, read_now_us(client), &name) !=
                DT_OK ||
            name->state == DT_HOST_NAME_NO_TURN)
            continue;
        stop_waiting_for_name(client, exchange);
        resolve_and_begin(client, exchange);
    }
}

static void handle_ended_lookups(dt_http_client *client)
{
    struct dt_client_exchange *exchange;
    struct dt_client_exchange *next;
    bool some = false;
    for (struct dt_host_name *name; (name = dt_host_names_ended(client->names, read_now_us(client))); some = true)
        DL_FOREACH_SAFE(client->waiting, exchange, next)
        {
            if (exchange->name != name)
                continue;
            stop_waiting_for_name(client, exchange);
            if (name->state == DT_HOST_NAME_KNOWN)
                begin_transfer(client, exchange, name->addresses);
            else
                end_before_transfer(client, exchange, DT_HTTP_DNS, name->reason);
        }
    if (some)
        begin_waiting_lookups(client);
}

static void handle_made_contacts(dt_http_client *client)
{
    const struct dt_contact *contact;
    while ((contact = dt_contacts_next_made(client->contacts))) {
        struct dt_client_exchange *exchange;
        struct dt_client_exchange *next;
        DL_FOREACH_SAFE(client->waiting, exchange, next)
        {
            if (exchange->contact != contact || exchange->name)
                continue;
            remove_from_waiting(client, exchange);
            resolve_and_begin(client, exchange);
        }
    }
}

/* Ends waits: an exchange that waited too long for a connection begins without it; an exchange that waited for a name,
 * or has no time left, ends. */
static void end_expired_waits(dt_http_client *client)
{
    struct dt_client_exchange *exchange;
    struct dt_client_exchange *next;
    int64_t now_us = read_now_us(client);
    if (now_us < client->waiting_until_us)
        return;
    /* Tries again to start lookups, because an earlier try may have failed for lack of memory or of a thread. */
    begin_waiting_lookups(client);
    client->waiting_until_us = INT64_MAX;
    DL_FOREACH_SAFE(client->waiting, exchange, next)
    {
        if (exchange->no_turn)
            client->waiting_until_us = dt_earlier(client->waiting_until_us, now_us + TURN_AGAIN_US);
        if (now_us < exchange->wait_until_us) {
            client->waiting_until_us = dt_earlier(client->waiting_until_us, exchange->wait_until_us);
            continue;
        }
        bool resolved = !exchange->name;
        remove_from_waiting(client, exchange);
        if (exchange->no_turn)
            end_before_transfer(client, exchange, DT_HTTP_WITHHELD, "too many names are looked up for its owner");
        else if (resolved && now_us < exchange->until_us)
            resolve_and_begin(client, exchange);
        else
            end_before_transfer(client, exchange, DT_HTTP_TIMEOUT,
                                resolved ? "the host has not answered in time"
                                         : "the name of the host was not resolved in time");
    }
}

/* ---- libcurl's events ---- */

static int on_timer(CURLM *, long timeout_ms, void *arg)
{
    dt_http_client *client = arg;
    client->timer_us = timeout_ms < 0 ? INT64_MAX : read_now_us(client) + (int64_t)timeout_ms * 1000;
    return 0;
}

/* Returns the exchange of a handle. NULL: libcurl's own handle, which closes connections. */
static struct dt_client_exchange *exchange_of(CURL *easy)
{
    char *exchange = NULL;
    return curl_easy_getinfo(easy, CURLINFO_PRIVATE, &exchange) == CURLE_OK ? (void *)exchange : NULL;
}

/* Watches or forgets a socket for libcurl. `known` is the argument of curl_multi_assign: not NULL if libcurl already
 * waits for the socket. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    dt_http_client *client = arg;
    struct dt_client_exchange *exchange = exchange_of(easy);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    const bool owes = what != CURL_POLL_REMOVE && (what & CURL_POLL_OUT) && exchange && exchange->sent;
    dt_wire_guard_owes(client->guard, fd, owes);
    if (what == CURL_POLL_REMOVE) { /* closing a socket also removes it from the epoll set */
        const int watch = dt_receivers_rest(client->receivers, fd, exchange) ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
        (void)epoll_ctl(client->epoll_fd, watch, fd, &event);
        return 0;
    }
    const bool there = dt_receivers_use(client->receivers, fd, exchange) || known;
    event.events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0u) | (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0u);
    int op = there ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    int other = there ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(client->epoll_fd, op, fd, &event) != 0 && (errno == EEXIST || errno == ENOENT))
        (void)epoll_ctl(client->epoll_fd, other, fd, &event); /* the descriptor belonged to another socket before */
    curl_multi_assign(client->multi, fd, client);
    return 0;
}

/* Leaves the guard (wire_guard.h). Called when libcurl has written what the sockets accept now. */
static void leave_wire_guard(dt_http_client *client)
{
    if (dt_wire_guard_leave(client->guard))
        client->fresh_until_us = read_now_us(client) + SHUT_US;
}

static void finish_exchange(dt_http_client *client, struct dt_client_exchange *exchange, CURLcode code)
{
    struct dt_http_answer answer = dt_client_exchange_answer(exchange, (int)code, read_now_us(client));
    curl_multi_remove_handle(client->multi, exchange->easy);
    CURL *easy = dt_client_exchange_detach(exchange);
    if (client->n_spare < SPARE_MAX)
        client->spare[client->n_spare++] = easy;
    else
        curl_easy_cleanup(easy);
    DL_DELETE(client->under_way, exchange);
    if (!exchange->sent)
        dt_host_names_doubt(client->names, exchange->url.host, exchange->owner, read_now_us(client));
    deliver_answer(client, exchange, &answer);
}

static void extend_limits_after_stop(dt_http_client *client)
{
    const int64_t missed_us = dt_clock_missed_us(&client->looked_us, read_now_us(client), LOOK_US);
    client->prolonged_until_us =
        dt_earlier(client->prolonged_until_us, dt_client_exchanges_prolong(client->under_way, missed_us));
    (void)dt_client_exchanges_prolong(client->waiting, missed_us);
}

/* Reports exchanges that libcurl has ended, and ends prolonged exchanges whose limit has passed, which libcurl may
 * notice later. */
static void finish_ended_transfers(dt_http_client *client)
{
    struct dt_client_exchange *exchange;
    struct dt_client_exchange *next;
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(client->multi, &left));) {
        CURLcode code = message->data.result;
        exchange = message->msg == CURLMSG_DONE ? exchange_of(message->easy_handle) : NULL;
        if (exchange)
            finish_exchange(client, exchange, code);
    }
    int64_t now_us = read_now_us(client);
    if (now_us < client->prolonged_until_us)
        return;
    client->prolonged_until_us = INT64_MAX;
    DL_FOREACH_SAFE(client->under_way, exchange, next)
    {
        if (exchange->prolonged && now_us >= exchange->until_us)
            finish_exchange(client, exchange, CURLE_OPERATION_TIMEDOUT);
        else if (exchange->prolonged)
            client->prolonged_until_us = dt_earlier(client->prolonged_until_us, exchange->until_us);
    }
}

/* ---- the thread ---- */

/* Sleeps until an event occurs, then serves the ready sockets and libcurl's timer. */
static void serve_events(dt_http_client *client)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int running;
    extend_limits_after_stop(client);
    int64_t us = dt_earlier(dt_earlier(client->timer_us, client->waiting_until_us), client->prolonged_until_us);
    us = us == INT64_MAX ? SLEEP_MAX_US : us - read_now_us(client);
    const int ms = us <= 0 ? 0 : (int)((dt_earlier(us, SLEEP_MAX_US) + 999) / 1000);
    client->looked_us += INT64_C(1000) * ms;
    int n = epoll_wait(client->epoll_fd, events, EVENTS_AT_ONCE, ms);
    extend_limits_after_stop(client);
    for (int i = 0; i < n; i++) {
        const int fd = events[i].data.fd;
        const uint32_t ready = events[i].events;
        if (fd == client->wake_fd) {
            uint64_t count;
            ssize_t ignored = read(client->wake_fd, &count, sizeof(count));
            (void)ignored;
        } else if (dt_receivers_hear(client->receivers, fd, read_now_us(client))) {
            (void)epoll_ctl(client->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        } else { /* after a socket error, libcurl reads to get the cause */
            const int in = ready & (EPOLLIN | EPOLLERR | EPOLLHUP) ? CURL_CSELECT_IN : 0;
            const int out = ready & EPOLLOUT ? CURL_CSELECT_OUT : 0;
            (void)curl_multi_socket_action(client->multi, fd, in | out, &running);
            leave_wire_guard(client);
        }
    }
    if (read_now_us(client) >= client->timer_us) {
        client->timer_us = INT64_MAX;
        (void)curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        leave_wire_guard(client);
    }
}

static void abort_all_exchanges(dt_http_client *client)
{
    struct dt_client_exchange *exchange;
    while ((exchange = client->under_way)) {
        /* a complete head decides the result, although the client stops before the body is complete */
        struct dt_http_answer answer =
            dt_client_exchange_answer(exchange, (int)CURLE_ABORTED_BY_CALLBACK, read_now_us(client));
        DL_DELETE(client->under_way, exchange);
        curl_multi_remove_handle(client->multi, exchange->easy);
        curl_easy_cleanup(dt_client_exchange_detach(exchange));
        if (answer.end == DT_HTTP_ANSWERED)
            deliver_answer(client, exchange, &answer);
        else
            end_before_transfer(client, exchange, DT_HTTP_UNKNOWN, STOPPED);
    }
    while ((exchange = client->waiting)) {
        remove_from_waiting(client, exchange);
        end_before_transfer(client, exchange, DT_HTTP_UNKNOWN, STOPPED);
    }
    for (struct dt_client_exchange *all = take_new_exchanges(client); (exchange = all);) {
        DL_DELETE(all, exchange);
        end_before_transfer(client, exchange, DT_HTTP_UNKNOWN, STOPPED);
    }
}

static void run_client(void *arg)
{
    dt_http_client *client = arg;
    struct dt_client_exchange *exchange;
    struct dt_error err = {0};
    sigset_t set; /* blocks SIGPIPE, because writing to a reset connection must not end the process */
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (dt_wire_guard_attach(client->guard, &err) != DT_OK)
        DT_LOG(WARN, "callbacks", "a process that is stopped and continues may send after its lease",
               DT_S("reason", err.text));
    while (!dt_thread_stopping(&client->thread)) {
        for (struct dt_client_exchange *all = take_new_exchanges(client); (exchange = all);) {
            DL_DELETE(all, exchange);
            resolve_and_begin(client, exchange);
        }
        serve_events(client);
        handle_ended_lookups(client);
        end_expired_waits(client);
        finish_ended_transfers(client);
        handle_made_contacts(client);
    }
    abort_all_exchanges(client);
    dt_wire_guard_detach(client->guard);
}

/* ---- the port ---- */

void dt_http_client_write_until(dt_http_client *client, int64_t until_us)
{
    dt_wire_guard_until(client->guard, until_us);
}

void dt_http_client_write_over(dt_http_client *client)
{
    dt_wire_guard_over(client->guard);
}

dt_status dt_http_client_send(dt_http_client *client, const struct dt_http_request *request)
{
    struct dt_client_exchange *exchange;
    dt_status status = dt_client_exchange_new(request, &exchange);
    if (status != DT_OK)
        return status;
    exchange->taken_us = read_now_us(client);
    exchange->until_us = exchange->taken_us + exchange->timeout_us;
    pthread_mutex_lock(&client->lock);
    const bool first = !client->inbox;
    if (dt_thread_stopping(&client->thread)) {
        status = DT_SHUTDOWN;
    } else if (client->in_flight >= client->set.max_in_flight || exchange->bytes > client->set.max_bytes ||
               client->bytes > client->set.max_bytes - exchange->bytes) {
        status = DT_FULL;
    } else {
        client->in_flight++;
        client->bytes += exchange->bytes;
        DL_APPEND(client->inbox, exchange);
    }
    pthread_mutex_unlock(&client->lock);
    if (status != DT_OK)
        dt_client_exchange_free(exchange);
    else if (first)
        wake_thread(client);
    return status;
}

unsigned dt_http_client_in_flight(const dt_http_client *client)
{
    return client->in_flight;
}

void dt_http_client_stop(dt_http_client *client)
{
    dt_thread_ask_stop(&client->thread, NULL);
    wake_thread(client);
    dt_thread_join(&client->thread);
}

/* ---- lifetime ---- */

static dt_status open_client_resources(dt_http_client *client, struct dt_error *err)
{
    dt_status status = dt_easy_check(client->ca_file, err);
    DT_THEN(status, dt_wire_guard_new(client->set.clock, &client->guard));
    if (status != DT_OK)
        return status;
    client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = client->wake_fd};
    if (client->wake_fd < 0 || client->epoll_fd < 0 ||
        epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, client->wake_fd, &event) != 0)
        return DT_SYSTEM;
    status = dt_contacts_new(&client->contacts);
    DT_THEN(status, dt_receivers_new(&client->receivers));
    DT_THEN(status, dt_host_names_new(client->wake_fd, &client->names));
    if (status != DT_OK)
        return status;
    client->multi = curl_multi_init();
    if (!client->multi)
        return DT_NOMEM;
    /* MAXCONNECTS includes the connections in use. */
    if (curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket) != CURLM_OK ||
        curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client) != CURLM_OK ||
        curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer) != CURLM_OK ||
        curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client) != CURLM_OK ||
        curl_multi_setopt(client->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX) != CURLM_OK ||
        curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)client->set.max_in_flight) != CURLM_OK)
        return DT_SYSTEM;
    return dt_thread_start(&client->thread, "callbacks", run_client, client, err);
}

dt_status dt_http_client_new(const struct dt_http_settings *settings, dt_http_client **out, struct dt_error *err)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return dt_fail(err, DT_SYSTEM, "libcurl cannot be initialized");
    dt_http_client *client = calloc(1, sizeof(*client));
    if (!client || pthread_mutex_init(&client->lock, NULL) != 0) {
        free(client);
        curl_global_cleanup();
        return DT_NOMEM;
    }
    const bool own_ca = settings->ca_file && settings->ca_file[0];
    client->set = *settings;
    client->allow_hosts = strndup(settings->allow_hosts.p ? settings->allow_hosts.p : "", settings->allow_hosts.n);
    client->ca_file = own_ca ? strdup(settings->ca_file) : NULL;
    client->wake_fd = client->epoll_fd = -1;
    client->timer_us = client->waiting_until_us = client->prolonged_until_us = INT64_MAX;
    dt_status status = DT_NOMEM;
    if (client->allow_hosts && (client->ca_file || !own_ca))
        status = open_client_resources(client, err);
    if (status == DT_OK)
        *out = client;
    else
        dt_http_client_free(client);
    return status;
}

/* The multi handle closes kept connections through a handle of its own, so the other handles may be freed first. */
void dt_http_client_free(dt_http_client *client)
{
    if (!client)
        return;
    dt_http_client_stop(client);
    dt_assert(!client->inbox && !client->waiting && !client->under_way);
    dt_assert_cmp(client->in_flight, ==, 0);
    dt_assert_cmp(client->bytes, ==, 0);
    while (client->n_spare > 0)
        curl_easy_cleanup(client->spare[--client->n_spare]);
    curl_multi_cleanup(client->multi);
    dt_wire_guard_free(client->guard);
    dt_host_names_free(client->names);
    dt_contacts_free(client->contacts);
    dt_receivers_free(client->receivers);
    if (client->wake_fd >= 0)
        close(client->wake_fd);
    if (client->epoll_fd >= 0)
        close(client->epoll_fd);
    pthread_mutex_destroy(&client->lock);
    free(client->allow_hosts);
    free(client->ca_file);
    free(client);
    curl_global_cleanup();
}
