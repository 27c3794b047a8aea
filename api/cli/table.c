/* The table of verbs. To add a verb, add a row. If a row cannot express the verb, also write a function in a run_*.c.
 * clang-format does not format the rows, so that they can be compared by eye. */
#include "table.h"

#include <string.h>

/* clang-format off */

const struct dt_cli_option dt_cli_common[] = {
    {"url", "URL", DT_CLI_TEXT, DT_CLI_HERE, "Address of the API: http://, https:// or unix:/path; default DUETIME_URL, the context's, or http://127.0.0.1:8080."},
    {"context", "NAME", DT_CLI_TEXT, DT_CLI_HERE, "Section of the configuration file; default DUETIME_CONTEXT, or what the file says."},
    {"config", "FILE", DT_CLI_TEXT, DT_CLI_HERE, "Configuration file; default ~/.config/duetime/config."},
    {"token-file", "FILE", DT_CLI_TEXT, DT_CLI_HERE, "File with the bearer token; default DUETIME_TOKEN, or the context's."},
    {"ca-file", "FILE", DT_CLI_TEXT, DT_CLI_HERE, "Certificates (PEM) that verify the API's certificate; default DUETIME_CA_FILE, the context's, or the system's."},
    {"cert-file", "FILE", DT_CLI_TEXT, DT_CLI_HERE, "Your certificate, if the API asks for one; default DUETIME_CERT_FILE, or the context's."},
    {"key-file", "FILE", DT_CLI_TEXT, DT_CLI_HERE, "Its key, if it is in another file; default DUETIME_KEY_FILE, or the context's."},
    {"timeout", "DURATION", DT_CLI_TEXT, DT_CLI_HERE, "Longest wait for an answer; default 30s."},
    {"output", "table|wide|name|json", DT_CLI_TEXT, DT_CLI_HERE, "Table, table with all columns, the first column alone, or JSON with one object a line."},
    {"json", NULL, DT_CLI_SWITCH, DT_CLI_HERE, "Same as --output json."},
    {"check-config", NULL, DT_CLI_SWITCH, DT_CLI_HERE, "Checks the settings, and ends."},
    {"print-config", NULL, DT_CLI_SWITCH, DT_CLI_HERE, "Prints the settings, secrets hidden, and ends."},
    {"help", NULL, DT_CLI_SWITCH, DT_CLI_HERE, "Shows the help of the command."},
};

#define WATCHED \
    {"watch", NULL, DT_CLI_SWITCH, DT_CLI_HERE, "Repeats until it is interrupted."}, \
    {"interval", "DURATION", DT_CLI_TEXT, DT_CLI_HERE, "Refresh interval; default 2s."}
#define PAGED \
    {"limit", "COUNT", DT_CLI_NUMBER, DT_CLI_HERE, "At most this many; default all, at a terminal one screen."}, \
    {"all", NULL, DT_CLI_SWITCH, DT_CLI_HERE, "All, at a terminal, too."}

#define STATES "scheduled|dispatched|succeeded|dead|cancelled"

#define PAYLOAD_OPTIONS \
    {"payload", "JSON", DT_CLI_JSON, DT_CLI_BODY, "Payload, delivered byte for byte: JSON, @FILE, or @- for standard input."}, \
    {"payload-base64", "BASE64", DT_CLI_TEXT, DT_CLI_BODY, "Payload that is not JSON; with --content-type."}, \
    {"content-type", "TYPE", DT_CLI_TEXT, DT_CLI_BODY, "Type of --payload-base64."}, \
    {"partition-key", "TEXT", DT_CLI_SETTING, DT_CLI_BODY, "Key of the Kafka message."}, \
    {"retry", "DURATIONS", DT_CLI_LIST, DT_CLI_BODY, "Delays between attempts (15s,3m,10m); empty: no retry; null: the topic's."}, \
    {"ack-timeout", "DURATION", DT_CLI_SETTING, DT_CLI_BODY, "Time for a report; null: the topic's."}, \
    {"headers", "JSON", DT_CLI_JSON, DT_CLI_BODY, "Headers of the message or callback, an object of strings."}, \
    {"callback-url", "URL", DT_CLI_SETTING, DT_CLI_BODY, "URL for callbacks, in place of the topic's."}

/* Options that choose a set of jobs; for commands that may do without a named job. */
#define SET_OPTIONS \
    {"topic", "TOPIC", DT_CLI_TEXT, DT_CLI_FILTER, "Of a set: jobs of this topic, or of topics with this prefix (orders.*)."}, \
    {"key-prefix", "TEXT", DT_CLI_TEXT, DT_CLI_FILTER, "Of a set: keys with this prefix."}, \
    {"run-from", "TIME", DT_CLI_TEXT, DT_CLI_FILTER, "Of a set: earliest run_at, inclusive."}, \
    {"run-to", "TIME", DT_CLI_TEXT, DT_CLI_FILTER, "Of a set: latest run_at, exclusive."}, \
    {"created-from", "TIME", DT_CLI_TEXT, DT_CLI_FILTER, "Of a set: created at or after."}, \
    {"created-to", "TIME", DT_CLI_TEXT, DT_CLI_FILTER, "Of a set: created before."}, \
    {"failed-from", "TIME", DT_CLI_TEXT, DT_CLI_FILTER, "Of a set: last failed at or after."}, \
    {"failed-to", "TIME", DT_CLI_TEXT, DT_CLI_FILTER, "Of a set: last failed before."}, \
    {"error-code", "CODE", DT_CLI_TEXT, DT_CLI_FILTER, "Of a set: last failure with this code."}, \
    {"ids", "IDS", DT_CLI_LIST, DT_CLI_FILTER, "Of a set: these jobs, comma-separated."}, \
    {"rate", "RATE", DT_CLI_TEXT, DT_CLI_SET, "Of a set: jobs a second or a minute (1000/s)."}, \
    {"yes", NULL, DT_CLI_SWITCH, DT_CLI_SETS, "Of a set: without asking."}, \
    {"dry-run", NULL, DT_CLI_SWITCH, DT_CLI_SETS, "Of a set: only counts the jobs."}

static const struct dt_cli_option job_new[] = {
    {"topic", "TOPIC", DT_CLI_TEXT, DT_CLI_BODY, "Topic of the job."},
    {"key", "KEY", DT_CLI_TEXT, DT_CLI_BODY, "Your name for the job: an equal request creates no second job."},
    {"run-at", "TIME", DT_CLI_TEXT, DT_CLI_BODY, "Due time: RFC 3339 with an offset."},
    {"delay", "DURATION", DT_CLI_TEXT, DT_CLI_BODY, "Or the time from now: PT30M, 30m, 1500 (milliseconds)."},
    PAYLOAD_OPTIONS,
};
static const struct dt_cli_option job_change[] = {
    {"run-at", "TIME", DT_CLI_TEXT, DT_CLI_BODY, "Due time: RFC 3339 with an offset."},
    {"delay", "DURATION", DT_CLI_TEXT, DT_CLI_BODY, "Or the time from now: PT30M, 30m, 1500 (milliseconds)."},
    PAYLOAD_OPTIONS,
    {"shift", "DURATION", DT_CLI_TEXT, DT_CLI_SET, "Of a set: moves each by this much (-P1D: earlier)."},
    {"spread", "DURATION", DT_CLI_TEXT, DT_CLI_SET, "Of a set: divides them evenly over this time, from --run-at or --delay on."},
    SET_OPTIONS,
};
static const struct dt_cli_option job_set[] = {SET_OPTIONS};
static const struct dt_cli_option job_cancel[] = {
    SET_OPTIONS,
    {"retries", NULL, DT_CLI_SWITCH, DT_CLI_QUERY, "Cancels the retries of a dispatched job."},
};
#define EXPORT_OPTIONS \
    {"topic", "TOPIC", DT_CLI_TEXT, DT_CLI_QUERY, "Jobs of this topic."}, \
    {"state", STATES, DT_CLI_TEXT, DT_CLI_QUERY, "Jobs in this state."}, \
    {"key-prefix", "TEXT", DT_CLI_TEXT, DT_CLI_QUERY, "Keys with this prefix; needs --topic."}, \
    {"run-from", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Earliest run_at, inclusive."}, \
    {"run-to", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Latest run_at, exclusive."}, \
    {"due-from", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Earliest next_at, inclusive: when a job runs, is retried, or times out."}, \
    {"due-to", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Latest next_at, exclusive."}, \
    {"created-from", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Created at or after."}, \
    {"created-to", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Created before."}, \
    {"finished-from", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Finished at or after."}, \
    {"finished-to", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Finished before."}, \
    {"failed-from", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Last failed at or after, whatever happened later."}, \
    {"failed-to", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Last failed before."}, \
    {"error-code", "CODE", DT_CLI_TEXT, DT_CLI_QUERY, "Last failure with this code."}, \
    {"error-text", "TEXT", DT_CLI_TEXT, DT_CLI_QUERY, "Last failure contains this text; needs --topic, and a range of at most one day."}

static const struct dt_cli_option job_export[] = {
    EXPORT_OPTIONS,
    {"limit", "COUNT", DT_CLI_NUMBER, DT_CLI_HERE, "At most this many; default all."},
};
static const struct dt_cli_option job_list[] = {
    {"id", "ID", DT_CLI_TEXT, DT_CLI_QUERY, "This job."},
    {"key", "TEXT", DT_CLI_TEXT, DT_CLI_QUERY, "Latest job of this key; needs --topic."},
    EXPORT_OPTIONS,
    {"include", "payload", DT_CLI_TEXT, DT_CLI_QUERY, "Shows payloads, too."},
    {"overdue", NULL, DT_CLI_SWITCH, DT_CLI_HERE, "Due jobs that are not dispatched, the most overdue first; those of paused topics are held, and only counted."},
    PAGED,
    WATCHED,
};
static const struct dt_cli_option job_dead[] = {
    {"topic", "TOPIC", DT_CLI_TEXT, DT_CLI_QUERY, "Jobs of this topic."},
    {"failed-from", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Died at or after."},
    {"failed-to", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Died before."},
    WATCHED,
};
static const struct dt_cli_option job_import[] = {
    {"format", "ndjson|csv", DT_CLI_TEXT, DT_CLI_HERE, "Format of the file; default csv if its name ends in .csv, else ndjson."},
};
static const struct dt_cli_option watch[] = {
    {"interval", "DURATION", DT_CLI_TEXT, DT_CLI_HERE, "Polling interval; default 1s."},
};
static const struct dt_cli_option page[] = {PAGED, WATCHED};
static const struct dt_cli_option watched[] = {WATCHED};
static const struct dt_cli_option event_list[] = {
    {"topic", "TOPIC", DT_CLI_TEXT, DT_CLI_QUERY, "Changes that concern this topic."},
    {"actor", "NAME", DT_CLI_TEXT, DT_CLI_QUERY, "Changes by the token of this name; -: without a token."},
    {"from", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Earliest, inclusive."},
    {"to", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Latest, exclusive."},
    PAGED,
    WATCHED,
};
static const struct dt_cli_option usage[] = {
    {"days", "COUNT", DT_CLI_NUMBER, DT_CLI_QUERY, "Number of days, today included; default 1, at most 400."},
    WATCHED,
};
#define QUOTAS \
    {"requests-per-second", "COUNT", DT_CLI_NUMBER, DT_CLI_BODY, "Quota: requests a second; 0: none; null: the default."}, \
    {"jobs-per-second", "COUNT", DT_CLI_NUMBER, DT_CLI_BODY, "Quota: new jobs a second."}, \
    {"payload-bytes-per-second", "COUNT", DT_CLI_NUMBER, DT_CLI_BODY, "Quota: payload bytes of new jobs a second."}, \
    {"pending-jobs", "COUNT", DT_CLI_NUMBER, DT_CLI_BODY, "Quota: unfinished jobs of its topics."}
static const struct dt_cli_option token_set[] = {QUOTAS};
static const struct dt_cli_option token_new[] = {
    {"name", "NAME", DT_CLI_TEXT, DT_CLI_BODY, "Name of the token."},
    {"scopes", "SCOPES", DT_CLI_LIST, DT_CLI_BODY, "Comma-separated: write, report, read, admin."},
    {"topics", "PREFIXES", DT_CLI_LIST, DT_CLI_BODY, "Prefixes of the topics that it sees, comma-separated; default all."},
    QUOTAS,
    {"yes", NULL, DT_CLI_SWITCH, DT_CLI_HERE, "Without asking, if it is the first token."},
};
static const struct dt_cli_option report[] = {
    {"attempt", "COUNT", DT_CLI_NUMBER, DT_CLI_BODY, "Number of the attempt."},
    {"status", "succeeded|failed|snoozed|gave_up|extended", DT_CLI_TEXT, DT_CLI_BODY, "Outcome of the attempt."},
    {"error", "JSON", DT_CLI_JSON, DT_CLI_BODY, "Why it failed: {\"code\":…,\"message\":…}."},
    {"retry-after", "DURATION", DT_CLI_SETTING, DT_CLI_BODY, "Delay until the next attempt."},
    {"finished-at", "TIME", DT_CLI_SETTING, DT_CLI_BODY, "When it finished."},
};
static const struct dt_cli_option pop[] = {
    {"max", "COUNT", DT_CLI_NUMBER, DT_CLI_BODY, "At most this many jobs; default 1."},
    {"wait", "DURATION", DT_CLI_TEXT, DT_CLI_BODY, "Longest wait if nothing is due; default none."},
    {"ttr", "DURATION", DT_CLI_SETTING, DT_CLI_BODY, "Time for the report, in place of the job's ack_timeout."},
};
static const struct dt_cli_option topic_set[] = {
    {"delivery", "kafka|http|pull", DT_CLI_SETTING, DT_CLI_BODY, "How due jobs are delivered."},
    {"kafka-topic", "NAME", DT_CLI_SETTING, DT_CLI_BODY, "Kafka topic; null: one of the same name."},
    {"retry", "DURATIONS", DT_CLI_LIST, DT_CLI_BODY, "Delays between attempts of new jobs; null: the default."},
    {"ack-timeout", "DURATION", DT_CLI_SETTING, DT_CLI_BODY, "Time for a report, for new jobs."},
    {"retention", "DURATION", DT_CLI_SETTING, DT_CLI_BODY, "How long finished jobs are kept."},
    {"max-in-flight", "COUNT", DT_CLI_NUMBER, DT_CLI_BODY, "Attempts in flight at a time; null: no limit."},
    {"rate-limit", "RATE", DT_CLI_SETTING, DT_CLI_BODY, "Attempts a second or a minute: 100/s, 600/m; null: no limit."},
    {"callback-url", "URL", DT_CLI_SETTING, DT_CLI_BODY, "URL for callbacks."},
    {"callback-hosts", "ORIGINS", DT_CLI_LIST, DT_CLI_BODY, "Other origins that get its headers and signature (https://hooks.example.com); null: none."},
    {"callback-timeout", "DURATION", DT_CLI_SETTING, DT_CLI_BODY, "Time for a callback's answer."},
    {"callback-headers", "JSON", DT_CLI_JSON, DT_CLI_BODY, "Headers of each callback, an object of strings; *** keeps a value."},
    {"alerts", "JSON", DT_CLI_JSON, DT_CLI_BODY, "Thresholds of alerts and their target: {\"overdue\":\"PT1M\",\"dead\":1,\"url\":…}; null: the defaults."},
    {"callback-secret", "FILE", DT_CLI_SECRET, DT_CLI_BODY, "File with the secret that signs callbacks (whsec_…; - for standard input)."},
};
static const struct dt_cli_option schedule_set[] = {
    {"topic", "TOPIC", DT_CLI_TEXT, DT_CLI_BODY, "Topic of its jobs."},
    {"cron", "EXPRESSION", DT_CLI_TEXT, DT_CLI_BODY, "Cron expression: five or six fields, or @hourly."},
    {"every", "DURATION", DT_CLI_TEXT, DT_CLI_BODY, "Or a fixed interval."},
    {"time-zone", "ZONE", DT_CLI_SETTING, DT_CLI_BODY, "Time zone of the expression; default UTC."},
    {"starts-at", "TIME", DT_CLI_SETTING, DT_CLI_BODY, "No fire before this time."},
    {"ends-at", "TIME", DT_CLI_SETTING, DT_CLI_BODY, "No fire from this time on."},
    {"overlap", "allow|skip|cancel", DT_CLI_SETTING, DT_CLI_BODY, "What to do if the job before is unfinished."},
    {"catch-up", "DURATION", DT_CLI_SETTING, DT_CLI_BODY, "Missed fires up to this age get jobs; default none."},
    {"catch-up-max", "COUNT", DT_CLI_NUMBER, DT_CLI_BODY, "At most this many of them, the newest."},
    {"jitter", "DURATION", DT_CLI_SETTING, DT_CLI_BODY, "Jobs run up to this much later than their fire."},
    PAYLOAD_OPTIONS,
};
static const struct dt_cli_option topic_delete[] = {
    {"cancel", NULL, DT_CLI_SWITCH, DT_CLI_QUERY, "Cancels its jobs; the topic is deleted after the last attempt."},
    {"yes", NULL, DT_CLI_SWITCH, DT_CLI_HERE, "With --cancel: without a preview."},
};
static const struct dt_cli_option schedule_delete[] = {
    {"cancel", NULL, DT_CLI_SWITCH, DT_CLI_QUERY, "Cancels the pending fire, too."},
};
static const struct dt_cli_option fires[] = {
    {"count", "COUNT", DT_CLI_TEXT, DT_CLI_QUERY, "Number of fires, 100 at most; default 10."},
    {"from", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Earliest, inclusive; default now."},
};
static const struct dt_cli_option alert_silence[] = {
    {"for", "DURATION", DT_CLI_TEXT, DT_CLI_BODY, "How long from now."},
    {"until", "TIME", DT_CLI_TEXT, DT_CLI_BODY, "Or until then: RFC 3339 with an offset."},
};
static const struct dt_cli_option resize[] = {
    {"count", "COUNT", DT_CLI_NUMBER, DT_CLI_BODY, "Number of shards, 1024 at most."},
};

static const struct dt_cli_option clock_set[] = {
    {"advance", "DURATION", DT_CLI_TEXT, DT_CLI_BODY, "Moves the clock ahead; jobs that fall due on the way are dispatched in order. Shows what is left after fifteen seconds."},
    {"wait", "DURATION", DT_CLI_TEXT, DT_CLI_BODY, "With --advance: longest wait for reports at each instant, in real time; default 500ms, at most 10s."},
    {"freeze", "true|false", DT_CLI_JSON, DT_CLI_BODY, "Freezes the clock, or lets it run."},
};

static const struct dt_cli_option apply[] = {
    {"file", "FILE", DT_CLI_TEXT, DT_CLI_HERE, "File with topics and schedules, as JSON; - for standard input; -f for short."},
    {"dry-run", NULL, DT_CLI_SWITCH, DT_CLI_HERE, "Only shows the differences; exit code 2 if there is one."},
    {"prune", NULL, DT_CLI_SWITCH, DT_CLI_HERE, "Deletes what the file lacks: topics if it has a list of topics, schedules if it has a list of schedules."},
    {"yes", NULL, DT_CLI_SWITCH, DT_CLI_HERE, "At a terminal: without asking."},
};
static const struct dt_cli_option doctor[] = {
    {"late", "DURATION", DT_CLI_TEXT, DT_CLI_HERE, "Jobs overdue for longer are a finding; default 1m."},
};

static const struct dt_cli_option forecast[] = {
    {"topic", "TOPIC", DT_CLI_TEXT, DT_CLI_QUERY, "Jobs of this topic."},
    {"from", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Start of the first step; default this minute."},
    {"to", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "End of the last one; default an hour later."},
    {"step", "DURATION", DT_CLI_TEXT, DT_CLI_QUERY, "Length of a step; default 1m."},
};

static const struct dt_cli_option spikes[] = {
    {"from", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "Start of the first step; default this minute."},
    {"to", "TIME", DT_CLI_TEXT, DT_CLI_QUERY, "End of the last one; default an hour later."},
    {"step", "DURATION", DT_CLI_TEXT, DT_CLI_QUERY, "Length of a step; default 1m."},
    WATCHED,
};

#define OPTIONS(options) options, sizeof(options) / sizeof((options)[0])
#define NO_OPTIONS       NULL, 0

const struct dt_cli_verb dt_cli_verbs[] = {
    {"jobs", "create", "", "Creates a job and shows it.",
     DT_CLI_BY_REQUEST, "POST", "/v1/jobs", NULL, NULL, DT_CLI_JOB, OPTIONS(job_new),
     "jobs create --topic orders.close --key order-42 --delay PT30M --payload '{\"order\":42}'\n"
     "jobs create --topic orders.close --run-at 2030-01-01T09:00:00+01:00 --retry 15s,3m,10m"},
    {"jobs", "get", DT_CLI_ID_OR_KEY, "Shows a job. A key alone is looked for in all topics.",
     DT_CLI_BY_REQUEST, "GET", "/v1/jobs/{id}", NULL, NULL, DT_CLI_JOB, NO_OPTIONS,
     "jobs get orders.close order-42\njobs get order-42 --json"},
    {"jobs", "list", "", "Lists jobs by id; by key with --key or --key-prefix; by time with --due-… or --finished-….",
     DT_CLI_BY_LIST, "GET", "/v1/jobs", NULL, "jobs", DT_CLI_JOB, OPTIONS(job_list),
     "jobs list --overdue --limit 100\njobs list --topic orders.close --state dead --json\n"
     "jobs list --state dead --finished-from 2030-01-01T00:00:00Z --output wide"},
    {"jobs", "dead", "", "Counts dead jobs by topic and error, of the 100,000 that died last.",
     DT_CLI_BY_REQUEST, "GET", "/v1/dead-letters", NULL, "groups", DT_CLI_DEAD, OPTIONS(job_dead),
     "jobs dead --failed-from today\njobs dead --topic orders.close --output wide"},
    {"jobs", "watch", DT_CLI_ID_OR_KEY, "Shows a job at each change until it has finished; exit code 0 if it succeeded.",
     DT_CLI_BY_WATCH, "GET", "/v1/jobs/{id}", NULL, NULL, DT_CLI_JOB, OPTIONS(watch),
     "jobs watch orders.close order-42"},
    {"jobs", "attempts", DT_CLI_ID_OR_KEY, "Lists the attempts of a job and how late each was.",
     DT_CLI_BY_REQUEST, "GET", "/v1/jobs/{id}/attempts", NULL, "attempts", DT_CLI_ATTEMPT, OPTIONS(watched),
     "jobs attempts orders.close order-42"},
    {"jobs", "explain", DT_CLI_ID_OR_KEY, "Explains why a job waits or failed, and what can be done.",
     DT_CLI_BY_REQUEST, "GET", "/v1/jobs/{id}/explain", NULL, "facts", DT_CLI_FACT, NO_OPTIONS,
     "jobs explain orders.close order-42"},
    {"jobs", "events", DT_CLI_ID_OR_KEY, "Lists changes of a job and who made them, the latest first.",
     DT_CLI_BY_REQUEST, "GET", "/v1/jobs/{id}/events", NULL, "events", DT_CLI_EVENT, OPTIONS(watched),
     "jobs events orders.close order-42"},
    {"jobs", "change", DT_CLI_ID_OR_KEY, "Changes the given members of a scheduled job, or moves a set of jobs in time.",
     DT_CLI_BY_REQUEST, "PATCH", "/v1/jobs/{id}", "/v1/jobs:reschedule", NULL, DT_CLI_JOB, OPTIONS(job_change),
     "jobs change orders.close order-42 --delay PT5M\n"
     "jobs change --topic orders.close --shift P1D --yes"},
    {"jobs", "run-now", DT_CLI_ID_OR_KEY, "Makes a scheduled job, or a set, due now.",
     DT_CLI_BY_REQUEST, "POST", "/v1/jobs/{id}/run-now", "/v1/jobs:run-now", NULL, DT_CLI_JOB, OPTIONS(job_set),
     "jobs run-now orders.close order-42\njobs run-now --topic orders.close --rate 100/s --yes"},
    {"jobs", "cancel", DT_CLI_ID_OR_KEY, "Cancels a job, or a set: it will never be dispatched, or it is too late (exit code 5).",
     DT_CLI_BY_REQUEST, "POST", "/v1/jobs/{id}/cancel", "/v1/jobs:cancel", NULL, DT_CLI_JOB, OPTIONS(job_cancel),
     "jobs cancel orders.close order-42\njobs cancel --topic orders.close --run-to 2030-01-01T00:00:00Z --yes"},
    {"jobs", "redrive", DT_CLI_ID_OR_KEY, "Gives a dead job, or a set, a new budget of attempts.",
     DT_CLI_BY_REQUEST, "POST", "/v1/jobs/{id}/redrive", "/v1/jobs:redrive", NULL, DT_CLI_JOB, OPTIONS(job_set),
     "jobs redrive orders.close order-42\njobs redrive --topic orders.close --error-code http_503 --dry-run"},
    {"jobs", "export", "", "Writes jobs as NDJSON for `jobs import`; scheduled ones, unless --state is given.",
     DT_CLI_BY_EXPORT, "GET", "/v1/jobs", NULL, "jobs", DT_CLI_JOB, OPTIONS(job_export),
     "jobs export --topic orders.close"},
    {"jobs", "import", "[FILE]", "Creates jobs from NDJSON or CSV; if it is interrupted and run again, it creates no job with a key twice.",
     DT_CLI_BY_IMPORT, "POST", "/v1/jobs:batch", NULL, NULL, DT_CLI_NOTHING, OPTIONS(job_import),
     "jobs import jobs.ndjson\njobs import --format csv"},
    {"results", "report", DT_CLI_ID_OR_KEY, "Reports the outcome of an attempt.",
     DT_CLI_BY_REQUEST, "POST", "/v1/jobs/{id}/results", NULL, NULL, DT_CLI_JOB, OPTIONS(report),
     "results report orders.close order-42 --attempt 1 --status succeeded"},
    {"pop", "", "TOPIC…", "Claims due jobs of pull topics.",
     DT_CLI_BY_POP, "POST", "/v1/pop", NULL, "jobs", DT_CLI_JOB, OPTIONS(pop),
     "pop mails.send --max 10 --wait 1s --json"},
    {"topics", "list", "", "Lists topics by name.",
     DT_CLI_BY_LIST, "GET", "/v1/topics", NULL, "topics", DT_CLI_TOPIC, OPTIONS(page),
     "topics list --output wide"},
    {"topics", "get", "TOPIC", "Shows a topic's settings, and its jobs by state.",
     DT_CLI_BY_REQUEST, "GET", "/v1/topics/{topic}", NULL, NULL, DT_CLI_TOPIC, NO_OPTIONS,
     "topics get orders.close"},
    {"topics", "set", "TOPIC", "Creates a topic, or changes the given settings.",
     DT_CLI_BY_SET, "PUT", "/v1/topics/{topic}", NULL, NULL, DT_CLI_TOPIC, OPTIONS(topic_set),
     "topics set orders.close --max-in-flight 100 --retry 15s,3m,10m"},
    {"topics", "delete", "TOPIC", "Deletes a topic without unfinished jobs, or with --cancel its jobs, too.",
     DT_CLI_BY_DELETE, "DELETE", "/v1/topics/{topic}", NULL, NULL, DT_CLI_TOPIC, OPTIONS(topic_delete),
     "topics delete orders.close\ntopics delete orders.close --cancel --yes"},
    {"topics", "pause", "TOPIC", "Pauses the dispatch of a topic.",
     DT_CLI_BY_REQUEST, "POST", "/v1/topics/{topic}/pause", NULL, NULL, DT_CLI_TOPIC, NO_OPTIONS,
     "topics pause orders.close"},
    {"topics", "resume", "TOPIC", "Resumes the dispatch of a topic.",
     DT_CLI_BY_REQUEST, "POST", "/v1/topics/{topic}/resume", NULL, NULL, DT_CLI_TOPIC, NO_OPTIONS,
     "topics resume orders.close"},
    {"schedules", "list", "", "Lists schedules by name.",
     DT_CLI_BY_LIST, "GET", "/v1/schedules", NULL, "schedules", DT_CLI_SCHEDULE, OPTIONS(page),
     "schedules list"},
    {"schedules", "get", "NAME", "Shows a schedule.",
     DT_CLI_BY_REQUEST, "GET", "/v1/schedules/{name}", NULL, NULL, DT_CLI_SCHEDULE, NO_OPTIONS,
     "schedules get nightly"},
    {"schedules", "set", "NAME", "Creates a schedule, or changes the given settings.",
     DT_CLI_BY_SET, "PUT", "/v1/schedules/{name}", NULL, NULL, DT_CLI_SCHEDULE, OPTIONS(schedule_set),
     "schedules set nightly --topic reports --cron '0 3 * * *' --time-zone Europe/Berlin"},
    {"schedules", "delete", "NAME", "Deletes a schedule.",
     DT_CLI_BY_REQUEST, "DELETE", "/v1/schedules/{name}", NULL, NULL, DT_CLI_SCHEDULE, OPTIONS(schedule_delete),
     "schedules delete nightly --cancel"},
    {"schedules", "next", "NAME", "Lists the next fires of a schedule.",
     DT_CLI_BY_REQUEST, "GET", "/v1/schedules/{name}/next", NULL, "next", DT_CLI_FIRE, OPTIONS(fires),
     "schedules next nightly --count 3"},
    {"schedules", "pause", "NAME", "Pauses a schedule and withdraws its future fires.",
     DT_CLI_BY_REQUEST, "POST", "/v1/schedules/{name}/pause", NULL, NULL, DT_CLI_SCHEDULE, NO_OPTIONS,
     "schedules pause nightly"},
    {"schedules", "resume", "NAME", "Resumes a schedule.",
     DT_CLI_BY_REQUEST, "POST", "/v1/schedules/{name}/resume", NULL, NULL, DT_CLI_SCHEDULE, NO_OPTIONS,
     "schedules resume nightly"},
    {"schedules", "run-now", "NAME", "Creates a job of the schedule that is due now.",
     DT_CLI_BY_REQUEST, "POST", "/v1/schedules/{name}/run-now", NULL, NULL, DT_CLI_JOB, NO_OPTIONS,
     "schedules run-now nightly"},
    {"operations", "list", "", "Lists operations, the latest first.",
     DT_CLI_BY_LIST, "GET", "/v1/operations", NULL, "operations", DT_CLI_OPERATION, OPTIONS(page),
     "operations list"},
    {"operations", "get", "ID", "Shows an operation.",
     DT_CLI_BY_REQUEST, "GET", "/v1/operations/{id}", NULL, NULL, DT_CLI_OPERATION, NO_OPTIONS,
     "operations get 1"},
    {"operations", "watch", "ID", "Follows an operation to its end; exit code 0 if it is done.",
     DT_CLI_BY_FOLLOW, "GET", "/v1/operations/{id}", NULL, NULL, DT_CLI_OPERATION, NO_OPTIONS,
     "operations watch 1"},
    {"operations", "stop", "ID", "Stops an operation; its changes remain.",
     DT_CLI_BY_REQUEST, "POST", "/v1/operations/{id}/stop", NULL, NULL, DT_CLI_OPERATION, NO_OPTIONS,
     "operations stop 1"},
    {"alerts", "list", "", "Lists current alerts.",
     DT_CLI_BY_LIST, "GET", "/v1/alerts", NULL, "alerts", DT_CLI_ALERT, OPTIONS(page),
     "alerts list"},
    {"alerts", "silence", "ID", "Silences an alert for a time, or while it holds.",
     DT_CLI_BY_REQUEST, "POST", "/v1/alerts/{id}/silence", NULL, NULL, DT_CLI_ALERT, OPTIONS(alert_silence),
     "alerts silence 1 --for PT1H"},
    {"events", "list", "", "Lists changes and who made them, the latest first.",
     DT_CLI_BY_LIST, "GET", "/v1/events", NULL, "events", DT_CLI_EVENT, OPTIONS(event_list),
     "events list --limit 20\nevents list --topic orders.close --from 2030-01-01T00:00:00Z"},
    {"tokens", "new", "", "Creates a token and shows it once. From the first one on, every request needs a token.",
     DT_CLI_BY_TOKEN, "POST", "/v1/tokens", NULL, NULL, DT_CLI_TOKEN, OPTIONS(token_new),
     "tokens new --name worker-7 --scopes report,read --topics orders."},
    {"tokens", "set", "NAME", "Changes the given quotas of a token.",
     DT_CLI_BY_REQUEST, "PATCH", "/v1/tokens/{name}", NULL, NULL, DT_CLI_TOKEN, OPTIONS(token_set),
     "tokens set worker-7 --jobs-per-second 100 --pending-jobs 50000"},
    {"tokens", "list", "", "Lists tokens without their secrets.",
     DT_CLI_BY_REQUEST, "GET", "/v1/tokens", NULL, "tokens", DT_CLI_TOKEN, OPTIONS(watched),
     "tokens list"},
    {"tokens", "revoke", "NAME", "Revokes a token; within seconds it is refused everywhere.",
     DT_CLI_BY_REQUEST, "DELETE", "/v1/tokens/{name}", NULL, NULL, DT_CLI_TOKEN, NO_OPTIONS,
     "tokens revoke worker-7"},
    {"shards", "list", "", "Lists shards, their leaders, and what waits.",
     DT_CLI_BY_REQUEST, "GET", "/v1/info", NULL, "shards", DT_CLI_SHARD, OPTIONS(watched),
     "shards list"},
    {"shards", "resize", "", "Changes the number of shards under load.",
     DT_CLI_BY_REQUEST, "POST", "/v1/admin/shards", NULL, NULL, DT_CLI_NOTHING, OPTIONS(resize),
     "shards resize --count 2"},
    {"processes", "list", "", "Lists the APIs and dispatchers that are alive, and what they wait for.",
     DT_CLI_BY_REQUEST, "GET", "/v1/overview", NULL, "processes", DT_CLI_PROCESS, OPTIONS(watched),
     "processes list"},
    {"clock", "get", "", "Shows the test clock.",
     DT_CLI_BY_REQUEST, "GET", "/v1/admin/clock", NULL, NULL, DT_CLI_CLOCK, NO_OPTIONS,
     "clock get"},
    {"clock", "set", "", "Advances or freezes the test clock.",
     DT_CLI_BY_REQUEST, "POST", "/v1/admin/clock", NULL, NULL, DT_CLI_CLOCK, OPTIONS(clock_set),
     "clock set --advance P3D\nclock set --freeze true"},
    {"apply", "", "", "Makes topics and schedules as a file says, which has them as `topics get` or `topics list` gives them.",
     DT_CLI_BY_APPLY, "PUT", "/v1/topics/{topic}", NULL, NULL, DT_CLI_NOTHING, OPTIONS(apply),
     "apply -f topics.json\napply -f topics.json --dry-run"},
    {"overview", "", "", "Shows readiness, rates, lateness, overdue jobs, shards, and the twenty busiest topics.",
     DT_CLI_BY_OVERVIEW, "GET", "/v1/overview", NULL, NULL, DT_CLI_NOTHING, OPTIONS(watched),
     "overview"},
    {"forecast", "", "", "Draws how many jobs fall due in each step of the next hour, and the topic with most of them.",
     DT_CLI_BY_FORECAST, "GET", "/v1/forecast", NULL, "steps", DT_CLI_NOTHING, OPTIONS(forecast),
     "forecast\nforecast --topic orders.close --step 10m --json"},
    {"spikes", "", "", "Lists steps in which more jobs fall due than the installation drains, and how long they take.",
     DT_CLI_BY_REQUEST, "GET", "/v1/forecast/spikes", NULL, "spikes", DT_CLI_SPIKE, OPTIONS(spikes),
     "spikes\nspikes --step 10m"},
    {"usage", "", "", "Lists today's usage of tokens, their pending jobs and their quotas; without the scope admin, your own.",
     DT_CLI_BY_REQUEST, "GET", "/v1/usage", NULL, "usage", DT_CLI_USED, OPTIONS(usage),
     "usage\nusage --days 30 --json"},
    {"doctor", "", "", "Finds what is wrong, what it means and what to do; exit code 1 if it finds more than notes.",
     DT_CLI_BY_DOCTOR, "GET", "/readyz", NULL, NULL, DT_CLI_NOTHING, OPTIONS(doctor),
     "doctor"},
    {"help", "", "[NOUN [VERB]]", "Shows the help of a command.",
     DT_CLI_BY_HELP, NULL, NULL, NULL, NULL, DT_CLI_NOTHING, NO_OPTIONS, "help jobs create"},
    {"completion", "", "bash|zsh|fish", "Prints a completion script for a shell.",
     DT_CLI_BY_COMPLETION, NULL, NULL, NULL, NULL, DT_CLI_NOTHING, NO_OPTIONS, "completion bash"},
    {"version", "", "", "Shows the version.",
     DT_CLI_BY_VERSION, NULL, NULL, NULL, NULL, DT_CLI_NOTHING, NO_OPTIONS, "version"},
};

static const struct {
    const char *noun, *help;
} nouns[] = {
    {"jobs", "Jobs: each is one thing to deliver at one time."},
    {"results", "Reports on attempts."},
    {"topics", "Topics: what jobs of one kind have in common."},
    {"schedules", "Schedules: jobs that recur."},
    {"operations", "Operations: changes of whole sets of jobs."},
    {"alerts", "Alerts: conditions that need attention."},
    {"events", "Events: changes and who made them."},
    {"tokens", "Tokens: who may do what."},
    {"shards", "Shards: the parts that the work is divided into."},
    {"processes", "Processes: APIs and dispatchers."},
    {"clock", "The test clock: the time in which jobs are due."},
};

/* clang-format on */

const size_t dt_cli_n_verbs = sizeof(dt_cli_verbs) / sizeof(dt_cli_verbs[0]);
const size_t dt_cli_n_common = sizeof(dt_cli_common) / sizeof(dt_cli_common[0]);

const char *dt_cli_noun_help(const char *noun)
{
    for (size_t i = 0; i < sizeof(nouns) / sizeof(nouns[0]); i++)
        if (strcmp(nouns[i].noun, noun) == 0)
            return nouns[i].help;
    for (size_t i = 0; i < dt_cli_n_verbs; i++)
        if (strcmp(dt_cli_verbs[i].noun, noun) == 0)
            return dt_cli_verbs[i].help;
    return "";
}

unsigned dt_cli_args_min(const struct dt_cli_verb *verb)
{
    return verb->takes[0] && verb->takes[0] != '[' && !verb->set ? 1 : 0;
}

unsigned dt_cli_args_max(const struct dt_cli_verb *verb)
{
    if (!verb->takes[0])
        return 0;
    if (strstr(verb->takes, "…"))
        return 64;
    return strchr(verb->takes, ' ') ? 2 : 1;
}
