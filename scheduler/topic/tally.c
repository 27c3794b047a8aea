/* See tally.h. One for the process; refuses to know what becomes of the numbers. */
#include "tally.h"

#include <pthread.h>
#include <string.h>

#include "base/assert.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dt_tally tally; /* under the lock, as is the next one */
static size_t last;           /* the row that was added to last: the next one is often of the same topic */

static bool is_of(const struct dt_tally_row *row, struct dt_str topic)
{
    return row->topic_n == topic.n && memcmp(row->topic, topic.p, topic.n) == 0;
}

/* NULL: the tally names as many topics as it may. */
static struct dt_tally_row *row_of(struct dt_str topic)
{
    if (last < tally.n && is_of(&tally.rows[last], topic))
        return &tally.rows[last];
    for (size_t i = 0; i < tally.n; i++)
        if (is_of(&tally.rows[i], topic)) {
            last = i;
            return &tally.rows[i];
        }
    dt_assert_cmp(tally.n, <=, DT_TALLY_TOPICS);
    if (tally.n == DT_TALLY_TOPICS || topic.n > DT_TOPIC_MAX)
        return NULL;
    last = tally.n++;
    struct dt_tally_row *row = &tally.rows[last];
    memset(row, 0, sizeof(*row));
    memcpy(row->topic, topic.p, topic.n);
    row->topic_n = topic.n;
    return row;
}

static bool is_nothing(const int64_t n[DT_TALLIES])
{
    for (int i = 0; i < DT_TALLIES; i++)
        if (n[i])
            return false;
    return true;
}

static void add(int64_t to[DT_TALLIES], const int64_t n[DT_TALLIES])
{
    for (int i = 0; i < DT_TALLIES; i++)
        to[i] += n[i];
}

void dt_tally_add(struct dt_str topic, const int64_t n[DT_TALLIES])
{
    if (!topic.p || is_nothing(n))
        return;
    pthread_mutex_lock(&lock);
    struct dt_tally_row *row = row_of(topic);
    if (row)
        add(row->n, n);
    add(tally.all, n);
    pthread_mutex_unlock(&lock);
}

bool dt_tally_take(struct dt_tally *out)
{
    pthread_mutex_lock(&lock);
    memcpy(out->all, tally.all, sizeof(out->all));
    memcpy(out->rows, tally.rows, tally.n * sizeof(out->rows[0]));
    out->n = tally.n;
    tally.n = 0;
    memset(tally.all, 0, sizeof(tally.all));
    pthread_mutex_unlock(&lock);
    return !is_nothing(out->all);
}
