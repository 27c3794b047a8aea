/*
 * How a program starts and ends: messages to the service manager, a limit on the duration of the end, and the standard
 * streams.
 *
 * Messages are sd_notify(3) of systemd: datagrams to the socket that NOTIFY_SOCKET names. If this variable is not set,
 * the calls do nothing, and no keep-alive is due. Order of calls: dt_service_open once, before other threads exist;
 * dt_service_waits while the start waits for a server; dt_service_ready when the program serves; DT_SERVICE_ALIVE at
 * least every dt_service_pause_us; DT_SERVICE_STOPPING; dt_service_close. Any thread may call them. If the manager does
 * not accept a message within a second, the message is dropped.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct dt_service {
    int fd;           /* socket to the manager; -1: no manager */
    int64_t pause_us; /* longest pause between two keep-alives; INT64_MAX: none are due */
    _Atomic bool ready;
};

/* A struct dt_service without a manager. */
#define DT_SERVICE_NONE                                                                                                \
    {                                                                                                                  \
        -1, INT64_MAX, false                                                                                           \
    }

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. An invalid value counts as not set. */
void dt_service_open(struct dt_service *service);
void dt_service_close(struct dt_service *service);
bool dt_service_heard(const struct dt_service *service);
/* Reports what the start waits for ("waits for MySQL"). The manager shows this text, and extends its timeout by half a
 * minute. */
void dt_service_waits(const struct dt_service *service, const char *what);
void dt_service_ready(struct dt_service *service);
/* Report the beginning and the end of a reload. Before the program is ready, nothing is sent. mono_us: the present
 * time. */
void dt_service_reloading(const struct dt_service *service, int64_t mono_us);
void dt_service_reloaded(const struct dt_service *service);
void dt_service_tell(const struct dt_service *service, const char *message);
/* Keep-alive, sent by the main loop. If the manager gets none within two pauses (dt_service_pause_us), it kills the
 * program. */
#define DT_SERVICE_ALIVE    "WATCHDOG=1"
#define DT_SERVICE_STOPPING "STOPPING=1\nSTATUS=finishes running work"
int64_t dt_service_pause_us(const struct dt_service *service);

#define DT_STOP_SECONDS 20 /* limit for a program's end; see "How long a program takes to end" in deploy/README.md */

/* Limits how long the program takes to end. Called once, when it is asked to end. If it still runs `seconds` later, a
 * thread logs a line and exits the process with code 0; other processes then take over unfinished work, as after a
 * kill. Any thread may call it. If memory for the thread is missing, the end has no time limit. */
void dt_stop_bound(unsigned seconds);

/* Opens /dev/null for each standard descriptor that is closed; using one of them still fails. Must be the first call of
 * main: otherwise a connection might get the descriptor and receive what the program prints. */
void dt_streams_occupy(void);
/* Flushes standard output. Returns 0, or the errno of the first write that failed. */
int dt_streams_flush(void);
/* Flushes standard output at the end of a program. Returns the exit code: `code`, or 1 instead of 0 if a write
 * failed. */
int dt_streams_end(const char *program, int code);
