/*
 * Secrets of a configuration, as they are now. A secret that is given as <key>_file is read from its file each time
 * that it is asked for, so that a connection made after the file has changed uses the new one; a secret that stands in
 * the configuration itself changes when the configuration is loaded again (SIGHUP).
 *
 * Copies of a struct dt_config share the secrets of the one that dt_config_load made, which outlives them. A struct
 * dt_config that dt_config_load did not make has no secrets of this kind: the texts in it are taken as they are.
 * Thread-safe.
 */
#ifndef DT_BASE_SECRETS_H
#define DT_BASE_SECRETS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/text/strbuf.h"
#include "config.h"
#include "status.h"

#define DT_SECRET_MAX 4096

struct dt_secrets;

/*
 * Puts the secret into *out, which is reset first. `member` is the option's member in `config`
 * (&config->mysql_password). A file that cannot be read any more, or holds no text, leaves the secret as it was read
 * last. dt_secret_forget clears *out. NOMEM.
 */
DT_MUST_CHECK dt_status dt_secret_now(const struct dt_config *config, char *const *member, struct dt_strbuf *out);
/* Frees the text, overwritten. */
void dt_secret_forget(struct dt_strbuf *text);

/* Gives `running` the secrets, and the names of their files, of a configuration that was loaded anew. NOMEM: those that
 * could not be copied stay. */
DT_MUST_CHECK dt_status dt_secrets_renew(const struct dt_config *running, const struct dt_config *fresh);

/* ---- for config.c ---- */
DT_MUST_CHECK dt_status dt_secrets_new(struct dt_secrets **out);
void dt_secrets_free(struct dt_secrets *secrets);
/* Notes a secret's text, and the file that it came from; file NULL: from the configuration itself. Both NULL: the text
 * in struct dt_config holds. */
DT_MUST_CHECK dt_status dt_secrets_set(struct dt_secrets *secrets, size_t option, const char *text, const char *file);
/* Reads a secret's file without the line end that editors put there. UNAVAILABLE: errno says why; INVALID: it holds a
 * zero byte, or more than DT_SECRET_MAX. */
DT_MUST_CHECK dt_status dt_secret_read_file(const char *path, char text[DT_SECRET_MAX + 1]);

/*
 * Settings of a client library that go through our configuration under its own names, such as [kafka]
 * client.security.protocol. The list belongs to the struct dt_config that dt_config_load made; copies share it. Whoever
 * reads it while the program runs holds it, because SIGHUP may give it other values.
 */

struct dt_property {
    char *name;
    char *value; /* as it was read at the start */
    char *file;  /* NULL: the value stood in the configuration */
};

struct dt_properties {
    struct dt_property *v;
    size_t n;
    pthread_mutex_t lock;
};

/* NULL: no memory. */
struct dt_properties *dt_properties_new(void);
/* Frees all, values overwritten. Accepts NULL. */
void dt_properties_free(struct dt_properties *list);
/* Adds one, or gives one that is there another value. Texts are copied. */
DT_MUST_CHECK dt_status dt_properties_set(struct dt_properties *list, struct dt_str name, const char *value,
                                          const char *file);
/* Between the two nobody gives the list other values. list may be NULL. */
void dt_properties_hold(struct dt_properties *list);
void dt_properties_let_go(struct dt_properties *list);
/* Exchanges what two lists have; `running` may be in use by other threads, `fresh` is the caller's. */
void dt_properties_exchange(struct dt_properties *running, struct dt_properties *fresh);
/* NULL: there is none of this name. list may be NULL. */
const struct dt_property *dt_properties_find(const struct dt_properties *list, const char *name);
/* Puts the value into *out, from its file, read again, where it has one. NOMEM. dt_secret_forget(out). */
DT_MUST_CHECK dt_status dt_property_now(const struct dt_property *property, struct dt_strbuf *out);
/* Whether the name says that its value is not to be shown. */
bool dt_property_is_secret(const char *name);

#endif
