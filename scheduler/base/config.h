/*
 * The configuration: the table of all options of all programs, and how it is loaded and printed. One file serves the
 * API and the dispatcher; each reads what it needs.
 *
 * DT_CONFIG_MAP gives every option its type, bounds, default and help. The parser, the environment names,
 * --print-config, the sample file and the reference page come from it. DT_CONFIG_CONSTANTS are members without an
 * option. Order: default < file < credentials < environment (DUETIME_<SECTION>_<KEY>). Durations are "15s", "3m",
 * "PT0.5S", or a number of milliseconds.
 *
 * A secret can also be given as <key>_file, or as the file duetime_<section>.<key> in CREDENTIALS_DIRECTORY
 * (LoadCredential= of systemd). A secret is printed as the comment "# key = ***". struct dt_config has the secret as it
 * was when the program started; code that connects calls dt_secret_now (secrets.h). Settings of librdkafka are
 * [kafka] client.<name>, or DUETIME_KAFKA_CLIENT_<NAME> with _ for each dot; each may be given as client.<name>_file.
 *
 * Texts that an INI file would garble are put in "quotes", with the escapes \\ \" \xHH. A line has at most 198 bytes; a
 * text continues on indented lines after a comma or inside quotes.
 */
#pragma once

#include "status.h"

#define DT_OPT_NONE   0
#define DT_OPT_SECRET 1
#define DT_OPT_RELOAD 2

#define DT_SECOND INT64_C(1000)
#define DT_MINUTE (60 * DT_SECOND)
#define DT_HOUR   (60 * DT_MINUTE)
#define DT_DAY    (24 * DT_HOUR)

/* clang-format off */
#define DT_CONFIG_MAP(INT, DURATION, BOOL, TEXT) \
  TEXT(mysql, host, "127.0.0.1", DT_OPT_NONE, "Host of the MySQL or MariaDB server.") \
  INT(mysql, port, 3306, 1, 65535, DT_OPT_NONE, "Its TCP port.") \
  TEXT(mysql, socket, "", DT_OPT_NONE, "Unix socket, used instead of host and port.") \
  TEXT(mysql, hosts, "", DT_OPT_NONE, "One primary and its replicas, in place of host, port and socket. Programs use the one that is not read-only, and find a promoted replica within seconds.") \
  TEXT(mysql, tls, "off", DT_OPT_NONE, "required: TLS or no connection. verify: also a certificate for the host's name, signed by an authority of ca_file; over a Unix socket there is no name to verify.") \
  TEXT(mysql, ca_file, "", DT_OPT_NONE, "Certificates (PEM) to trust; empty: the system's. Each new connection reads this file and the next two.") \
  TEXT(mysql, cert_file, "", DT_OPT_NONE, "Our certificate, for accounts that REQUIRE X509.") \
  TEXT(mysql, key_file, "", DT_OPT_NONE, "Its key.") \
  TEXT(mysql, user, "duetime", DT_OPT_NONE, "User name.") \
  TEXT(mysql, password, "", DT_OPT_SECRET, "Password.") \
  TEXT(mysql, database, "duetime", DT_OPT_NONE, "Database of this installation.") \
  DURATION(mysql, connect_timeout, 3*DT_SECOND, 100, DT_MINUTE, DT_OPT_NONE, "Longest wait for a connection.") \
  DURATION(mysql, io_timeout, 10*DT_SECOND, DT_SECOND, 10*DT_MINUTE, DT_OPT_NONE, "Longest wait for an answer, rounded up to seconds.") \
  DURATION(mysql, lock_timeout, 5*DT_SECOND, DT_SECOND, DT_MINUTE, DT_OPT_NONE, "innodb_lock_wait_timeout of every session.") \
  DURATION(mysql, idle_transaction_timeout, 8*DT_SECOND, DT_SECOND, DT_MINUTE, DT_OPT_NONE, "MySQL ends a session that sends nothing for this long inside a transaction or a statement. Sessions of leaders and of the reader of results end after two thirds of zookeeper.session_timeout, if that is sooner.") \
  TEXT(redis, endpoints, "127.0.0.1:6379", DT_OPT_NONE, "Redis servers of the index; master:NAME is the master that redis.sentinels know by this name. Empty: no Redis, and leaders read due jobs from MySQL.") \
  TEXT(redis, sentinels, "", DT_OPT_NONE, "Sentinels that know the masters among redis.endpoints; default port 26379.") \
  TEXT(redis, sentinel_password, "", DT_OPT_SECRET, "Password of the Sentinels; empty: none.") \
  TEXT(redis, user, "", DT_OPT_NONE, "User for AUTH (Redis 6 or newer); empty: the password alone.") \
  TEXT(redis, password, "", DT_OPT_SECRET, "Password for AUTH; empty: none.") \
  TEXT(redis, tls, "off", DT_OPT_NONE, "As mysql.tls, for Sentinels, too. Needs hiredis 1.0 or newer.") \
  TEXT(redis, ca_file, "", DT_OPT_NONE, "As mysql.ca_file.") \
  TEXT(redis, cert_file, "", DT_OPT_NONE, "Our certificate, for servers that ask for one (tls-auth-clients).") \
  TEXT(redis, key_file, "", DT_OPT_NONE, "Its key.") \
  DURATION(redis, timeout, DT_SECOND, 50, DT_MINUTE, DT_OPT_NONE, "Timeout of connections and commands.") \
  TEXT(kafka, brokers, "127.0.0.1:9092", DT_OPT_NONE, "bootstrap.servers. Empty: no Kafka. Results come by REST, no topic is delivered by Kafka, and dead letters are found by REST and SQL.") \
  INT(kafka, auto_create_partitions, 4, 0, 10000, DT_OPT_NONE, "Partitions of topics that are created on demand; 0: none is created.") \
  INT(kafka, replication_factor, 1, 1, 32, DT_OPT_NONE, "Replication factor of created topics; use 3 in production.") \
  TEXT(kafka, allow_topics, "", DT_OPT_NONE, "More Kafka topics that a token with prefixes may name as kafka_topic (besides those below its prefixes), and a command as reply_to (besides those that end with .replies). Topics internal to an installation (<any name>.ledger, .results, .commands, .dead, ...) are always refused.") \
  DURATION(kafka, transaction_timeout, 10*DT_SECOND, DT_SECOND, 15*DT_MINUTE, DT_OPT_NONE, "transaction.timeout.ms of dispatching producers. If no leader follows a killed one, its last batch blocks consumers of its partitions for this long and up to ten seconds more.") \
  TEXT(zookeeper, servers, "127.0.0.1:2181", DT_OPT_NONE, "host:port, comma-separated, perhaps with a chroot (/apps/jobs) that exists. Empty: no ZooKeeper, and leaders are elected by leases in MySQL.") \
  TEXT(zookeeper, auth, "", DT_OPT_SECRET, "user:password for digest authentication; our nodes are then for this user alone. Empty: for everybody.") \
  DURATION(zookeeper, session_timeout, 4*DT_SECOND, 500, 10*DT_MINUTE, DT_OPT_NONE, "Session timeout, and without ZooKeeper the length of a lease in MySQL. Leaders step down after two thirds of it without an answer.") \
  TEXT(http, listen, "127.0.0.1", DT_OPT_NONE, "Addresses to listen on. With tls_cert they speak TLS; tls: means always, plain: never; unix:/path is a Unix socket. All except the loopback and Unix sockets need at least one token.") \
  INT(http, port, 8080, 0, 65535, DT_OPT_NONE, "TCP port of addresses without one; 0: any free one (logged).") \
  INT(http, threads, 4, 1, 64, DT_OPT_NONE, "HTTP threads, which also do TLS. Each has up to 1,024 requests under way.") \
  INT(http, workers, 8, 1, 256, DT_OPT_NONE, "Threads for requests other than creates, each with a MySQL connection.") \
  INT(http, waiting, 1000, 16, 100000, DT_OPT_NONE, "Connections that wait for their client inside a TLS handshake, a head or a body. One address may have half of those whose first head is incomplete. Beyond that the longest waiting one is closed: without a head first, then with a slow body (408).") \
  INT(http, waiting_pops, 10000, 0, 1000000, DT_OPT_NONE, "Pops that may wait for jobs; each holds a connection. An owner of topics has at most half of what others leave while another one waits or asked within ten seconds, and seven eighths if it is alone. A pop without a place is answered at once, with no jobs.") \
  DURATION(http, head_timeout, 10*DT_SECOND, 100, DT_MINUTE, DT_OPT_NONE, "Time for the first line and the headers: of the first request from the start of the connection, of others from their first byte.") \
  DURATION(http, idle_timeout, 75*DT_SECOND, DT_SECOND, DT_HOUR, DT_OPT_NONE, "A connection that is silent for this long is closed.") \
  DURATION(http, request_timeout, 60*DT_SECOND, DT_SECOND, DT_HOUR, DT_OPT_NONE, "Deadline of a whole request, body included.") \
  TEXT(http, names, "", DT_OPT_NONE, "Names by which clients reach the API; *. at the beginning means every name below. While no token is asked for, Host must be one of them, localhost or a loopback address, so that web pages in a browser on this machine cannot reach the API by another name.") \
  TEXT(http, unix_mode, "0660", DT_OPT_NONE, "Mode of the file of a Unix socket: who may connect.") \
  TEXT(http, tls_cert, "", DT_OPT_RELOAD, "Certificate (PEM) with its chain. New connections get what is in the file now; an unusable file leaves the certificate before it.") \
  TEXT(http, tls_key, "", DT_OPT_RELOAD, "Its key (PEM); empty: it is in tls_cert.") \
  TEXT(http, tls_client_ca, "", DT_OPT_RELOAD, "Authorities (PEM): clients show a certificate that one of them signed. Empty: none is asked for.") \
  TEXT(http, tls_client_cert, "required", DT_OPT_RELOAD, "With tls_client_ca. required: no connection without a certificate; optional: one that is shown must be good.") \
  TEXT(http, trusted_proxies, "", DT_OPT_NONE, "Networks of proxies before the API (10.0.0.0/8, fd00::/8): their forwarded_header is believed, and the share of one address (waiting) does not apply to them.") \
  TEXT(http, forwarded_header, "x-forwarded-for", DT_OPT_NONE, "The header of the trusted proxies. The other one is ignored, because a proxy passes it on as its client sent it.") \
  BOOL(api, migrate, false, DT_OPT_NONE, "Apply migrations at start.") \
  DURATION(api, database_timeout, 8*DT_SECOND, 2*DT_SECOND, DT_MINUTE, DT_OPT_NONE, "Longest wait of a request for one answer of MySQL, because a busy disk can delay a commit for seconds. Afterwards the API refuses the request, within two seconds more for a new connection. At most mysql.io_timeout.") \
  INT(api, queue_jobs, 20000, 100, 10000000, DT_OPT_NONE, "New jobs that wait for a commit; beyond it: 503.") \
  BOOL(topics, auto_create, true, DT_OPT_NONE, "The first job of an unknown topic creates the topic.") \
  DURATION(limits, max_delay, 3653*DT_DAY, DT_MINUTE, 36525*DT_DAY, DT_OPT_NONE, "How far ahead a job may be due.") \
  INT(limits, payload, 900000, 1, 900000, DT_OPT_NONE, "Bytes of a payload; fewer if max_allowed_packet of MySQL is below 1 MiB.") \
  INT(limits, headers, 8192, 0, 10000, DT_OPT_NONE, "Bytes of a job's header names and values; as JSON 65535 at most.") \
  INT(limits, body, 1400000, 1024, 16777216, DT_OPT_NONE, "Bytes of a request body other than a batch.") \
  INT(limits, batch_body, 134217728, 1024, INT64_C(4294967296), DT_OPT_NONE, "Bytes of a batch's body.") \
  INT(limits, batch_lines, 100000, 1, 10000000, DT_OPT_NONE, "Elements of a batch.") \
  INT(limits, memory, 536870912, 16777216, INT64_C(1099511627776), DT_OPT_NONE, "Bytes that all requests of one API process may hold together. An eighth is kept for requests about a single job. At least 16 MiB + 1.75 times limits.batch_body, and 16 MiB + 6 times limits.body.") \
  INT(limits, topics, 10000, 1, 1000000, DT_OPT_NONE, "Topics of the installation; more are refused (422).") \
  INT(limits, prefix_topics, 1000, 1, 1000000, DT_OPT_NONE, "Topics below one prefix of a token, before a token bound to it creates another (422).") \
  INT(limits, prefix_schedules, 1000, 1, 1000000, DT_OPT_NONE, "Schedules for topics below one prefix of a token, likewise (422).") \
  INT(quotas, requests_per_second, 0, 0, INT64_C(1000000000000), DT_OPT_NONE, "Requests a second of each token without a quota of its own; beyond it: 429. 0: no quota. It holds for all APIs together, so give all the same.") \
  INT(quotas, jobs_per_second, 0, 0, INT64_C(1000000000000), DT_OPT_NONE, "The same for new jobs.") \
  INT(quotas, payload_bytes_per_second, 0, 0, INT64_C(1000000000000), DT_OPT_NONE, "The same for bytes of payloads of new jobs. A job larger than the rest passes if anything is left.") \
  INT(quotas, pending_jobs, 0, 0, INT64_C(1000000000000), DT_OPT_NONE, "The same for scheduled and dispatched jobs of the token's topics, whoever created them.") \
  DURATION(index, horizon, DT_HOUR, 10*DT_SECOND, 7*DT_DAY, DT_OPT_NONE, "How far ahead jobs are kept in Redis.") \
  INT(dispatch, batch_jobs, 2000, 1, 10000, DT_OPT_NONE, "Most jobs in one dispatch.") \
  DURATION(dispatch, rest_after, 30*DT_SECOND, 500, DT_DAY, DT_OPT_NONE, "A shard with nothing due for this long closes its Kafka producer, and takes over again shortly before the next job is due.") \
  TEXT(dispatch, metrics_listen, "127.0.0.1", DT_OPT_NONE, "Address of the dispatcher's /metrics and /healthz, which ask for no token: the loopback, or one for your monitoring alone.") \
  INT(dispatch, metrics_port, 0, 0, 65535, DT_OPT_NONE, "Their port; 0: any free one (logged).") \
  BOOL(callbacks, enabled, false, DT_OPT_NONE, "Topics may have the delivery http: dispatchers send their jobs to callback_url. Give APIs and dispatchers the same setting.") \
  TEXT(callbacks, allow_networks, "", DT_OPT_NONE, "Networks (10.0.0.0/8, fd00::/8) that callbacks may reach although they are private, local or reserved.") \
  TEXT(callbacks, allow_hosts, "", DT_OPT_NONE, "The only hosts that callbacks may reach; *. at the beginning means every name below. Empty: any. The API refuses URLs with other hosts.") \
  INT(callbacks, max_in_flight, 1000, 1, 100000, DT_OPT_NONE, "Callbacks under way in one dispatcher; the rest waits in MySQL (waiting_for: limit). While others have work, an owner of topics uses at most half of what they leave; alone, it leaves an eighth.") \
  INT(callbacks, per_host, 100, 1, 100000, DT_OPT_NONE, "Of these, callbacks to one host (scheme, name and port); owners share them in the same way.") \
  INT(callbacks, max_bytes, 67108864, 1048576, INT64_C(17179869184), DT_OPT_NONE, "Bytes of jobs under way as callbacks in one dispatcher, shared in the same way; a larger job is sent alone. Above 8 MiB the eighth that an owner leaves has room for the largest payload.") \
  TEXT(callbacks, ca_file, "", DT_OPT_NONE, "Certificates (PEM) to trust for https; empty: the system's. Read again some seconds after a change.") \
  DURATION(ledger, trim_after, DT_DAY, DT_SECOND, 365*DT_DAY, DT_OPT_NONE, "Ledger records are deleted this long after they were settled. If a restored copy of MySQL is older, its shards halt.") \
  DURATION(reconcile, period, 5*DT_SECOND, 200, 10*DT_MINUTE, DT_OPT_NONE, "Pause between two checks of what is overdue or due soon.") \
  DURATION(history, after, 10*DT_MINUTE, 0, 30*DT_DAY, DT_OPT_NONE, "How long succeeded and cancelled jobs stay in the table jobs before they move to history.") \
  DURATION(history, dead_after, 3*DT_DAY, 0, 30*DT_DAY, DT_OPT_NONE, "The same for dead jobs, which operators repair in jobs.") \
  DURATION(history, keys, 36525*DT_DAY, 0, 36525*DT_DAY, DT_OPT_NONE, "How long the key of a finished job stays taken; at most as long as the job is kept.") \
  INT(shards, count, 4, 1, 1024, DT_OPT_NONE, "Number of shards, for the first migration only; afterwards MySQL has it.") \
  TEXT(installation, name, "duetime", DT_OPT_NONE, "Name of the installation, for the first migration only; prefix of Kafka topics, Redis keys and ZooKeeper paths.") \
  BOOL(installation, test_clock, false, DT_OPT_NONE, "For tests of your own software: the clock of due times can be advanced and frozen (POST /v1/admin/clock). Fixed when the installation is made, and off if its jobs are real. Programs with another setting do not start.") \
  DURATION(inbox, keep_errors, 30*DT_DAY, DT_MINUTE, 3653*DT_DAY, DT_OPT_NONE, "How long a failed row of job_inbox is kept with its error.") \
  TEXT(alerts, url, "", DT_OPT_NONE, "Where messages about all alerts, of topics and of the installation, are POSTed (Standard Webhooks); empty: nowhere. callbacks.allow_networks, allow_hosts and ca_file apply.") \
  TEXT(alerts, secret, "", DT_OPT_SECRET, "Signs them: whsec_ and a key in base64, or two with a space between while one replaces the other.") \
  DURATION(alerts, remind, DT_HOUR, DT_SECOND, 30*DT_DAY, DT_OPT_NONE, "Pause between two messages about an alert that still holds.") \
  DURATION(alerts, overdue, 0, 0, 365*DT_DAY, DT_OPT_NONE, "Default of topics: the oldest due job has not been dispatched for this long; 0: no alert.") \
  INT(alerts, backlog, 0, 0, INT64_C(1000000000), DT_OPT_NONE, "Default of topics: this many jobs are due and not dispatched; 0: no alert.") \
  INT(alerts, dead, 0, 0, INT64_C(1000000000), DT_OPT_NONE, "Default of topics: this many jobs are dead; 0: no alert.") \
  DURATION(alerts, unreported, 0, 0, 365*DT_DAY, DT_OPT_NONE, "Default of topics: nothing was reported for this long after the dispatch of a job; 0: no alert.") \
  DURATION(events, keep, 30*DT_DAY, DT_DAY, 3653*DT_DAY, DT_OPT_NONE, "How long events (table job_events: who changed what) are kept, in whole days.") \
  TEXT(log, level, "info", DT_OPT_RELOAD, "The least severe lines that are logged.") \
  TEXT(log, format, "logfmt", DT_OPT_RELOAD, "How lines are written: logfmt, or one JSON object a line.")

/* Constants, as X(type, section, key, value, min, max): tuning that no operator can judge. They are members of struct
 * dt_config, like the options, because tests make them small or fast: a program with fail points (base/fail_point.h)
 * reads them as undocumented options. A program without fail points refuses their keys. */
#define DT_CONFIG_CONSTANTS(X) \
  /* A batch is settled in the transaction that claims the next batch. If no batch follows within this time, it is \
   * settled alone. Longer than the time between two batches under load, too short for a user to notice. */ \
  X(DURATION, dispatch, settle_after, 10, 1, DT_SECOND) \
  /* Scheduling priority (nice) that the dispatcher requests: its threads run for moments only, \
   * and should not wait for other processes. */ \
  X(INT, dispatch, priority, -10, -20, 19) \
  /* Limit of bytes in one dispatch (payloads, headers, names, 900 a job): nine payloads of the largest size. */ \
  X(INT, dispatch, batch_bytes, 8388608, 1048576, 67108864) \
  /* Limit of Kafka topics in one dispatch. Each topic costs Kafka a request of a millisecond, during \
   * which due jobs wait. */ \
  X(INT, dispatch, batch_topics, 16, 1, 10000) \
  /* Limit of results in one transaction. With more results, a transaction saves little for each row, and \
   * holds its locks longer. */ \
  X(INT, results, batch, 2000, 2, 10000) \
  /* Limit of messages of the commands topic in one transaction. With more messages, a transaction saves \
   * little for each message, and holds its locks longer. */ \
  X(INT, commands, batch, 1000, 1, 10000) \
  /* Limit of rows that one step of the reconciler compares. Such a step costs MySQL and Redis some milliseconds. */ \
  X(INT, reconcile, slice, 10000, 100, 1000000) \
  /* Time for one full scan of the horizon: a lost index entry is found within this time. */ \
  X(DURATION, reconcile, walk, DT_MINUTE, DT_SECOND, DT_HOUR) \
  /* Pause between two of the 32 pieces of a recount of jobs: a small table takes eleven minutes. After a \
   * large piece the pause is longer. */ \
  X(DURATION, reconcile, audit, 20*DT_SECOND, 100, DT_DAY) \
  /* Connections that commit new jobs: while one commit waits for the disk, the next ones run. With more \
   * connections, each commit has fewer jobs. */ \
  X(INT, api, committers, 4, 1, 64) \
  /* Threads that parse batches, in time slices, at a lower priority than single requests. */ \
  X(INT, api, batch_threads, 4, 1, 64) \
  /* Limit of jobs in one commit: a larger commit is not faster per job, and its first job waits longer. */ \
  X(INT, api, commit_jobs, 3000, 1, 10000) \
  /* Limit of the bytes of new jobs that wait for a commit; api.queue_jobs limits their number. Beyond \
   * either limit, the API answers 503. A quarter of the default of limits.memory. */ \
  X(INT, api, queue_bytes, 134217728, 1048576, INT64_C(17179869184)) \
  /* Limit of the nesting of a JSON body, payload included. Bodies usually nest a few levels, and each \
   * level costs the parser memory. */ \
  X(INT, limits, json_depth, 16, 4, 128)
/* clang-format on */

struct dt_secrets;
struct dt_properties;

/* One member for each option, named <section>_<key>: int64_t for INT and DURATION (ms), bool for BOOL, char * for
 * TEXT. */
struct dt_config {
    /* Current texts of secrets (secrets.h). Shared by copies; NULL if the configuration was not loaded. */
    struct dt_secrets *secrets;
    struct dt_properties *kafka_client; /* settings of librdkafka: [kafka] client.<name> */
#define INT(section, key, def, min, max, flags, help)      int64_t section##_##key;
#define DURATION(section, key, def, min, max, flags, help) int64_t section##_##key;
#define BOOL(section, key, def, flags, help)               bool section##_##key;
#define TEXT(section, key, def, flags, help)               char *section##_##key;
#define CONSTANT(type, section, key, def, min, max)        int64_t section##_##key;
    DT_CONFIG_MAP(INT, DURATION, BOOL, TEXT)
    DT_CONFIG_CONSTANTS(CONSTANT)
#undef CONSTANT
#undef INT
#undef DURATION
#undef BOOL
#undef TEXT
};

/* Reads defaults, the file (NULL: none), credentials and the environment. Returns INVALID if a value is wrong,
 * UNAVAILABLE if a file cannot be read; err then names file, line, section, key and the accepted range, and config is
 * cleared. */
dt_status dt_config_load(struct dt_config *config, const char *file, struct dt_error *err);
void dt_config_clear(struct dt_config *config);
/* Returns INVALID if a variable of the environment begins with DUETIME_, but is neither an option nor a variable that
 * another program of this tree reads; err then names the accepted keys. dt_config_load calls it. */
dt_status dt_config_check_environment(struct dt_error *err);
/* Prints the effective values as an INI file that can be read back (secrets hidden). */
void dt_config_print(const struct dt_config *config, FILE *out);
/* Prints the reference page (Markdown), made from DT_CONFIG_MAP. */
void dt_config_reference(FILE *out);
/* Prints a file to start from: every option with its help and its default as comments, and no servers except MySQL. */
void dt_config_sample(FILE *out);

/* Returns whether Kafka is configured. An installation can work without Kafka; then nothing waits for Kafka, and no
 * outage is reported. */
static inline bool dt_config_has_kafka(const struct dt_config *config)
{
    return config->kafka_brokers && config->kafka_brokers[0];
}
