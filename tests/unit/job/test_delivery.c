/* The table of deliveries: names as topics have them, and a leader's dealing with each. */
#include "support/suite.h"

#include "job/delivery.h"

TEST(every_delivery_has_its_name)
{
    static const char *const names[] = {"kafka", "http", "pull"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) /* in the order of the column's ENUM */
        assert_string_equal(dt_delivery_id_name((enum dt_delivery_id)(i + 1)), names[i]);
    assert_null(dt_delivery_names[sizeof(names) / sizeof(*names) + 1]);
}

TEST(only_kafka_is_listed_for_a_batch)
{
    assert_int_equal(dt_delivery_dealing(DT_DELIVERY_KAFKA), DT_DEALING_LISTS);
    assert_int_equal(dt_delivery_dealing(DT_DELIVERY_HTTP), DT_DEALING_HANDS);
    assert_int_equal(dt_delivery_dealing(DT_DELIVERY_PULL), DT_DEALING_OFFERS);
}
