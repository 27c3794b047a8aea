/*
 * The in-flight list: what a shard has claimed and not settled, in the order in which it is sent. Pure: no I/O, no
 * lock.
 *
 * The list stands in shards.inflight; its first `send_n` entries are the batch that goes next, or that was sent last.
 * An attempt enters the list with its claim and leaves it at the head, when the batch is known to be sent.
 */
#ifndef DT_DISPATCH_INFLIGHT_H
#define DT_DISPATCH_INFLIGHT_H

#include "base/status.h"
#include "base/text/strbuf.h"

/* An entry: an attempt of a job, and when it was due. */
struct dt_claim {
    int64_t id, attempt, due_ms;
};

/* A value; all zero is the empty list. `v` is allocated by dt_inflight_parse and dt_inflight_append, and freed by
 * dt_inflight_clear. Who only reads may point it at memory of its own. */
struct dt_inflight {
    struct dt_claim *v;
    size_t n, cap;
};

/* Frees the entries; the list is empty afterwards. */
void dt_inflight_clear(struct dt_inflight *list);

/* ---- as text ---- */

#define DT_CLAIM_BYTES 64 /* of an entry in that text, at most */
/* Appends the list as [[id,attempt,due],...], the text in shards.inflight and in ledger records. The caller looks at
 * out->failed. */
void dt_inflight_format(const struct dt_claim *v, size_t n, struct dt_strbuf *out);
/* Appends the same text with the entries in order of ids, as a parameter of statements that lock rows in that order.
 * NOMEM. */
DT_MUST_CHECK dt_status dt_inflight_format_by_id(const struct dt_claim *v, size_t n, struct dt_strbuf *out);
/* Reads such a text into *out, whose entries it replaces. MALFORMED: it is none, and *out holds some of it. NOMEM. */
DT_MUST_CHECK dt_status dt_inflight_parse(struct dt_str text, struct dt_inflight *out);

/* ---- entries ---- */

/* Makes room for n entries in all. NOMEM: nothing changed. */
DT_MUST_CHECK dt_status dt_inflight_reserve(struct dt_inflight *list, size_t n);
/* Copies the entries of `from` behind those of `to`. NOMEM: nothing changed. */
DT_MUST_CHECK dt_status dt_inflight_append(struct dt_inflight *to, const struct dt_inflight *from);
/* Takes the first n entries off the list. */
void dt_inflight_drop(struct dt_inflight *list, size_t n);
/* Sorts the entries by id, for dt_inflight_has: the list is no longer in the order in which it is sent. */
void dt_inflight_sort_by_id(struct dt_inflight *list);
/* Is an attempt of the job in a list that is sorted by id? */
bool dt_inflight_has(const struct dt_inflight *list, int64_t id);
/* Do two lists have the same entries (id, attempt and due time) in the same order? */
bool dt_inflight_equal(const struct dt_claim *a, size_t n_a, const struct dt_claim *b, size_t n_b);

/* ---- how it shrinks ---- */

/*
 * How a list of n entries shrinks whose first send_n are the batch. Only the two functions below halve and double.
 * How fast send_n falls and grows decides the speed alone; what leaves the list, and why, decides safety.
 */
struct dt_shrink {
    size_t leave;       /* entries that leave the list at its head */
    bool undeliverable; /* the one that leaves was refused alone: it was not sent */
    bool halved;
    size_t send_n; /* the next batch, of what remains */
};
/* After the batch went through: it leaves, and twice as many go next. */
struct dt_shrink dt_inflight_sent(size_t n, size_t send_n);
/* At a takeover, once the delivery has told what was sent. sent: the batch was. refused: the list that this process had
 * sent when it was refused for good; n = 0: none, or forgotten. */
struct dt_shrink dt_inflight_taken_over(const struct dt_inflight *list, size_t send_n, bool sent,
                                        const struct dt_inflight *refused);

#endif
