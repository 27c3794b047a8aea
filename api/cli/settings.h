/*
 * Where the API is and what it is asked with: options win over the environment, the environment over the file.
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
 * A token is never an argument of the program: arguments can be seen by everybody on the machine.
 */
#ifndef DT_CLI_SETTINGS_H
#define DT_CLI_SETTINGS_H

#include <stdint.h>

#include "base/status.h"
#include "words.h"

struct dt_cli_settings {
    char *url;       /* without a slash at its end, or unix:/path */
    char *token;     /* NULL: none */
    char *ca_file;   /* NULL: the system's */
    char *cert_file; /* of our own, for an API that asks for one; NULL: none */
    char *key_file;  /* its key; NULL: in cert_file */
    int64_t timeout_ms;
};

/* Fills out, which the caller clears in any case. INVALID: err names the option, variable or line that is wrong. */
DT_MUST_CHECK dt_status dt_cli_settings_read(const struct dt_cli_call *call, struct dt_cli_settings *out,
                                             struct dt_error *err);
void dt_cli_settings_clear(struct dt_cli_settings *settings);

#endif
