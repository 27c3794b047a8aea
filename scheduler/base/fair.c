/*
 * Water into basins: what is left is spread evenly over the queues that want more, until it is gone or nobody does. A
 * round either fills a queue or leaves less than one for each.
 */
#include "base/fair.h"

#define TIMEOUTS_PART 4

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t wanting(const struct dt_fair_queue *queues, size_t n, bool timeouts)
{
    size_t want = 0;
    for (size_t i = 0; i < n; i++)
        want += queues[i].timeouts == timeouts && queues[i].quota < queues[i].waiting;
    return want;
}

/* Shares the room among the queues of one kind; returns what is left of it. */
static size_t pour(struct dt_fair_queue *queues, size_t n, bool timeouts, size_t room)
{
    size_t want;
    while (room && (want = wanting(queues, n, timeouts)) > 0) {
        size_t each = room / want ? room / want : 1;
        for (size_t i = 0; i < n && room; i++) {
            if (queues[i].timeouts != timeouts)
                continue;
            size_t more = smaller(smaller(each, room), queues[i].waiting - queues[i].quota);
            queues[i].quota += more;
            room -= more;
        }
    }
    return room;
}

void dt_fair_share(struct dt_fair_queue *queues, size_t n, size_t room)
{
    size_t late = room / TIMEOUTS_PART ? room / TIMEOUTS_PART : smaller(room, 1);
    for (size_t i = 0; i < n; i++)
        queues[i].quota = 0;
    if (!wanting(queues, n, false))
        late = room;
    room = room - late + pour(queues, n, true, late);
    room = pour(queues, n, false, room);
    pour(queues, n, true, room);
}
