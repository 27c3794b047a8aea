/*
 * Owns: the shares and the plan of one member.
 *
 * Refuses to know: servers, time, and which shards each other member leads. A member only needs to know which shards
 * are free.
 *
 * Invariants: shares differ by one at most, and their sum is the number of shards. When a member leaves, no other
 * member's share shrinks, so only the leaving member's shards move. When a member joins, only the shards that it will
 * lead move.
 */
#include "elector_kind.h"

unsigned dt_share_of(unsigned shards, unsigned members, unsigned rank)
{
    dt_assert_cmp(members, >, 0);
    return shards / members + (rank < shards % members);
}

static long long sequence_number_of(const char *name)
{
    const char *dash = strrchr(name, '-');
    return dash ? strtoll(dash + 1, NULL, 10) : -1;
}

bool dt_share_rank(const char *const *names, size_t n, const char *guid, unsigned *rank)
{
    const char *own = NULL;
    for (size_t i = 0; i < n && own == NULL; i++) {
        if (strstr(names[i], guid) != NULL)
            own = names[i];
    }
    if (!own)
        return false;
    *rank = 0;
    for (size_t i = 0; i < n; i++)
        *rank += sequence_number_of(names[i]) < sequence_number_of(own);
    return true;
}

void dt_share_plan(const struct dt_share_view *view, struct dt_share_plan *out)
{
    const unsigned share =
        view->leaving || view->members == 0 ? 0 : dt_share_of(view->shards, view->members, view->rank);
    unsigned have = 0;
    out->n_release = out->n_take = 0;
    for (unsigned s = 0; s < view->shards; s++)
        have += view->mine[s];
    unsigned surplus = have > share ? have - share : 0;
    for (unsigned s = DT_SHARDS_MAX; s-- > 0;) {
        bool unnamed = s >= view->shards;
        if (!view->mine[s] || (!unnamed && surplus == 0))
            continue;
        out->release[out->n_release++] = s;
        surplus -= !unnamed;
    }
    dt_assert_cmp(surplus, ==, 0);
    if (have >= share)
        return;
    const unsigned start = (unsigned)((unsigned long long)view->rank * view->shards / view->members);
    for (unsigned i = 0; i < view->shards && out->n_take < share - have; i++) {
        unsigned s = (start + i) % view->shards;
        if (!view->taken[s] && !view->mine[s])
            out->take[out->n_take++] = s;
    }
}
