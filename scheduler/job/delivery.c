/* Owns the table of deliveries by name; job/delivery.h has its contract. */
#include "job/delivery.h"

static const struct {
    const char *name;
    enum dt_dealing dealing;
} deliveries[] = {
    [DT_DELIVERY_UNSET] = {"", DT_DEALING_LISTS},
    [DT_DELIVERY_KAFKA] = {"kafka", DT_DEALING_LISTS},
    [DT_DELIVERY_HTTP] = {"http", DT_DEALING_HANDS},
    [DT_DELIVERY_PULL] = {"pull", DT_DEALING_OFFERS},
};
#define DELIVERIES ((int)(sizeof(deliveries) / sizeof(*deliveries)))

enum dt_delivery_id dt_delivery_of_name(struct dt_str name)
{
    for (int i = DT_DELIVERY_UNSET + 1; i < DELIVERIES; i++)
        if (dt_str_is(name, deliveries[i].name))
            return (enum dt_delivery_id)i;
    return DT_DELIVERY_UNSET;
}

const char *dt_delivery_id_name(enum dt_delivery_id delivery)
{
    return deliveries[delivery].name;
}

enum dt_dealing dt_delivery_dealing(enum dt_delivery_id delivery)
{
    return deliveries[delivery].dealing;
}
