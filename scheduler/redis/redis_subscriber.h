/*
 * Wake-ups that leaders and API processes publish in Redis, heard on one thread.
 */
#ifndef DT_REDIS_REDIS_SUBSCRIBER_H
#define DT_REDIS_REDIS_SUBSCRIBER_H

#include "base/config.h"
#include "base/text/strbuf.h"

/* The subscriber: one thread that sleeps on the channels of all endpoints. */
typedef struct dt_wake dt_wake;
/* Starts the thread. on_wake is called on it: post and return. shard -1: everything may have changed (a connection was
 * lost or came back). config and arg are borrowed and outlive it. *out is NULL unless OK, and where there are no
 * endpoints. */
DT_MUST_CHECK dt_status dt_wake_start(const struct dt_config *config, const char *installation,
                                      void (*on_wake)(void *arg, int shard, bool outbox), void *arg, dt_wake **out,
                                      struct dt_error *err);
/* Starts the thread of a process whose clients wait for pops. on_offers is called on it: post and return. topic absent:
 * any may have jobs (as shard -1 above). All else as of dt_wake_start. */
DT_MUST_CHECK dt_status dt_wake_start_for_pops(const struct dt_config *config, const char *installation,
                                               void (*on_offers)(void *arg, struct dt_str topic), void *arg,
                                               dt_wake **out, struct dt_error *err);
/* Ends the thread and frees the subscriber. Accepts NULL. */
void dt_wake_stop(dt_wake *wake);
/* Says whether the channels of all endpoints are up. Where one is not, wake-ups on it are not heard. Any thread. */
bool dt_wake_hears(const dt_wake *wake);

#endif
