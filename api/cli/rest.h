/*
 * The settings of the program, and requests to the API.
 *
 * An option overrides the environment, and the environment overrides the file:
 *
 *   --url --token-file --ca-file --cert-file --key-file --timeout
 *     >  DUETIME_URL DUETIME_TOKEN DUETIME_CA_FILE DUETIME_CERT_FILE DUETIME_KEY_FILE  >  ~/.config/duetime/config
 *
 * The file has sections, called contexts; `context` at its top (or --context, or DUETIME_CONTEXT) chooses one:
 *
 *   context = production
 *   [production]
 *   url = https://duetime.example
 *   token_file = ~/.config/duetime/production.token
 *
 * A token is never an argument of the program, because every user of the machine can see arguments.
 */
#pragma once

#include "base/status.h"
#include "base/text/strbuf.h"
#include "words.h"

struct dt_cli_settings {
    char *url;       /* URL of the API without a slash at its end, or unix:/path */
    char *token;     /* NULL: no token */
    char *ca_file;   /* NULL: the system's certificates */
    char *cert_file; /* file of a client certificate; NULL: no certificate */
    char *key_file;  /* file of the certificate's key; NULL: the key is in cert_file */
    int64_t timeout_ms;
};

/* Reads the settings into *out, which the caller must clear even if the call fails. INVALID: err names the option,
 * variable or line with the fault. */
dt_status dt_cli_settings_read(const struct dt_cli_call *call, struct dt_cli_settings *out, struct dt_error *err);
void dt_cli_settings_clear(struct dt_cli_settings *settings);

/* ---- requests over HTTP, one at a time, on one connection ---- */

#define DT_REST_ANSWER_MAX ((size_t)64 << 20)

typedef struct dt_rest dt_rest;

struct dt_rest_request {
    const char *method, *path; /* path: percent-encoded, with the query */
    struct dt_str body;        /* absent: no body */
    const char *type;          /* type of the body; NULL: application/json */
    int64_t timeout_ms;        /* time in addition to the timeout of the settings, for requests that wait */
};

struct dt_rest_answer {
    int status;
    bool reached; /* the server may have received the request, even if there was no answer */
    struct dt_strbuf body;
    int64_t date_s;         /* the server's clock, from Date; 0: unknown */
    int64_t retry_after_s;  /* from Retry-After; 0: not given */
    int64_t cert_ends_at_s; /* when the server's certificate expires; 0: the server has none */
};

dt_status dt_rest_new(const struct dt_cli_settings *settings, dt_rest **out, struct dt_error *err);
void dt_rest_free(dt_rest *rest);

/* Sends the request and waits for the complete answer, whatever its status. The next request may use the same buffer
 * for its answer; the caller clears the body after the last request. UNAVAILABLE: no complete answer arrived; err has
 * the reason. The server may have carried out the request nevertheless. TOO_LARGE: the answer is longer than
 * DT_REST_ANSWER_MAX. */
dt_status dt_rest_ask(dt_rest *rest, const struct dt_rest_request *request, struct dt_rest_answer *answer,
                      struct dt_error *err);

/* From now on, the first SIGINT, SIGTERM or SIGHUP does not end the program: the running request may still get its
 * answer, and then the caller ends the program, because dt_rest_signal returns the signal. A second signal ends the
 * program at once. */
void dt_rest_catch_signals(void);
/* Returns the signal that was caught; 0: no signal. */
int dt_rest_signal(void);

/* Appends the text, percent-encoded for a path or a query. */
void dt_rest_add_encoded(struct dt_strbuf *out, const char *text);
