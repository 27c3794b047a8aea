/* Where the keys end that begin with a prefix, for statements that read a range of job_keys. For store/ only. */
#ifndef DT_JOB_KEY_RANGE_H
#define DT_JOB_KEY_RANGE_H

#include "base/text/strbuf.h"

/* Adds the lowest text above all keys that begin with the prefix, in hexadecimal digits: it may be no valid UTF-8. */
void dt_key_range_add_end(struct dt_strbuf *out, struct dt_str prefix);

#endif
