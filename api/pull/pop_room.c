/*
 * Owns the thread of the waiting room, and the sockets of those who wait. Refuses to know how jobs are claimed
 * (pop_take.c) and who stands in which line (pop_lines.c).
 *
 *   told of offers, or a look found some ──▶ the lines of these topics are ready ──▶ a claim for as many as stand first
 *   in a line and are still there ──▶ answers, in the order in which they came
 *
 * Invariants: an answer goes to a client that was there when its jobs were asked for; those who wait are put into lines
 * by any thread, and taken out by the room's alone, so it may use them without the lock; what is heard between a pop's
 * own look and its entering makes its line ready.
 */
#include "pop_room.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/thread.h"
#include "command_answer.h"
#include "http/http_detached.h"
#include "index/index.h"
#include "pop_lines.h"
#include "pop_take.h"
#include "topics/topic_cache.h"

#define LOOK_US        INT64_C(50000) /* between two looks where offers cannot be heard of, or a limit is reached … */
#define LOOK_HEARD_US  INT64_C(1000000) /* … and where they can */
#define AGAIN_US       INT64_C(250000)  /* after a claim that failed, or for which there was no memory */
#define SERVED_AT_ONCE 256              /* of a line, by one claim; jobs likewise */
#define EVENTS         256
#define EARS           256 /* power of two */
#define PATIENCE_NOTE  "the delivery of a topic is another one: nothing is popped from it"

struct dt_pop_room {
    const struct dt_session_env *env;
    const struct dt_api *api;
    struct dt_thread thread;
    int epoll_fd, wake_fd;
    _Atomic uint64_t heard[EARS], heard_all; /* messages of topics, by their names' hashes */
    pthread_mutex_t lock;
    /* Below: under the lock. */
    struct dt_pop_lines lines;
    bool closed;
    int64_t first_until_us; /* nobody's wait is over before */
    /* The thread's own. */
    struct dt_session session;
    dt_wake *wake; /* NULL: not started yet, or there is no Redis */
    bool listens;  /* it was started, or is not to be */
    int64_t look_us, served_us;
    struct dt_arena arena;
    struct dt_hold hold;
    struct dt_outage_part outage;
    dt_metric *waiting, *answered, *left;
};

static int64_t now_us(const dt_pop_room *room)
{
    return dt_clock_mono_us(room->env->clock);
}

/* ---- what is heard ---- */

static void wake(dt_pop_room *room)
{
    uint64_t one = 1;
    if (write(room->wake_fd, &one, sizeof(one)) < 0)
        return; /* it is awake already */
}

static _Atomic uint64_t *ear_of(dt_pop_room *room, struct dt_str topic)
{
    return &room->heard[dt_str_hash(topic) & (EARS - 1)];
}

uint64_t dt_pop_room_heard(dt_pop_room *room, const struct dt_pop_wish *wish)
{
    uint64_t heard = atomic_load(&room->heard_all);
    for (size_t i = 0; i < wish->n_topics; i++)
        heard += atomic_load(ear_of(room, wish->topics[i]));
    return heard;
}

/* On the subscriber's thread. */
static void on_offers(void *arg, struct dt_str topic)
{
    dt_pop_room *room = arg;
    atomic_fetch_add(topic.p ? ear_of(room, topic) : &room->heard_all, 1);
    pthread_mutex_lock(&room->lock);
    dt_pop_lines_offer(&room->lines, topic);
    bool any = room->lines.ready != NULL;
    pthread_mutex_unlock(&room->lock);
    if (any)
        wake(room);
}

/* The name of the installation is known once MySQL was reached. */
static void listen_for_offers(dt_pop_room *room)
{
    struct dt_error err = {0};
    struct dt_view *view = room->listens ? NULL : dt_topic_cache_view(room->api->topics);
    if (!view)
        return;
    dt_status status =
        dt_wake_start_for_pops(room->env->config, view->installation.name, on_offers, room, &room->wake, &err);
    dt_view_release(view);
    room->listens = status == DT_OK;
    if (status != DT_OK)
        DT_LOG(WARN, "pops", "offers are not heard of", DT_S("reason", err.text));
}

static bool hears(const dt_pop_room *room)
{
    return room->wake && dt_wake_hears(room->wake);
}

/* ---- coming and going ---- */

bool dt_pop_room_awaits(dt_pop_room *room, const struct dt_pop_wish *wish)
{
    pthread_mutex_lock(&room->lock);
    bool awaits = !room->closed && dt_pop_lines_find(&room->lines, wish) != NULL;
    pthread_mutex_unlock(&room->lock);
    return awaits;
}

static bool has_room(dt_pop_room *room)
{
    pthread_mutex_lock(&room->lock);
    bool room_left = !room->closed && room->lines.n < (size_t)room->env->config->http_waiting_pops;
    pthread_mutex_unlock(&room->lock);
    return room_left;
}

static bool watch(const dt_pop_room *room, struct dt_pop_waiter *waiter)
{
    struct epoll_event event = {.events = EPOLLRDHUP, .data.ptr = waiter};
    return epoll_ctl(room->epoll_fd, EPOLL_CTL_ADD, waiter->fd, &event) == 0;
}

static void add_jobs(struct dt_strbuf *out, enum dt_pop_form form, const struct dt_job *jobs, size_t n,
                     const struct dt_command_job *names)
{
    if (form == DT_POP_FORM_JOBS)
        dt_pop_add(out, jobs, n);
    else
        dt_command_add_popped(out, form, jobs, n, names);
}

/* The answer of one whose wait is over, or who cannot wait. */
static void answer_none(dt_detached *detached, enum dt_pop_form form)
{
    struct dt_strbuf body;
    struct dt_hold none = {0};
    dt_strbuf_init(&body);
    add_jobs(&body, form, NULL, 0, NULL);
    dt_detached_answer(detached, 200, "application/json", &body, &none);
}

/* True: he is in a line. */
static bool line_up(dt_pop_room *room, const struct dt_pop_wish *wish, struct dt_pop_waiter *waiter, uint64_t heard)
{
    pthread_mutex_lock(&room->lock);
    bool added = !room->closed && watch(room, waiter) && dt_pop_lines_add(&room->lines, wish, waiter);
    if (added) {
        if (heard != dt_pop_room_heard(room, wish))
            dt_pop_lines_ready(&room->lines, waiter->line);
        room->first_until_us = dt_earlier(room->first_until_us, waiter->until_us);
        dt_metric_set(room->waiting, (double)room->lines.n);
    }
    pthread_mutex_unlock(&room->lock);
    return added;
}

bool dt_pop_room_enter(dt_pop_room *room, struct dt_request *req, const struct dt_pop_wish *wish, uint64_t heard)
{
    struct dt_pop_waiter *waiter = has_room(room) ? calloc(1, sizeof(*waiter)) : NULL;
    dt_detached *detached = waiter ? dt_request_detach(req) : NULL;
    if (!detached) {
        free(waiter);
        return false;
    }
    *waiter = (struct dt_pop_waiter){.detached = detached,
                                     .fd = dt_detached_fd(detached),
                                     .max = wish->max,
                                     .form = wish->form,
                                     .until_us = req->started_us + wish->wait_ms * 1000};
    if (line_up(room, wish, waiter, heard)) {
        wake(room);
        return true;
    }
    free(waiter);
    answer_none(detached, wish->form); /* the connection is not the request's any more */
    return true;
}

/* Takes one out of his line. The detached answer is the caller's. */
static dt_detached *take_out(dt_pop_room *room, struct dt_pop_waiter *waiter)
{
    dt_detached *detached = waiter->detached;
    epoll_ctl(room->epoll_fd, EPOLL_CTL_DEL, waiter->fd, NULL);
    pthread_mutex_lock(&room->lock);
    dt_pop_lines_remove(&room->lines, waiter);
    dt_metric_set(room->waiting, (double)room->lines.n);
    pthread_mutex_unlock(&room->lock);
    free(waiter);
    return detached;
}

static bool has_left(const struct dt_pop_waiter *waiter)
{
    char byte;
    ssize_t n = recv(waiter->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* Nobody reads the answer; it ends the socket. */
static void see_off(dt_pop_room *room, struct dt_pop_waiter *waiter)
{
    const enum dt_pop_form form = waiter->form;
    dt_metric_add(room->left, 1);
    answer_none(take_out(room, waiter), form);
}

/* ---- waits that are over ---- */

/* The next one whose wait is over, or everybody's once the room is closed; NULL: none. *next_us: when one will be. */
static struct dt_pop_waiter *over_locked(dt_pop_room *room, int64_t now, int64_t *next_us)
{
    struct dt_pop_line *line;
    struct dt_pop_line *next;
    *next_us = INT64_MAX;
    HASH_ITER(hh, room->lines.lines, line, next)
    for (struct dt_pop_waiter *waiter = line->first; waiter; waiter = waiter->next) {
        if (room->closed || waiter->until_us <= now)
            return waiter;
        *next_us = dt_earlier(*next_us, waiter->until_us);
    }
    return NULL;
}

static struct dt_pop_waiter *next_over(dt_pop_room *room)
{
    const int64_t now = now_us(room);
    struct dt_pop_waiter *waiter = NULL;
    int64_t next_us;
    pthread_mutex_lock(&room->lock);
    if (room->closed || now >= room->first_until_us) {
        waiter = over_locked(room, now, &next_us);
        room->first_until_us = waiter ? now : next_us;
    }
    pthread_mutex_unlock(&room->lock);
    return waiter;
}

static void end_waits(dt_pop_room *room)
{
    struct dt_pop_waiter *waiter;
    while ((waiter = next_over(room)) != NULL) {
        const enum dt_pop_form form = waiter->form;
        answer_none(take_out(room, waiter), form);
    }
}

/* ---- serving ---- */

/* Waiters who stand first in a line, and are there: one claim is for all of them. */
struct served {
    struct dt_pop_waiter *v[SERVED_AT_ONCE];
    size_t n, max;   /* jobs that they want */
    bool by_command; /* one of them asks so */
};

static struct dt_pop_waiter *at(dt_pop_room *room, const struct dt_pop_line *line, const struct dt_pop_waiter *last)
{
    pthread_mutex_lock(&room->lock);
    struct dt_pop_waiter *waiter = last ? last->next : line->first;
    pthread_mutex_unlock(&room->lock);
    return waiter;
}

/* False: the line is gone with the last of them. */
static bool choose(dt_pop_room *room, struct dt_pop_line *line, struct served *served)
{
    struct dt_pop_waiter *last = NULL;
    struct dt_pop_waiter *waiter;
    *served = (struct served){.n = 0};
    while (served->n < SERVED_AT_ONCE && served->max < SERVED_AT_ONCE && (waiter = at(room, line, last)) != NULL) {
        if (!has_left(waiter)) {
            served->v[served->n++] = waiter;
            served->max += waiter->max;
            served->by_command |= waiter->form != DT_POP_FORM_JOBS;
            last = waiter;
            continue;
        }
        bool alone = !last && !at(room, line, waiter);
        see_off(room, waiter);
        if (alone)
            return false;
    }
    served->max = served->max < DT_POP_MAX ? served->max : DT_POP_MAX;
    return served->n > 0;
}

static void hand_out(dt_pop_room *room, struct dt_pop_waiter *waiter, const struct dt_job *jobs, size_t n,
                     const struct dt_command_job *names)
{
    struct dt_strbuf body;
    struct dt_hold hold;
    dt_strbuf_init(&body);
    dt_hold_init(&hold, room->api->memory);
    add_jobs(&body, waiter->form, jobs, n, names);
    dt_hold_move(&room->hold, &hold, body.cap);
    dt_metric_add(room->answered, 1);
    dt_detached_answer(take_out(room, waiter), 200, "application/json", &body, &hold);
}

static void share_out(dt_pop_room *room, const struct served *served, const struct dt_popped *popped)
{
    size_t from = 0;
    for (size_t i = 0; i < served->n && from < popped->n; i++) {
        size_t left = popped->n - from;
        size_t n = served->v[i]->max < left ? served->v[i]->max : left;
        hand_out(room, served->v[i], popped->jobs + from, n, popped->names ? popped->names + from : NULL);
        from += n;
    }
}

static void refuse_command(dt_detached *detached, enum dt_pop_topic why)
{
    struct dt_strbuf body;
    struct dt_hold none = {0};
    dt_strbuf_init(&body);
    dt_command_add_refusal(&body, why);
    dt_detached_answer(detached, 200, "application/json", &body, &none);
}

static void refuse(dt_pop_room *room, const struct served *served, const struct dt_popped *popped)
{
    bool unknown = popped->why == DT_POP_TOPIC_UNKNOWN;
    for (size_t i = 0; i < served->n; i++) {
        const enum dt_pop_form form = served->v[i]->form;
        dt_detached *detached = take_out(room, served->v[i]);
        if (form != DT_POP_FORM_JOBS)
            refuse_command(detached, popped->why);
        else
            dt_detached_problem(detached, unknown ? DT_PROBLEM_NOT_FOUND : DT_PROBLEM_NOT_PULL,
                                unknown ? "no such topic" : PATIENCE_NOTE);
    }
}

static void tell(dt_pop_room *room, dt_status status, const struct dt_error *err)
{
    if (status == DT_OK)
        dt_outage_over(&room->outage);
    else
        dt_outage_failed(&room->outage, DT_OUTAGE_MYSQL, "pops", "those who wait get no jobs", status, err);
}

/* Claims for those who were chosen. */
static dt_status claim(dt_pop_room *room, const struct dt_pop_line *line, const struct served *served,
                       struct dt_popped *popped, struct dt_error *err)
{
    struct dt_pop_wish wish = line->wish;
    const size_t one = (size_t)room->env->config->limits_payload;
    const size_t bytes = served->max < DT_POP_BYTES / one ? served->max * one : DT_POP_BYTES;
    wish.max = served->max;
    *popped = (struct dt_popped){.n = 0};
    if (!dt_hold_exactly(&room->hold, DT_POP_ROOM_EACH * bytes))
        return dt_fail(err, DT_UNAVAILABLE, "no memory is left");
    dt_status status = dt_session_begin(&room->session, err);
    if (status == DT_OK)
        status = dt_pop_take(room->api, room->session.store, &wish, bytes, &room->arena, popped, err);
    if (popped->n && served->by_command)
        popped->names = dt_command_name_jobs(room->session.store, &room->arena, popped);
    dt_session_end(&room->session);
    return status;
}

/* One claim for a line; true: there may be more for it. */
static bool serve_some(dt_pop_room *room, const struct dt_pop_line *line, const struct served *served)
{
    struct dt_popped popped;
    struct dt_error err = {0};
    dt_status status = claim(room, line, served, &popped, &err);
    tell(room, status, &err);
    if (popped.refused.p)
        refuse(room, served, &popped);
    share_out(room, served, &popped);
    if (status != DT_OK)
        room->look_us = now_us(room) + AGAIN_US;
    else if (popped.at_limit)
        room->look_us = dt_earlier(room->look_us, now_us(room) + LOOK_US);
    dt_arena_reset(&room->arena);
    dt_hold_end(&room->hold);
    return status == DT_OK && popped.more && popped.n > 0;
}

static struct dt_pop_line *next_ready(dt_pop_room *room)
{
    pthread_mutex_lock(&room->lock);
    struct dt_pop_line *line = dt_pop_lines_next_ready(&room->lines);
    pthread_mutex_unlock(&room->lock);
    return line;
}

/* The line may be gone by now: it is looked for by one who was not served. */
static void ready_again(dt_pop_room *room, const struct dt_pop_wish *wish)
{
    pthread_mutex_lock(&room->lock);
    struct dt_pop_line *line = dt_pop_lines_find(&room->lines, wish);
    if (line)
        dt_pop_lines_ready(&room->lines, line);
    pthread_mutex_unlock(&room->lock);
}

/* A copy of a line's wish, for when the line is gone. */
static bool copy_wish(const struct dt_pop_line *line, struct dt_arena *arena, struct dt_pop_wish *out)
{
    struct dt_str *topics = dt_arena_alloc(arena, line->wish.n_topics * sizeof(*topics));
    *out = line->wish;
    out->topics = topics;
    for (size_t i = 0; topics && i < out->n_topics; i++) {
        topics[i] = dt_arena_copy(arena, line->wish.topics[i]);
        topics = topics[i].p ? topics : NULL;
    }
    return topics != NULL;
}

/* Lines have their turns: one that may have more comes behind the others. */
static void serve_ready(dt_pop_room *room)
{
    struct dt_pop_line *line;
    struct dt_arena names;
    dt_arena_init(&names);
    while ((line = next_ready(room)) != NULL) {
        struct served served;
        struct dt_pop_wish wish;
        dt_arena_reset(&names);
        bool copied = copy_wish(line, &names, &wish);
        if (choose(room, line, &served) && serve_some(room, line, &served) && copied)
            ready_again(room, &wish);
        end_waits(room);
    }
    dt_arena_clear(&names);
}

/* ---- looking ---- */

struct looked {
    struct dt_str *topics;
    enum dt_pop_topic *seen;
    size_t n;
};

static bool list_topics(dt_pop_room *room, struct looked *looked)
{
    struct dt_pop_topic_entry *topic;
    struct dt_pop_topic_entry *next;
    pthread_mutex_lock(&room->lock);
    size_t n = HASH_COUNT(room->lines.topics);
    looked->topics = dt_arena_alloc(&room->arena, (n + 1) * sizeof(*looked->topics));
    looked->seen = dt_arena_alloc(&room->arena, (n + 1) * sizeof(*looked->seen));
    looked->n = 0;
    bool fine = looked->topics && looked->seen;
    HASH_ITER(hh, room->lines.topics, topic, next)
    if (fine) {
        looked->topics[looked->n] = dt_arena_copy(&room->arena, topic->name);
        fine = looked->topics[looked->n++].p != NULL;
    }
    pthread_mutex_unlock(&room->lock);
    return fine;
}

static void take_look(dt_pop_room *room, const struct looked *looked)
{
    pthread_mutex_lock(&room->lock);
    for (size_t i = 0; i < looked->n; i++)
        if (looked->seen[i] != DT_POP_TOPIC_EMPTY)
            dt_pop_lines_offer(&room->lines, looked->topics[i]);
    pthread_mutex_unlock(&room->lock);
}

/* One statement for all who wait. */
static void look(dt_pop_room *room)
{
    struct looked looked;
    struct dt_error err = {0};
    dt_status status = list_topics(room, &looked) ? DT_OK : DT_NOMEM;
    if (status == DT_OK)
        status = dt_session_begin(&room->session, &err);
    if (status == DT_OK)
        status = dt_store_pop_look(room->session.store, looked.topics, looked.n, looked.seen, &err);
    dt_session_end(&room->session);
    tell(room, status, &err);
    if (status == DT_OK)
        take_look(room, &looked);
    dt_arena_reset(&room->arena);
    room->look_us = now_us(room) + (status != DT_OK ? AGAIN_US : hears(room) ? LOOK_HEARD_US : LOOK_US);
}

/* ---- the thread ---- */

static int64_t next_us(dt_pop_room *room)
{
    pthread_mutex_lock(&room->lock);
    int64_t next = room->lines.n ? dt_earlier(room->first_until_us, room->look_us) : INT64_MAX;
    pthread_mutex_unlock(&room->lock);
    if (next != INT64_MAX && !hears(room))
        next = dt_earlier(next, now_us(room) + LOOK_US);
    return next;
}

static int timeout_ms(dt_pop_room *room)
{
    int64_t next = next_us(room);
    int64_t left_us = next == INT64_MAX ? INT64_MAX : next - now_us(room);
    if (left_us <= 0)
        return 0;
    return left_us == INT64_MAX ? -1 : (int)(left_us / 1000) + 1;
}

/* Sleeps until something is to be done, and sees off who leaves. */
static void sleep_and_see_off(dt_pop_room *room)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(room->epoll_fd, events, EVENTS, timeout_ms(room));
    for (int i = 0; i < n; i++) {
        uint64_t count;
        if (events[i].data.ptr)
            see_off(room, events[i].data.ptr);
        else if (read(room->wake_fd, &count, sizeof(count)) < 0)
            continue;
    }
}

static bool anybody(dt_pop_room *room)
{
    pthread_mutex_lock(&room->lock);
    bool any = room->lines.n > 0;
    pthread_mutex_unlock(&room->lock);
    return any;
}

static void run(void *arg)
{
    dt_pop_room *room = arg;
    while (!dt_thread_stopping(&room->thread)) {
        sleep_and_see_off(room);
        end_waits(room);
        if (!anybody(room))
            continue;
        listen_for_offers(room);
        if (now_us(room) >= room->look_us)
            look(room);
        serve_ready(room);
    }
    end_waits(room);
    dt_session_clear(&room->session);
}

/* ---- beginning and end ---- */

static dt_status open_fds(dt_pop_room *room)
{
    struct epoll_event event = {.events = EPOLLIN};
    room->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    room->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (room->epoll_fd < 0 || room->wake_fd < 0)
        return DT_SYSTEM;
    return epoll_ctl(room->epoll_fd, EPOLL_CTL_ADD, room->wake_fd, &event) == 0 ? DT_OK : DT_SYSTEM;
}

static void register_metrics(dt_pop_room *room)
{
    room->waiting = dt_gauge("duetime_pops_waiting", "Pops that wait for jobs.", "");
    room->answered = dt_counter("duetime_pops_served_total", "Pops that waited and got jobs.", "");
    room->left = dt_counter("duetime_pops_left_total", "Pops whose client left while it waited.", "");
}

dt_status dt_pop_room_start(const struct dt_session_env *env, const struct dt_api *api, dt_pop_room **out,
                            struct dt_error *err)
{
    *out = NULL;
    dt_pop_room *room = calloc(1, sizeof(*room));
    if (!room)
        return dt_fail(err, DT_NOMEM, "no memory for the waiting room");
    room->env = env;
    room->api = api;
    room->first_until_us = INT64_MAX;
    pthread_mutex_init(&room->lock, NULL);
    dt_pop_lines_init(&room->lines);
    dt_arena_init(&room->arena);
    dt_hold_init(&room->hold, api->memory);
    register_metrics(room);
    dt_status status = open_fds(room);
    if (status == DT_OK)
        status = dt_session_init(&room->session, env);
    if (status == DT_OK)
        status = dt_thread_start(&room->thread, "pops", run, room, NULL);
    if (status != DT_OK) {
        dt_pop_room_free(room);
        return dt_fail(err, status, "the waiting room cannot start");
    }
    *out = room;
    return DT_OK;
}

void dt_pop_room_close(dt_pop_room *room)
{
    pthread_mutex_lock(&room->lock);
    room->closed = true;
    pthread_mutex_unlock(&room->lock);
    wake(room);
}

void dt_pop_room_stop(dt_pop_room *room)
{
    dt_pop_room_close(room);
    dt_thread_ask_stop(&room->thread, NULL);
    wake(room);
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
    pthread_mutex_destroy(&room->lock);
    free(room);
}
