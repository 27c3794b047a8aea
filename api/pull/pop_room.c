/*
 * POST /v1/topics/{topic}/pop and POST /v1/pop; and the thread of the waiting room, with the sockets of waiting pops. A
 * worker claims jobs for a pop. If the claim finds none and the pop may wait, the pop enters the room with its
 * connection. If other pops already wait for its topics, the pop enters the room without a claim, because the others
 * are served first.
 *
 *   a notification of offers, or a poll ──▶ the lines of these topics are ready ──▶ owners take turns: one claim
 *   for the first pops of a line whose clients are still connected ──▶ answers, in order of arrival
 *
 * Invariants: an answer with jobs is sent to a client that was connected when its jobs were claimed; any thread adds
 * pops to lines, but only the room's thread removes pops, so this thread may use pops without the lock; if a
 * notification arrives between a pop's claim and its entering, the pop's lines become ready; a ready line waits for at
 * most one claim of each other owner.
 */
#include "pop_room.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "answer.h"
#include "base/assert.h"
#include "base/fair.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/thread.h"
#include "command.h"
#include "handlers.h"
#include "pop_lines.h"
#include "redis/redis_subscriber.h"
#include "request/topic_cache.h"

#define LOOK_US        INT64_C(50000)   /* time between two polls while Redis is down */
#define LOOK_HEARD_US  INT64_C(1000000) /* time between two polls while Redis works */
#define ENDS_US        INT64_C(10000)   /* minimal time between two walks over all pops to end waits */
#define SERVED_AT_ONCE 256 /* one claim serves at most this many pops of one topic, and claims at most this many jobs */
#define TTRS_AT_ONCE   8
/* an owner gets at most 1/OWNERS_PART of the waiting room's places that other owners leave free (base/fair.h) */
#define OWNERS_PART 2
#define EVENTS      256
#define EARS        256 /* counters of notifications; a power of two */

struct dt_pop_room {
    const struct dt_session_env *env;
    const struct dt_api *api;
    struct dt_thread thread;
    int epoll_fd, wake_fd;
    /* number of notifications: heard[hash of the topic]; heard_all: those for all topics */
    _Atomic uint64_t heard[EARS], heard_all;
    pthread_mutex_t lock;
    /* Members below: protected by the lock. */
    struct dt_pop_lines lines;
    struct dt_shares places; /* the limited number of waiting pops, which owners share */
    bool closed;
    bool look_now;          /* poll now, because notifications may have been missed */
    int64_t first_until_us; /* monotonic: no wait ends before this time */
    /* Members below: used by the waiting room's thread only. */
    struct dt_session session;
    dt_wake *wake;            /* subscription to notifications; NULL: not started yet, or there is no Redis */
    bool listens;             /* the subscription was started, or there is no Redis */
    int64_t look_us, ends_us; /* time of the next poll, and earliest time of the next walk to end waits */
    struct dt_arena arena;
    struct dt_hold hold;
    struct dt_outage_part outage;
    dt_metric *waiting, *answered, *left;
};

/* ---- notifications ---- */

static void wake_pop_thread(dt_pop_room *room)
{
    uint64_t one = 1;
    if (write(room->wake_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full, so the thread will wake anyway */
}

static _Atomic uint64_t *notification_counter_of(dt_pop_room *room, struct dt_str topic)
{
    return &room->heard[dt_str_hash(topic) & (EARS - 1)];
}

uint64_t dt_pop_room_heard(dt_pop_room *room, const struct dt_pop_wish *wish)
{
    uint64_t heard = atomic_load(&room->heard_all);
    for (size_t i = 0; i < wish->n_topics; i++)
        heard += atomic_load(notification_counter_of(room, wish->topics[i]));
    return heard;
}

/* Called for each notification, on the subscriber's thread. */
static void on_offer_notification(void *arg, struct dt_str topic)
{
    dt_pop_room *room = arg;
    atomic_fetch_add(topic.p ? notification_counter_of(room, topic) : &room->heard_all, 1);
    pthread_mutex_lock(&room->lock);
    if (topic.p)
        dt_pop_lines_ready(&room->lines, topic, 0);
    else
        room->look_now = room->lines.n > 0;
    bool any = room->lines.ready || room->look_now;
    pthread_mutex_unlock(&room->lock);
    if (any)
        wake_pop_thread(room);
}

/* Subscribes to notifications. The channel's name contains the installation's name, which is known only after this
 * process first reached MySQL. */
static void listen_for_offers(dt_pop_room *room)
{
    struct dt_error err = {0};
    struct dt_view *view = room->listens ? NULL : dt_topic_cache_view(room->api->topics);
    if (!view)
        return;
    dt_status status = dt_wake_start_for_pops(room->env->config, view->installation.name, on_offer_notification, room,
                                              &room->wake, &err);
    dt_view_release(view);
    room->listens = status == DT_OK;
    if (status != DT_OK)
        DT_LOG(WARN, "pops", "this process gets no notifications of offered jobs: waiting pops poll",
               DT_S("reason", err.text));
}

static bool receives_offer_notifications(const dt_pop_room *room)
{
    return room->wake && dt_wake_hears(room->wake);
}

/* ---- entering and leaving ---- */

static void add_jobs(struct dt_strbuf *out, enum dt_pop_form form, const struct dt_job *jobs, size_t n,
                     const struct dt_command_job *names)
{
    if (form == DT_POP_FORM_JOBS)
        dt_pop_add(out, jobs, n);
    else
        dt_command_add_popped(out, form, jobs, n, names);
}

/* Sends an answer without jobs to a pop whose wait has ended or that cannot wait. */
static void answer_without_jobs(dt_detached *detached, enum dt_pop_form form)
{
    struct dt_strbuf body = {0};
    struct dt_hold none = {0};
    add_jobs(&body, form, NULL, 0, NULL);
    dt_detached_answer(detached, 200, "application/json", &body, &none);
}

/* Adds the pop to the queues (lines) of its topics. False: the pop was not added, and the number of waiting pops was
 * lowered again. */
static bool add_to_topic_lines(dt_pop_room *room, const struct dt_pop_wish *wish, const int64_t *owners,
                               struct dt_pop_waiter *waiter, uint64_t heard)
{
    pthread_mutex_lock(&room->lock);
    bool added = !room->closed && dt_pop_lines_add(&room->lines, wish, owners, waiter);
    struct epoll_event event = {.events = EPOLLRDHUP, .data.ptr = waiter};
    if (added && epoll_ctl(room->epoll_fd, EPOLL_CTL_ADD, waiter->fd, &event) != 0) {
        (void)dt_pop_lines_remove(&room->lines, waiter);
        added = false;
    }
    if (!added)
        dt_shares_give_back(&room->places, owners[0], 1);
    const bool news = added && heard != dt_pop_room_heard(room, wish);
    for (size_t i = 0; news && i < wish->n_topics; i++)
        dt_pop_lines_ready(&room->lines, wish->topics[i], 0);
    if (added)
        room->first_until_us = dt_earlier(room->first_until_us, waiter->until_us);
    dt_assert_cmp(room->lines.n, <=, room->places.used);
    dt_metric_set(room->waiting, (double)room->lines.n);
    pthread_mutex_unlock(&room->lock);
    return added;
}

bool dt_pop_room_enter(dt_pop_room *room, struct dt_request *req, const struct dt_pop_wish *wish, uint64_t heard)
{
    int64_t owners[DT_POP_TOPICS];
    struct dt_view *view = dt_topic_cache_view(room->api->topics);
    for (size_t i = 0; i < wish->n_topics; i++)
        owners[i] = dt_view_owner(view, wish->topics[i]);
    dt_view_release(view);
    struct dt_pop_waiter *waiter = dt_pop_waiter_new(wish);
    if (!waiter)
        return false;
    pthread_mutex_lock(&room->lock);
    const bool place = !room->closed && dt_shares_take(&room->places, owners[0], 1, dt_clock_mono_us(room->env->clock));
    pthread_mutex_unlock(&room->lock);
    waiter->detached = place ? dt_request_detach(req) : NULL;
    if (!waiter->detached) {
        pthread_mutex_lock(&room->lock);
        if (place)
            dt_shares_give_back(&room->places, owners[0], 1);
        pthread_mutex_unlock(&room->lock);
        free(waiter);
        return false;
    }
    waiter->fd = dt_detached_fd(waiter->detached);
    waiter->until_us = req->started_us + wish->wait_ms * 1000;
    if (add_to_topic_lines(room, wish, owners, waiter, heard)) {
        wake_pop_thread(room);
        return true;
    }
    answer_without_jobs(waiter->detached,
                        wish->form); /* the request has given its connection away, so it cannot answer */
    free(waiter);
    return true;
}

/* Removes a pop from the queues (lines) of its topics. Returns its detached answer, which the caller must send. */
static dt_detached *remove_waiting_pop(dt_pop_room *room, struct dt_pop_waiter *waiter)
{
    dt_detached *detached = waiter->detached;
    epoll_ctl(room->epoll_fd, EPOLL_CTL_DEL, waiter->fd, NULL);
    pthread_mutex_lock(&room->lock);
    /* If a line that may have jobs was freed, another pop that is just entering may have seen it: the raised count
     * notifies that pop. */
    if (dt_pop_lines_remove(&room->lines, waiter))
        atomic_fetch_add(&room->heard_all, 1);
    dt_shares_give_back(&room->places, waiter->owner, 1);
    dt_assert_cmp(room->lines.n, <=, room->places.used);
    dt_metric_set(room->waiting, (double)room->lines.n);
    pthread_mutex_unlock(&room->lock);
    free(waiter);
    return detached;
}

/* Removes a pop whose client has disconnected. Sends its answer, which the client will not read, to close the
 * connection. */
static void drop_disconnected_pop(dt_pop_room *room, struct dt_pop_waiter *waiter)
{
    const enum dt_pop_form form = waiter->form;
    dt_metric_add(room->left, 1);
    answer_without_jobs(remove_waiting_pop(room, waiter), form);
}

/* Ends waits whose time is up; if the room is closed, all waits. Two walks over all pops are at least ENDS_US apart, so
 * that many short waits of one client cost the other clients little. */
static void end_expired_waits(dt_pop_room *room)
{
    const int64_t now_us = dt_clock_mono_us(room->env->clock);
    struct dt_pop_waiter *over = NULL;
    struct dt_pop_waiter *waiter;
    pthread_mutex_lock(&room->lock);
    if (room->closed || (now_us >= room->first_until_us && now_us >= room->ends_us)) {
        room->first_until_us = INT64_MAX;
        room->ends_us = now_us + ENDS_US;
        DL_FOREACH(room->lines.waiters, waiter)
        if (room->closed || waiter->until_us <= now_us) {
            waiter->next_over = over;
            over = waiter;
        } else {
            room->first_until_us = dt_earlier(room->first_until_us, waiter->until_us);
        }
    }
    pthread_mutex_unlock(&room->lock);
    for (struct dt_pop_waiter *next; over; over = next) {
        const enum dt_pop_form form = over->form;
        next = over->next_over;
        answer_without_jobs(remove_waiting_pop(room, over), form);
    }
}

/* ---- serving ---- */

/* The pops that one claim serves: the first ones that wait for a topic. */
struct served {
    struct dt_str topic; /* topic that these pops wait for, in the arena */
    struct dt_pop_waiter *v[SERVED_AT_ONCE];
    struct dt_pop_taker takers[SERVED_AT_ONCE]; /* for each served pop: how many jobs it gets */
    size_t n, max;                              /* number of served pops, and number of jobs that they want together */
    int64_t ttrs_ms[TTRS_AT_ONCE];
    size_t n_ttrs;
    bool by_command; /* at least one of the served pops was sent as a command */
};

/* Returns whether the claim has this ttr; adds it if needed. False: the claim already has TTRS_AT_ONCE other ttrs, each
 * of which costs a statement. */
static bool ensure_claim_ttr(struct served *served, int64_t ttr_ms)
{
    for (size_t i = 0; i < served->n_ttrs; i++)
        if (served->ttrs_ms[i] == ttr_ms)
            return true;
    if (served->n_ttrs == TTRS_AT_ONCE)
        return false;
    served->ttrs_ms[served->n_ttrs++] = ttr_ms;
    return true;
}

/* Chooses the first topic whose waiting pops (line) may get jobs now, and the pops that one claim serves. False: there
 * is no such topic. */
static bool choose_pops(dt_pop_room *room, struct served *served)
{
    size_t wanted = 0;
    const int64_t now = dt_clock_mono_us(room->env->clock);
    *served = (struct served){.n = 0};
    pthread_mutex_lock(&room->lock);
    struct dt_pop_line *line = dt_pop_lines_next_ready(&room->lines, now);
    if (line)
        served->topic = dt_arena_copy(&room->arena, line->topic);
    if (line && !served->topic.p)
        dt_pop_lines_ready(&room->lines, line->topic, now + DT_POP_AGAIN_US);
    for (const struct dt_pop_place *place = served->topic.p ? line->first : NULL;
         place && served->n < SERVED_AT_ONCE && wanted < SERVED_AT_ONCE &&
         ensure_claim_ttr(served, place->waiter->ttr_ms);
         place = place->next) {
        served->v[served->n++] = place->waiter;
        wanted += place->waiter->max;
    }
    pthread_mutex_unlock(&room->lock);
    return served->topic.p != NULL;
}

/* Drops those of the chosen pops whose client has disconnected. Called before the claim. */
static void drop_disconnected_chosen_pops(dt_pop_room *room, struct served *served)
{
    struct pollfd polled[SERVED_AT_ONCE];
    size_t kept = 0;
    for (size_t i = 0; i < served->n; i++)
        polled[i] = (struct pollfd){.fd = served->v[i]->fd, .events = POLLRDHUP};
    (void)poll(polled, served->n, 0);
    for (size_t i = 0; i < served->n; i++) {
        struct dt_pop_waiter *waiter = served->v[i];
        dt_assert_cmp(served->max, <=, DT_POP_MAX);
        const size_t room_left = DT_POP_MAX - served->max;
        if (polled[i].revents) {
            drop_disconnected_pop(room, waiter);
            continue;
        }
        served->takers[kept] =
            (struct dt_pop_taker){.max = waiter->max < room_left ? waiter->max : room_left, .ttr_ms = waiter->ttr_ms};
        served->max += served->takers[kept].max;
        served->by_command |= waiter->form != DT_POP_FORM_JOBS;
        served->v[kept++] = waiter;
    }
    served->n = kept;
}

static void answer_pops_with_jobs(dt_pop_room *room, const struct served *served, const struct dt_popped *popped)
{
    size_t from = 0;
    for (size_t i = 0; i < served->n && from < popped->n; from += served->takers[i++].n) {
        const size_t n = served->takers[i].n;
        const struct dt_command_job *names = popped->names ? popped->names + from : NULL;
        struct dt_strbuf body = {0};
        struct dt_hold hold;
        if (n == 0)
            continue;
        dt_hold_init(&hold, room->api->memory);
        add_jobs(&body, served->v[i]->form, popped->jobs + from, n, names);
        dt_hold_move(&room->hold, &hold, body.cap);
        dt_metric_add(room->answered, 1);
        dt_detached_answer(remove_waiting_pop(room, served->v[i]), 200, "application/json", &body, &hold);
    }
    dt_assert_cmp(from, ==, popped->n); /* every claimed job is in an answer */
}

static void refuse_pops(dt_pop_room *room, const struct served *served, const struct dt_popped *popped)
{
    const bool unknown = popped->why == DT_POP_TOPIC_UNKNOWN;
    for (size_t i = 0; i < served->n; i++) {
        const enum dt_pop_form form = served->v[i]->form;
        dt_detached *detached = remove_waiting_pop(room, served->v[i]);
        struct dt_strbuf body = {0};
        struct dt_hold none = {0};
        if (form == DT_POP_FORM_JOBS) {
            dt_detached_problem(detached, unknown ? DT_PROBLEM_NOT_FOUND : DT_PROBLEM_NOT_PULL,
                                unknown ? "no such topic" : "the delivery of a topic is not pull");
            continue;
        }
        dt_command_add_refusal(&body, popped->why);
        dt_detached_answer(detached, 200, "application/json", &body, &none);
    }
}

static void record_outage(dt_pop_room *room, dt_status status, const struct dt_error *err)
{
    if (status == DT_OK)
        dt_outage_over(&room->outage);
    else
        dt_outage_failed(&room->outage, DT_OUTAGE_MYSQL, "pops", "waiting pops get no jobs", status, err);
}

/* Makes one claim of jobs for the waiting pops of one topic, and sends their answers. */
static void claim_for_ready_line(dt_pop_room *room)
{
    struct served served;
    struct dt_popped popped = {.n = 0};
    struct dt_error err = {0};
    if (!choose_pops(room, &served))
        return;
    drop_disconnected_chosen_pops(room, &served);
    dt_status status = DT_OK;
    if (served.n) {
        const struct dt_pop_wish wish = {.topics = &served.topic, .n_topics = 1, .wait_ms = 1};
        const size_t bytes = dt_pop_bytes(room->api, served.max, DT_POP_BYTES);
        if (dt_hold_exactly(&room->hold, DT_POP_ROOM_EACH * bytes)) {
            status = dt_session_begin(&room->session, &err);
            DT_THEN(status, dt_pop_take(room->api, room->session.store, &wish, served.takers, served.n, bytes,
                                        &room->arena, &popped, &err));
            if (popped.n && served.by_command)
                popped.names = dt_command_name_jobs(room->session.store, &room->arena, &popped);
            dt_session_end(&room->session);
        } else {
            status = dt_fail(&err, DT_UNAVAILABLE, "out of memory");
        }
        record_outage(room, status, &err);
    }
    if (popped.refused.p)
        refuse_pops(room, &served, &popped);
    answer_pops_with_jobs(room, &served, &popped);
    pthread_mutex_lock(&room->lock);
    if (served.n == 0)
        dt_pop_lines_ready(&room->lines, served.topic, 0);
    /* If the topic's line (queue of waiting pops) was freed meanwhile, another pop that saw it may just be entering the
     * waiting room, in a new line. The raised count of notifications tells this pop that jobs may be on offer. */
    if (served.n == 0 ||
        dt_pop_lines_claimed(&room->lines, served.topic, status, &popped, dt_clock_mono_us(room->env->clock)))
        atomic_fetch_add(notification_counter_of(room, served.topic), 1);
    pthread_mutex_unlock(&room->lock);
    dt_hold_less(&room->hold, DT_HOLD_ALL);
}

/* Polls MySQL for offers, with one statement for all waiting pops. */
static void poll_offers(dt_pop_room *room)
{
    struct dt_error err = {0};
    struct dt_pop_line *line;
    struct dt_pop_line *next;
    size_t n = 0;
    pthread_mutex_lock(&room->lock);
    const size_t lines = HASH_COUNT(room->lines.lines);
    struct dt_str *topics = dt_arena_alloc(&room->arena, (lines + 1) * sizeof(*topics));
    enum dt_pop_topic *seen = dt_arena_alloc(&room->arena, (lines + 1) * sizeof(*seen));
    bool fine = topics && seen;
    room->look_now = false;
    HASH_ITER(hh, room->lines.lines, line, next)
    if (fine) {
        topics[n] = dt_arena_copy(&room->arena, line->topic);
        fine = topics[n++].p != NULL;
    }
    pthread_mutex_unlock(&room->lock);
    dt_status status = fine ? dt_session_begin(&room->session, &err) : DT_NOMEM;
    DT_THEN(status, dt_store_pop_look(room->session.store, topics, n, seen, &err));
    dt_session_end(&room->session);
    record_outage(room, status, &err);
    pthread_mutex_lock(&room->lock);
    for (size_t i = 0; status == DT_OK && i < n; i++)
        if (seen[i] != DT_POP_TOPIC_EMPTY)
            dt_pop_lines_ready(&room->lines, topics[i], 0);
    pthread_mutex_unlock(&room->lock);
    dt_arena_reset(&room->arena);
    room->look_us = dt_clock_mono_us(room->env->clock) + (status != DT_OK                      ? DT_POP_AGAIN_US
                                                          : receives_offer_notifications(room) ? LOOK_HEARD_US
                                                                                               : LOOK_US);
}

/* ---- the thread ---- */

/* Returns how long the thread may sleep, in ms; -1: until it is woken. */
static int next_timeout_ms(dt_pop_room *room)
{
    pthread_mutex_lock(&room->lock);
    const int64_t ends_us = room->first_until_us > room->ends_us ? room->first_until_us : room->ends_us;
    int64_t next_us = room->lines.n ? dt_earlier(ends_us, room->look_now ? 0 : room->look_us) : INT64_MAX;
    next_us = dt_earlier(next_us, dt_pop_lines_next_us(&room->lines));
    pthread_mutex_unlock(&room->lock);
    if (next_us == INT64_MAX)
        return -1;
    const int64_t now_us = dt_clock_mono_us(room->env->clock);
    if (!receives_offer_notifications(room))
        next_us = dt_earlier(next_us, now_us + LOOK_US);
    return next_us <= now_us ? 0 : (int)((next_us - now_us) / 1000) + 1;
}

/* Sleeps until there is work, and drops pops whose client has disconnected. */
static void wait_and_drop_disconnected_pops(dt_pop_room *room)
{
    struct epoll_event events[EVENTS];
    int n;
    do /* a signal repeats the wait: after SIGSTOP and SIGCONT, disconnected pops are dropped before waits end */
        n = epoll_wait(room->epoll_fd, events, EVENTS, next_timeout_ms(room));
    while (n < 0 && errno == EINTR);
    for (int i = 0; i < n; i++) {
        uint64_t count;
        struct dt_pop_waiter *waiter = events[i].data.ptr;
        if (waiter)
            drop_disconnected_pop(room, waiter);
        else if (read(room->wake_fd, &count, sizeof(count)) < 0)
            continue;
    }
}

static void run_pop_thread(void *arg)
{
    dt_pop_room *room = arg;
    while (!dt_thread_stopping(&room->thread)) {
        wait_and_drop_disconnected_pops(room);
        end_expired_waits(room);
        pthread_mutex_lock(&room->lock);
        const bool any = room->lines.n > 0;
        const bool look_now = room->look_now || dt_clock_mono_us(room->env->clock) >= room->look_us;
        pthread_mutex_unlock(&room->lock);
        if (!any)
            continue;
        listen_for_offers(room);
        if (look_now)
            poll_offers(room);
        /* Makes one claim for the waiting pops of one topic (a line) of each owner. After that, the loop checks clock,
         * sockets and ready lines again. */
        pthread_mutex_lock(&room->lock);
        size_t turns = dt_pop_lines_rotate(&room->lines, dt_clock_mono_us(room->env->clock), &room->arena);
        pthread_mutex_unlock(&room->lock);
        for (; turns; turns--) {
            claim_for_ready_line(room);
            dt_arena_reset(&room->arena);
            end_expired_waits(room);
        }
    }
    end_expired_waits(room);
    dt_assert_cmp(room->lines.n, ==, 0);
    dt_session_clear(&room->session);
}

/* ---- start and end ---- */

dt_status dt_pop_room_start(const struct dt_session_env *env, const struct dt_api *api, dt_pop_room **out,
                            struct dt_error *err)
{
    *out = NULL;
    dt_pop_room *room = calloc(1, sizeof(*room));
    if (!room)
        return dt_fail(err, DT_NOMEM, "out of memory for waiting pops");
    room->env = env;
    room->api = api;
    room->first_until_us = INT64_MAX;
    pthread_mutex_init(&room->lock, NULL);
    room->places = (struct dt_shares){.total = (size_t)env->config->http_waiting_pops, .part = OWNERS_PART};
    dt_hold_init(&room->hold, api->memory);
    room->waiting = dt_gauge("duetime_pops_waiting", "Pops that wait for jobs.", "");
    room->answered = dt_counter("duetime_pops_served_total", "Pops that waited and got jobs.", "");
    room->left = dt_counter("duetime_pops_left_total", "Pops whose client closed the connection while waiting.", "");
    struct epoll_event event = {.events = EPOLLIN};
    room->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    room->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    dt_status status = DT_OK;
    if (room->epoll_fd < 0 || room->wake_fd < 0 || epoll_ctl(room->epoll_fd, EPOLL_CTL_ADD, room->wake_fd, &event) != 0)
        status = DT_SYSTEM;
    DT_THEN(status, dt_session_init(&room->session, env));
    DT_THEN(status, dt_thread_start(&room->thread, "pops", run_pop_thread, room, NULL));
    if (status != DT_OK) {
        dt_pop_room_free(room);
        return dt_fail(err, status, "the thread for waiting pops cannot start");
    }
    *out = room;
    return DT_OK;
}

void dt_pop_room_close(dt_pop_room *room)
{
    pthread_mutex_lock(&room->lock);
    room->closed = true;
    pthread_mutex_unlock(&room->lock);
    wake_pop_thread(room);
}

void dt_pop_room_stop(dt_pop_room *room)
{
    dt_pop_room_close(room);
    dt_thread_ask_stop(&room->thread, NULL);
    wake_pop_thread(room);
    dt_thread_join(&room->thread);
    dt_wake_stop(room->wake);
    room->wake = NULL;
}

void dt_pop_room_free(dt_pop_room *room)
{
    if (!room)
        return;
    dt_store_free(room->session.store);
    if (room->epoll_fd >= 0)
        close(room->epoll_fd);
    if (room->wake_fd >= 0)
        close(room->wake_fd);
    dt_arena_clear(&room->arena);
    dt_shares_clear(&room->places);
    pthread_mutex_destroy(&room->lock);
    free(room);
}

/* ---- requests ---- */

struct popping {
    struct dt_pop_wish wish;
    uint64_t heard; /* count of notifications that was read before the claim (dt_pop_room_heard) */
};

static enum dt_next answer_jobs(struct dt_request *req, const struct dt_job *jobs, size_t n)
{
    req->status = 200;
    dt_strbuf_reset(&req->out);
    dt_pop_add(&req->out, jobs, n);
    return DT_REPLY;
}

/* Called on the HTTP thread: the pop enters the waiting room. If the room is full, the answer has no jobs. */
static enum dt_next enter_waiting_room(struct dt_request *req)
{
    const struct popping *p = req->state;
    return dt_pop_room_enter(req->api->pops, req, &p->wish, p->heard) ? DT_AWAY : answer_jobs(req, NULL, 0);
}

static enum dt_next pop_without_waiting(struct dt_request *req, dt_store *store)
{
    struct popping *p = req->state;
    const struct dt_pop_wish *wish = &p->wish;
    struct dt_pop_taker taker = {.max = (size_t)wish->max, .ttr_ms = wish->ttr_ms};
    struct dt_popped popped;
    struct dt_error err = {0};
    const size_t bytes = dt_pop_hold(req, (size_t)wish->max, DT_POP_BYTES);
    if (bytes == 0)
        return dt_request_no_room(req);
    p->heard = dt_pop_room_heard(req->api->pops, wish);
    dt_status status = dt_pop_take(req->api, store, wish, &taker, 1, bytes, &req->arena, &popped, &err);
    if (status != DT_OK && popped.n == 0)
        return dt_answer_status(req, status, NULL, &err);
    if (popped.refused.p && popped.why == DT_POP_TOPIC_UNKNOWN)
        return dt_answer_not_found(req, "topic");
    if (popped.refused.p) {
        dt_request_refuse(req, DT_PROBLEM_NOT_PULL, "%.*s has another delivery: its jobs cannot be popped",
                          (int)popped.refused.n, popped.refused.p);
        return DT_REPLY;
    }
    if (popped.n || wish->wait_ms == 0)
        return answer_jobs(req, popped.jobs, popped.n);
    req->then = enter_waiting_room;
    return DT_REPLY;
}

/* Returns true if pops already wait for each topic that this pop requests: then it may wait, too, without a claim. */
static bool others_wait(dt_pop_room *room, const struct dt_pop_wish *wish)
{
    pthread_mutex_lock(&room->lock);
    bool awaits = !room->closed && dt_pop_lines_await(&room->lines, wish);
    pthread_mutex_unlock(&room->lock);
    return awaits;
}

enum dt_next dt_handle_pop(struct dt_request *req)
{
    struct popping *p = dt_answer_state(req, sizeof(*p));
    if (!p)
        return DT_REPLY;
    struct dt_faults faults = {.arena = &req->arena};
    dt_json *json = req->body.n ? dt_answer_parse(req, &faults) : NULL;
    if (req->body.n && !json)
        return DT_REPLY;
    dt_status status = dt_pop_wish_decode(json, req->params[0], &faults, &p->wish);
    if (status != DT_OK)
        return dt_answer_faults(req, status, &faults);
    for (size_t i = 0; i < p->wish.n_topics; i++)
        if (dt_wall_found(req, p->wish.topics[i]) != DT_OK)
            return dt_answer_not_found(req, "topic");
    p->heard = dt_pop_room_heard(req->api->pops, &p->wish);
    if (p->wish.wait_ms && others_wait(req->api->pops, &p->wish))
        return enter_waiting_room(req);
    return dt_workers_submit(req->api->workers, req, pop_without_waiting);
}
