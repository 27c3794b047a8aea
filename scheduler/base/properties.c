/* Owns: names and values that are not ours. Refuses to know: what they mean. */
#include "properties.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "secrets.h"

static void forget(struct dt_property *property)
{
    if (property->value)
        explicit_bzero(property->value, strlen(property->value));
    free(property->name);
    free(property->value);
    free(property->file);
}

struct dt_properties *dt_properties_new(void)
{
    struct dt_properties *list = calloc(1, sizeof(*list));
    if (list)
        pthread_mutex_init(&list->lock, NULL);
    return list;
}

void dt_properties_free(struct dt_properties *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->n; i++)
        forget(&list->v[i]);
    free(list->v);
    pthread_mutex_destroy(&list->lock);
    free(list);
}

void dt_properties_hold(struct dt_properties *list)
{
    if (list)
        pthread_mutex_lock(&list->lock);
}

void dt_properties_let_go(struct dt_properties *list)
{
    if (list)
        pthread_mutex_unlock(&list->lock);
}

void dt_properties_exchange(struct dt_properties *running, struct dt_properties *fresh)
{
    struct dt_property *v = fresh->v;
    size_t n = fresh->n;
    dt_properties_hold(running);
    fresh->v = running->v;
    fresh->n = running->n;
    running->v = v;
    running->n = n;
    dt_properties_let_go(running);
}

const struct dt_property *dt_properties_find(const struct dt_properties *list, const char *name)
{
    for (size_t i = 0; list && i < list->n; i++)
        if (strcmp(list->v[i].name, name) == 0)
            return &list->v[i];
    return NULL;
}

dt_status dt_properties_set(struct dt_properties *list, struct dt_str name, const char *value, const char *file)
{
    struct dt_property made = {strndup(name.p, name.n), strdup(value), file ? strdup(file) : NULL};
    bool whole = made.name && made.value && (!file || made.file);
    struct dt_property *place = whole ? (struct dt_property *)dt_properties_find(list, made.name) : NULL;
    if (whole && !place) { /* one more, at the end */
        struct dt_property *grown = realloc(list->v, (list->n + 1) * sizeof(*grown));
        if (grown) {
            list->v = grown;
            place = &list->v[list->n++];
            *place = (struct dt_property){0};
        }
    }
    if (!place) {
        forget(&made);
        return DT_NOMEM;
    }
    forget(place);
    *place = made;
    return DT_OK;
}

dt_status dt_property_now(const struct dt_property *property, struct dt_strbuf *out)
{
    char text[DT_SECRET_MAX + 1];
    bool read = property->file && dt_secret_read_file(property->file, text) == DT_OK && text[0];
    dt_strbuf_reset(out);
    dt_strbuf_adds(out, read ? text : property->value);
    if (read)
        explicit_bzero(text, sizeof(text));
    return out->failed ? DT_NOMEM : DT_OK;
}

bool dt_property_is_secret(const char *name)
{
    static const char *const words[] = {"password",           "secret",          "key.pem",   "jaas",
                                        "oauthbearer.config", "oauthbearer.jwt", "credential"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasestr(name, words[i]))
            return true;
    return false;
}
