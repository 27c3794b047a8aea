/*
 * Commands of duetime-api besides serving: migrations and tokens. Each returns the exit code of the process, talks to
 * people on stderr and writes data to stdout.
 */
#ifndef DT_API_COMMANDS_H
#define DT_API_COMMANDS_H

#include "base/config.h"

/* Brings the schema up to date. */
int dt_command_migrate(const struct dt_config *config);
/* A token that is to be made, as the options say it; all but the name may be NULL. */
struct dt_command_token {
    const char *name, *scopes, *topics, *quotas;
};
/* Prints the new token, once. */
int dt_command_new_token(const struct dt_config *config, const struct dt_command_token *token);
/* Prints name, scopes, topics and age of every token. */
int dt_command_list_tokens(const struct dt_config *config);
/* Removes a token; every API follows within seconds. */
int dt_command_revoke_token(const struct dt_config *config, const char *name);
/* Makes the API ask for no token from now on, until one is made; refused while there is one. */
int dt_command_waive_tokens(const struct dt_config *config);
/* Prints the table of routes, for tests. */
int dt_command_print_routes(void);

#endif
