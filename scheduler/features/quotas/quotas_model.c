/* Implements quotas.h without MySQL: the names of quotas, and the share of a process. */
#include "quotas.h"

const char *dt_quota_name(enum dt_quota quota)
{
    static const char *const names[DT_QUOTAS] = {
#define X(kind, name, words) #name,
        DT_QUOTA_MAP(X)
#undef X
    };
    return names[quota];
}

const char *dt_quota_detail(enum dt_quota quota)
{
    static const char *const texts[DT_QUOTAS] = {
#define X(kind, name, words) "the token's quota of " words " is exceeded",
        DT_QUOTA_MAP(X)
#undef X
    };
    return texts[quota];
}

struct dt_quota_limits dt_quota_all(int64_t limit)
{
    struct dt_quota_limits limits;
    for (int i = 0; i < DT_QUOTAS; i++)
        limits.v[i] = limit;
    return limits;
}

struct dt_quota_limits dt_quota_effective(const struct dt_quota_limits *of_token,
                                          const struct dt_quota_limits *of_installation)
{
    struct dt_quota_limits limits = *of_token;
    for (int i = 0; i < DT_QUOTAS; i++)
        if (limits.v[i] < 0)
            limits.v[i] = of_installation->v[i];
    return limits;
}

bool dt_quota_limits_any(const struct dt_quota_limits *limits)
{
    for (int i = 0; i < DT_QUOTAS; i++)
        if (limits->v[i] > 0)
            return true;
    return false;
}

int64_t dt_quota_share(int64_t demand, int64_t others_demand, int64_t others_share)
{
    const int64_t all = demand + others_demand;
    const int64_t unheld = others_share < DT_QUOTA_WHOLE ? DT_QUOTA_WHOLE - others_share : 0;
    if (demand <= 0)
        return 0;
    const int64_t part = (int64_t)((double)DT_QUOTA_WHOLE * ((double)demand / (double)all));
    return part < unheld ? part : unheld;
}
