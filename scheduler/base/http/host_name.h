/*
 * Which hosts callbacks may go to: the list of `callbacks.allow_hosts`. Pure. Who takes a URL from a caller asks, so
 * that one that may never be called is refused; who sends asks again, because the list may be another one by then.
 *
 * And which hosts a topic's secrets may go to: headers and signature are the topic's, and a job may name any URL.
 */
#ifndef DT_BASE_HOST_NAME_H
#define DT_BASE_HOST_NAME_H

#include "base/text/strbuf.h"

/*
 * Checks comma-separated host names, of which each may begin with "*." (every name below it, but not the name itself).
 * INVALID: err names the element and the fault. An empty text is fine and stands for every host.
 */
DT_MUST_CHECK dt_status dt_host_names_check(struct dt_str names, struct dt_error *err);
/* Whether a list that dt_host_names_check took has this host (struct dt_callback_url: lower case, no final dot). */
bool dt_host_allowed(struct dt_str names, const char *host);
/* Checks a URL (url.h) and its host. NULL: it may be called; else the reason, static text. */
const char *dt_callback_url_refusal(struct dt_str text, struct dt_str names);

/* Where a topic's secrets may go. Absent: nowhere. */
struct dt_callback_places {
    struct dt_str url;   /* the topic's own */
    struct dt_str hosts; /* further origins (dt_callback_origin_check), comma-separated */
};
/* Whether the secrets may go to this URL: scheme, host and port are those of the topic's URL, or of one of its hosts.
 * A text that is no URL, or no origin, counts as absent. */
bool dt_callback_place_is_listed(const struct dt_callback_places *places, struct dt_str url);
/* Whether `after` has a place that `before` has not, or another host in its URL. */
bool dt_callback_places_widen(const struct dt_callback_places *before, const struct dt_callback_places *after);

#endif
