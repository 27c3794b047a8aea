/*
 * The in-flight list: the attempts that a shard has claimed and not settled, in the order in which they are sent. Pure:
 * no I/O, no lock.
 *
 * shards.inflight has the list; its first `send_n` entries are the batch that is sent next, or that was sent last. An
 * attempt enters the list with its claim. After its batch is known to be sent, it leaves the list, always at the head.
 */
#pragma once

#include "base/status.h"
#include "base/text/strbuf.h"

/* An entry of the list: an attempt of a job, and the time at which it was due. */
struct dt_claim {
    int64_t id, attempt, due_ms;
};

/* Copied by assignment; all zero is the empty list. dt_inflight_parse and dt_inflight_append allocate `v`,
 * dt_inflight_clear frees it. A caller that only reads may point `v` at its own memory. */
struct dt_inflight {
    struct dt_claim *v;
    size_t n, cap;
};

/* Frees the entries; the list is empty afterwards. */
void dt_inflight_clear(struct dt_inflight *list);

/* ---- lists as text ---- */

#define DT_CLAIM_BYTES 64 /* most bytes of an entry as text */
/* Appends the list as [[id,attempt,due],...], the text in shards.inflight and in ledger records. If memory runs out,
 * sets out->failed, which the caller must check. */
void dt_inflight_format(const struct dt_claim *v, size_t n, struct dt_strbuf *out);
/* Appends the text of dt_inflight_format, but with the entries in order of ids, for statements that lock rows in that
 * order. Returns NOMEM if memory runs out. */
dt_status dt_inflight_format_by_id(const struct dt_claim *v, size_t n, struct dt_strbuf *out);
/* Reads a text of dt_inflight_format into *out, replacing its entries. MALFORMED: the text has another form; *out has a
 * part of the list. NOMEM: memory ran out. */
dt_status dt_inflight_parse(struct dt_str text, struct dt_inflight *out);

/* ---- entries ---- */

/* Makes room for n entries in all. NOMEM: memory ran out, and nothing changed. */
dt_status dt_inflight_reserve(struct dt_inflight *list, size_t n);
/* Appends the entries of `from` to `to`. NOMEM: memory ran out, and nothing changed. */
dt_status dt_inflight_append(struct dt_inflight *to, const struct dt_inflight *from);
void dt_inflight_drop(struct dt_inflight *list, size_t n);
/* Sorts the entries by id, for dt_inflight_has. The order of sending is lost. */
void dt_inflight_sort_by_id(struct dt_inflight *list);
/* Returns true if the list, which must be sorted by id, has an attempt of the job. */
bool dt_inflight_has(const struct dt_inflight *list, int64_t id);
/* Returns true if two lists have the same entries (id, attempt and due time) in the same order. */
bool dt_inflight_equal(const struct dt_claim *a, size_t n_a, const struct dt_claim *b, size_t n_b);

/* ---- how a list shrinks ---- */

/* How a list of n entries shrinks; the first send_n of them are the batch. Only the two functions below halve and
 * double send_n. Wrong values of send_n would only cost speed; wrong values of `leave` or `undeliverable` would lose or
 * repeat jobs. */
struct dt_shrink {
    size_t leave;       /* number of entries that leave the list at its head */
    bool undeliverable; /* the entry that leaves was refused in a batch of one, and was not sent */
    bool halved;
    size_t send_n; /* number of entries of the next batch: the first ones of those that remain */
};
/* Returns how the list shrinks after its batch was sent: the batch leaves the list, and the next batch has twice as
 * many entries. */
struct dt_shrink dt_inflight_sent(size_t n, size_t send_n);
/* Returns how the list shrinks at a takeover, when the delivery knows whether the batch was sent. refused: the entries
 * of the last batch that Kafka refused permanently when this process sent it; n = 0: there is no such batch. */
struct dt_shrink dt_inflight_taken_over(const struct dt_inflight *list, size_t send_n, bool sent,
                                        const struct dt_inflight *refused);
