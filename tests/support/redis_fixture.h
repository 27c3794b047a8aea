/* Redis for tests: an installation name of a test's own on the servers that DUETIME_REDIS names, and private servers
 * that may be killed, stopped and filled up. Everything here fails the running cmocka test when it cannot do its
 * work. */
#pragma once

#include <sys/types.h>

#include "base/config.h"
#include "base/status.h"
#include "index/index.h"

/* The shared servers: DUETIME_REDIS, and a name that nobody else uses ("<prefix><pid>n<count>"). */
const char *redis_fixture_endpoints(void);
void redis_fixture_name(char *buf, size_t cap, const char *prefix);
/* A configuration with nothing but the Redis options: endpoints and password are borrowed. */
struct dt_config redis_fixture_config(const char *endpoints, const char *password, int64_t timeout_ms);

/* A command by hand to one of a comma list of endpoints ("host:port"); i counts from 0. */
int64_t redis_fixture_number(const char *endpoints, unsigned i, const char *fmt, ...) DT_PRINTF(3, 4);
/* The reply as text: a status, a string, or the elements joined by spaces; "(nil)"; "ERR …" for an error reply. Valid
 * until the next call. */
const char *redis_fixture_text(const char *endpoints, unsigned i, const char *fmt, ...) DT_PRINTF(3, 4);
/* The same over all endpoints: the sum. */
int64_t redis_fixture_sum(const char *endpoints, const char *fmt, ...) DT_PRINTF(2, 3);
/* Removes the keys of an installation from all endpoints. */
void redis_fixture_forget(const char *endpoints, const char *installation);

/* Where the job's entry is in its shard's set: 0 = absent, -1 = there are several. Looks at all of the set. */
int64_t redis_fixture_score(dt_index *index, const struct dt_shard_map *map, int64_t id);

/* A private server on a free port of the loopback, without persistence. */
struct redis_server {
    pid_t pid;
    int port;
    char endpoint[32];
    char password[32]; /* "" = none */
};
void redis_server_start(struct redis_server *server, const char *password);
void redis_server_again(struct redis_server *server); /* after a kill: empty, on the same port */
void redis_server_kill(struct redis_server *server);  /* kill -9, waited for; may be called twice */
