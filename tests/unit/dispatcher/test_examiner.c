/* How often a dispatcher writes what it sees: at a change, and now and then without one. The runtime is the real one; its sleep
 * moves the clock, and MySQL is a fake that counts. */
#include <unistd.h>

#include "base/thread.h"
#include "base/tls.h"
#include "deliver/kafka/kafka_parts.h"
#include "features/doctor/process_findings.h"
#include "support/wait.h"

#define SECOND INT64_C(1000000)

static struct {
    _Atomic int64_t mono_us;
    _Atomic int64_t ahead_ms; /* of MySQL's clock */
    _Atomic unsigned puts, findings;
} fake;

/* ---- the clock, and who sleeps by it ---- */

STUB(static int64_t, mono_us, (const dt_clock *clock), fake.mono_us)

static int64_t real_ms(const dt_clock *)
{
    return fake.mono_us / 1000 + fake.ahead_ms;
}

static const dt_clock hand_clock = {.mono_us = mono_us, .real_ms = real_ms};

dt_status dt_mailbox_new(dt_mailbox **out)
{
    *out = (dt_mailbox *)&fake;
    return DT_OK;
}

STUB(void, dt_mailbox_free, (dt_mailbox * mailbox), )
STUB(void, dt_mailbox_signal, (dt_mailbox * mailbox, uint32_t bits), )

uint32_t dt_mailbox_wait(dt_mailbox *, int64_t until_us)
{
    usleep(100);
    if (until_us != INT64_MAX)
        fake.mono_us = until_us;
    return 0;
}

/* ---- what it looks at ---- */

STUB(void, dt_certificates_look, (const struct dt_config *config, dt_certificate_fn *hear, void *arg), )

/* ---- MySQL ---- */

dt_status dt_store_put_findings(dt_store *, int64_t process, const struct dt_process_finding *, size_t n,
                                struct dt_error *)
{
    assert_int_equal(process, 7);
    fake.puts++;
    fake.findings = (unsigned)n;
    return DT_OK;
}

/* ---- the tests ---- */

/* How often it writes in so many seconds of a state that does not change. */
static unsigned puts_in(int64_t seconds, int64_t ahead_ms)
{
    static char none[] = "";
    static struct dt_config config = {.zookeeper_servers = none};
    dt_refclock ref;
    dt_examiner *examiner;
    dt_chores *chores;
    struct dt_error err = {0};
    fake.mono_us = SECOND;
    fake.puts = 0;
    fake.ahead_ms = ahead_ms;
    dt_refclock_init(&ref, &hand_clock);
    dt_refclock_sample(&ref, fake.mono_us / 1000, fake.mono_us, fake.mono_us);
    static _Atomic bool kafka_away;
    const struct dt_chores_env runtime = {.name = "chores", .threads = 1, .clock = &hand_clock};
    assert_int_equal(dt_chores_start(&runtime, &chores, &err), DT_OK);
    static struct dt_kafka_env none_of_kafka;
    const struct dt_process_env env = {.chores = chores,
                                       .config = &config,
                                       .clock = &hand_clock,
                                       .ref = &ref,
                                       .kafka = &none_of_kafka,
                                       .process = 7,
                                       .kafka_away = &kafka_away};
    assert_int_equal(dt_examiner_start(&env, &examiner), DT_OK);
    AWAIT(fake.mono_us >= seconds * SECOND);
    dt_examiner_stop(examiner);
    dt_chores_stop(chores);
    return fake.puts;
}

/* A MySQL that was restored may have forgotten it. */
TEST(findings_are_written_again_once_a_minute)
{
    assert_in_range(puts_in(1000, 5000), 10, 25);
    assert_int_equal(fake.findings, 1);
}

TEST(without_findings_an_examiner_writes_eight_rows_an_hour_at_most)
{
    assert_in_range(puts_in(3700, 0), 5, 8);
    assert_int_equal(fake.findings, 0);
}
