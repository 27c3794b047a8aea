/*
 * Settings of a client library that go through our configuration under its own names, such as [kafka]
 * client.security.protocol. The list belongs to the struct dt_config that dt_config_load made; copies share it. Whoever
 * reads it while the program runs holds it, because SIGHUP may give it other values.
 */
#ifndef DT_BASE_PROPERTIES_H
#define DT_BASE_PROPERTIES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/text/strbuf.h"
#include "status.h"

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
