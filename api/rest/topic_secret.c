/* Secrets that are kept, or added to: see topic_secret.h. */
#include "topic_secret.h"

#include "base/http/secret.h"

/* The part behind "***", which keeps what is there: absent, or a secret behind a space. */
static bool behind_hidden(struct dt_str text, struct dt_str *out)
{
    size_t n = sizeof(DT_TOPIC_HIDDEN) - 1;
    if (text.n < n || memcmp(text.p, DT_TOPIC_HIDDEN, n) != 0 || (text.n > n && text.p[n] != ' '))
        return false;
    *out = text.n > n ? (struct dt_str){text.p + n + 1, text.n - n - 1} : DT_STR_NONE;
    return true;
}

const char *dt_topic_secret_check(struct dt_str text, bool *keeps)
{
    struct dt_str added = DT_STR_NONE;
    const bool kept = behind_hidden(text, &added);
    *keeps |= kept;
    if (kept && !added.p)
        return NULL;
    struct dt_callback_secret secret;
    const char *reason = dt_callback_secret_read(kept ? added : text, &secret);
    dt_callback_secret_wipe(&secret);
    return reason;
}

struct dt_str dt_topic_secret_keep(struct dt_str wanted, struct dt_str had, bool widen, const char *pointer,
                                   struct dt_faults *faults)
{
    struct dt_str added;
    struct dt_strbuf text;
    if (!wanted.p || !behind_hidden(wanted, &added))
        return wanted;
    if (had.p && widen) {
        dt_faults_add(faults, pointer, DT_TOPIC_SECRET_WIDENED);
        return wanted;
    }
    if (!had.p || (added.p && memchr(had.p, ' ', had.n))) {
        dt_faults_add(faults, pointer,
                      had.p ? "has two secrets already: write the ones that are to stay"
                            : "there is no secret yet that \"***\" could keep");
        return wanted;
    }
    dt_strbuf_init(&text);
    dt_strbuf_add(&text, had.p, had.n);
    if (added.p) {
        dt_strbuf_addc(&text, ' ');
        dt_strbuf_add(&text, added.p, added.n);
    }
    faults->failed = faults->failed || text.failed;
    struct dt_str out = text.failed ? DT_STR_NONE : dt_json_keep(faults, dt_strbuf_str(&text));
    dt_strbuf_clear(&text);
    return out;
}
