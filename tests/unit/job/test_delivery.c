/* The table of deliveries: names as topics have them, and a leader's dealing with each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "job/delivery.h"

static void a_name_leads_to_its_delivery_and_back(void **state)
{
    static const char *const names[] = {"kafka", "http", "pull"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        enum dt_delivery_id delivery = dt_delivery_of_name(dt_str(names[i]));
        assert_int_equal(delivery, DT_DELIVERY_UNSET + 1 + (int)i); /* the order of the column's ENUM */
        assert_string_equal(dt_delivery_id_name(delivery), names[i]);
    }
}

static void another_name_is_none(void **state)
{
    (void)state;
    assert_int_equal(dt_delivery_of_name(dt_str("Kafka")), DT_DELIVERY_UNSET);
    assert_int_equal(dt_delivery_of_name(dt_str("")), DT_DELIVERY_UNSET);
    assert_int_equal(dt_delivery_of_name(DT_STR_NONE), DT_DELIVERY_UNSET);
}

static void only_kafka_is_listed_for_a_batch(void **state)
{
    (void)state;
    assert_int_equal(dt_delivery_dealing(DT_DELIVERY_KAFKA), DT_DEALING_LISTS);
    assert_int_equal(dt_delivery_dealing(DT_DELIVERY_HTTP), DT_DEALING_HANDS);
    assert_int_equal(dt_delivery_dealing(DT_DELIVERY_PULL), DT_DEALING_OFFERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_leads_to_its_delivery_and_back),
        cmocka_unit_test(another_name_is_none),
        cmocka_unit_test(only_kafka_is_listed_for_a_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
