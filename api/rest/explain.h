/*
 * Why a job is where it is, in sentences for somebody who does not know the product, from what a request has read.
 * Pure: the word (waiting.h) says what the job waits for, and everything else here says the same at length.
 */
#ifndef DT_API_EXPLAIN_H
#define DT_API_EXPLAIN_H

#include "dispatch/shards.h"
#include "shard_json.h"
#include "store/processes.h"
#include "waiting.h"

struct dt_explained {
    const struct dt_job *job;
    const char *waiting_for;               /* as of dt_waiting_for */
    int64_t now_ms;                        /* MySQL's clock */
    const struct dt_topic_settings *topic; /* NULL: there is no such topic */
    unsigned shard_number;                 /* of the shard whose leader dispatches it */
    const struct dt_shard_info *shard;     /* NULL: nothing is known of it */
    /* The shard that its latest attempt was claimed by; NULL: none, or not known. */
    const struct dt_shard_info *claimed;
    const struct dt_dispatchers *dispatchers;
    struct dt_shard_cause cause; /* why the shard does not dispatch */
};
/* What explains the job from the snapshots; waiting_for: as of dt_waiting_for. All is borrowed. */
struct dt_explained dt_explained_of(const struct dt_waiting *waiting, const struct dt_job *job,
                                    const char *waiting_for);

/* Its entry in the index. */
enum dt_entry_state {
    DT_ENTRY_THERE,
    DT_ENTRY_MISSING,
    DT_ENTRY_DIFFERS,
    DT_ENTRY_NOT_NEEDED,
    DT_ENTRY_NONE, /* there is no index */
    DT_ENTRY_UNKNOWN
};

/* Appends a sentence: why. */
void dt_explain_reason(const struct dt_explained *explained, struct dt_strbuf *out);
/* Appends what somebody can do about it; nothing is appended where nothing needs to be done. */
void dt_explain_action(const struct dt_explained *explained, struct dt_strbuf *out);
/* Appends the answer as JSON. entry_ms: the time of the entry; 0 = none. */
void dt_explain_add_json(const struct dt_explained *explained, enum dt_entry_state entry, int64_t entry_ms,
                         struct dt_strbuf *out);

#endif
