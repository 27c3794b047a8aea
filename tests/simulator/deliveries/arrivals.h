/* All that has reached anybody: messages that consumers may read, callbacks that were put on the wire, attempts that were
 * handed to who popped them. One list for the oracles that ask the same of all three. */
#pragma once

#include "simulator/broker.h"

void arrivals_begin(void);
/* Notes one by a callback or a pop; its times as they were told to the receiver (deadline_ms 0: they were not). */
struct broker_record *arrivals_add(enum way way, int64_t job, int64_t attempt, int64_t due_ms, int64_t deadline_ms);
/* The n-th of all: NULL at the end. */
const struct broker_record *arrival(size_t n);

/* A callback for which there was no connection, so that nothing was put on the wire. */
void arrivals_refuse(int64_t job, int64_t attempt);
bool arrivals_refused(int64_t job, int64_t attempt);
