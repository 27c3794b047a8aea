/*
 * Tells the service manager how the program is: sd_notify(3) of systemd, by a datagram to the socket that NOTIFY_SOCKET
 * names. Where the variable is not set every call does nothing, and no sign of life is due.
 *
 * Calling sequence: dt_service_open once, before there are other threads; dt_service_waits while something has to be
 * waited for, dt_service_ready once everything is there, DT_SERVICE_ALIVE at least every dt_service_pause_us,
 * DT_SERVICE_STOPPING; dt_service_close. Any thread. A message that the manager does not take within a second is
 * dropped.
 */
#ifndef DT_BASE_SERVICE_H
#define DT_BASE_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct dt_service {
    int fd;           /* of the socket to the manager; -1 = there is none */
    int64_t pause_us; /* between two signs of life */
    _Atomic bool ready;
};

/* Nobody listens. */
#define DT_SERVICE_NONE                                                                                                \
    {                                                                                                                  \
        -1, INT64_MAX, false                                                                                           \
    }

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. What is not understood counts as not set. */
void dt_service_open(struct dt_service *service);
void dt_service_close(struct dt_service *service);
/* Whether a manager listens. */
bool dt_service_heard(const struct dt_service *service);
/* Start takes longer: `what` ("waits for MySQL") is shown, and the manager waits another half minute. */
void dt_service_waits(const struct dt_service *service, const char *what);
/* The program serves. */
void dt_service_ready(struct dt_service *service);
/* Begins and ends a reload; nothing is told before the program is ready. mono_us: now. */
void dt_service_reloading(const struct dt_service *service, int64_t mono_us);
void dt_service_reloaded(const struct dt_service *service);
void dt_service_tell(const struct dt_service *service, const char *message);
/* Messages. The loop that calls runs: the manager kills a program that does not say so for two pauses. */
#define DT_SERVICE_ALIVE "WATCHDOG=1"
/* The program finishes what is under way, and ends. */
#define DT_SERVICE_STOPPING "STOPPING=1\nSTATUS=finishes what is under way"
/* The longest pause between two signs of life; INT64_MAX where nobody waits for them. */
int64_t dt_service_pause_us(const struct dt_service *service);

/* Bounds how long a program takes to end once it was asked to. */

#define DT_STOP_SECONDS 20 /* deploy/README.md, "How long a program takes to end" */

/*
 * Called once, when the program was asked to end. A program that is still there `seconds` later ends at once, with
 * the exit code 0 and a line in its log. What it left half done is what a killed process leaves, and others take it
 * over as that. Any thread. Without memory for a thread the end has no bound.
 */
void dt_stop_bound(unsigned seconds);

/*
 * The standard streams of a program: none of their descriptors becomes a connection's, and output that could not be
 * written is an error.
 */

/* Opens /dev/null in the place of a standard descriptor that is closed; reading or writing there fails, as before. Must
 * be called first: a connection that got the descriptor would receive what the program prints. */
void dt_streams_occupy(void);

/* Writes what standard output still holds; 0, or the errno of the first write that failed. */
int dt_streams_flush(void);

/* Ends the output of a program: the exit code, which is 1 in place of 0 if something could not be written. */
int dt_streams_end(const char *program, int code);

#endif
