/* The receivers of callbacks, behind scheduler/base/http/http_client.h: a client with a fiber of its own, requests
 * that take their time, and receivers that answer well, badly, late or never, as the world's seed says. */
#pragma once

#include "simulator/broker.h"

void receiver_begin(void);
void receiver_dead(int64_t until_us); /* nobody connects to it */
void receiver_slow(int64_t until_us); /* it answers after the time-out, or not at all */
void receiver_busy(int64_t until_us); /* it answers 429 and 503 */
/* From now on it answers well and at once. */
void receiver_heal(void);
