/*
 * Secrets and settings of librdkafka, with their current values.
 *
 * A secret that is given as <key>_file is read from its file at each use, so that a new connection uses the new text
 * after the file has changed. A secret in the configuration itself changes when the configuration is loaded again
 * (SIGHUP).
 *
 * Copies of a struct dt_config share the secrets of the original, which dt_config_load made and which must outlive the
 * copies. The texts of a struct dt_config that dt_config_load did not make are used as they are. Thread-safe.
 */
#pragma once

#include <pthread.h>

#include "base/text/strbuf.h"
#include "config.h"
#include "status.h"

#define DT_SECRET_MAX 4096

struct dt_secrets;

/* Writes the current text of a secret into *out, which is reset first. `member` points into `config`
 * (&config->mysql_password). If the secret's file cannot be read any more or is empty, the text that was read last is
 * used. Clear *out with dt_secret_forget. Returns NOMEM if memory runs out. */
dt_status dt_secret_now(const struct dt_config *config, char *const *member, struct dt_strbuf *out);
/* Overwrites and frees the text. */
void dt_secret_forget(struct dt_strbuf *text);

/* Replaces the secrets of `running`, and the names of their files, by those of `fresh`, a configuration that was just
 * loaded. If memory runs out, returns NOMEM, and secrets that could not be copied are unchanged. */
dt_status dt_secrets_renew(const struct dt_config *running, const struct dt_config *fresh);

/* ---- for config.c ---- */
dt_status dt_secrets_new(struct dt_secrets **out);
void dt_secrets_free(struct dt_secrets *secrets);
/* Stores a secret's text and the name of its file. If file is NULL, the configuration itself contains the text. If both
 * are NULL, the text in struct dt_config is used. */
dt_status dt_secrets_set(struct dt_secrets *secrets, size_t option, const char *text, const char *file);
/* Reads a secret's file without the line end that editors add. UNAVAILABLE: the file cannot be read, and errno has the
 * reason. INVALID: the file has a zero byte, or more than DT_SECRET_MAX bytes. */
dt_status dt_secret_read_file(const char *path, char text[DT_SECRET_MAX + 1]);

/* A setting that our configuration passes to librdkafka under the library's name, such as [kafka]
 * client.security.protocol. The list of settings belongs to the struct dt_config that dt_config_load made; copies share
 * the list. SIGHUP changes the list, so a thread that reads it while the program runs must call dt_properties_hold. */
struct dt_property {
    char *name;
    char *value; /* value when the configuration was loaded */
    char *file;  /* name of the file with the value; NULL: the configuration itself contains it */
};

struct dt_properties {
    struct dt_property *v;
    size_t n;
    pthread_mutex_t lock;
};

struct dt_properties *dt_properties_new(void);
/* Overwrites the values, and frees the list. Accepts NULL. */
void dt_properties_free(struct dt_properties *list);
/* Adds a property, or replaces its value. The texts are copied. */
dt_status dt_properties_set(struct dt_properties *list, struct dt_str name, const char *value, const char *file);
/* Lock and unlock the list. Between these two calls the list does not change. list may be NULL. */
void dt_properties_hold(struct dt_properties *list);
void dt_properties_let_go(struct dt_properties *list);
/* Swaps the contents of two lists. Other threads may use `running`; only the caller uses `fresh`. */
void dt_properties_exchange(struct dt_properties *running, struct dt_properties *fresh);
/* Returns the property of this name, or NULL. list may be NULL. */
static inline const struct dt_property *dt_properties_find(const struct dt_properties *list, const char *name)
{
    for (size_t i = 0; list && i < list->n; i++)
        if (strcmp(list->v[i].name, name) == 0)
            return &list->v[i];
    return NULL;
}
/* Writes the current value into *out. If the property has a file, the file is read again. Clear *out with
 * dt_secret_forget. Returns NOMEM if memory runs out. */
dt_status dt_property_now(const struct dt_property *property, struct dt_strbuf *out);
/* Returns whether the value of a property with this name is a secret. */
bool dt_property_is_secret(const char *name);
