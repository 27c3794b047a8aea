/* Owns the names of deliveries, and how each is dealt with; job/delivery.h has its contract. */
#include "delivery.h"

const char *const dt_delivery_names[] = {[DT_DELIVERY_UNSET] = "",
                                         [DT_DELIVERY_KAFKA] = "kafka",
                                         [DT_DELIVERY_HTTP] = "http",
                                         [DT_DELIVERY_PULL] = "pull",
                                         NULL};

const char *dt_delivery_id_name(enum dt_delivery_id delivery)
{
    return dt_delivery_names[delivery];
}

enum dt_dealing dt_delivery_dealing(enum dt_delivery_id delivery)
{
    static const enum dt_dealing dealings[] = {
        [DT_DELIVERY_HTTP] = DT_DEALING_HANDS, [DT_DELIVERY_PULL] = DT_DEALING_OFFERS};
    return dealings[delivery];
}
