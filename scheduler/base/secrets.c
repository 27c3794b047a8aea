/* See secrets.h. Invariant: `text` of a secret is the latest text that could be read. */
#include "secrets.h"

#include "assert.h"
#include "config_options.h"

struct secret {
    char *text, *file;
};

struct dt_secrets {
    pthread_mutex_t lock;
    struct secret of[DT_OPTIONS]; /* current texts; an empty one: the text in struct dt_config is used */
};

static void wipe_text(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

dt_status dt_secrets_new(struct dt_secrets **out)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return DT_NOMEM;
    pthread_mutex_init(&(*out)->lock, NULL);
    return DT_OK;
}

void dt_secrets_free(struct dt_secrets *secrets)
{
    if (!secrets)
        return;
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        wipe_text(secrets->of[i].text);
        free(secrets->of[i].file);
    }
    pthread_mutex_destroy(&secrets->lock);
    free(secrets);
}

dt_status dt_secret_read_file(const char *path, char text[DT_SECRET_MAX + 1])
{
    FILE *in = fopen(path, "re");
    if (!in)
        return DT_UNAVAILABLE;
    setvbuf(in, NULL, _IONBF, 0); /* unbuffered, so that no copy of the secret stays in a buffer */
    size_t n = fread(text, 1, DT_SECRET_MAX + 1, in);
    bool failed = ferror(in);
    fclose(in);
    if (failed || n > DT_SECRET_MAX || memchr(text, '\0', n)) {
        explicit_bzero(text, DT_SECRET_MAX + 1);
        return failed ? DT_UNAVAILABLE : DT_INVALID;
    }
    if (n && text[n - 1] == '\n')
        n--;
    if (n && text[n - 1] == '\r')
        n--;
    text[n] = '\0';
    return DT_OK;
}

dt_status dt_secrets_set(struct dt_secrets *secrets, size_t option, const char *text, const char *file)
{
    dt_assert_cmp(option, <, DT_OPTIONS);
    dt_assert(text || !file);
    struct secret made = {text ? strdup(text) : NULL, file ? strdup(file) : NULL};
    bool whole = (!text || made.text) && (!file || made.file);
    if (whole) {
        pthread_mutex_lock(&secrets->lock);
        const struct secret old = secrets->of[option];
        secrets->of[option] = made;
        pthread_mutex_unlock(&secrets->lock);
        made = old;
    }
    wipe_text(made.text);
    free(made.file);
    return whole ? DT_OK : DT_NOMEM;
}

dt_status dt_secret_now(const struct dt_config *config, char *const *member, struct dt_strbuf *out)
{
    struct dt_secrets *secrets = config->secrets;
    char text[DT_SECRET_MAX + 1];
    size_t option = 0;
    while (option < DT_OPTIONS && dt_option_member(config, &dt_options[option]) != (const void *)member)
        option++;
    dt_strbuf_reset(out);
    if (!secrets || option == DT_OPTIONS) {
        dt_strbuf_adds(out, *member ? *member : "");
        return out->failed ? DT_NOMEM : DT_OK;
    }
    pthread_mutex_lock(&secrets->lock);
    struct secret *secret = &secrets->of[option];
    if (secret->file && dt_secret_read_file(secret->file, text) == DT_OK) {
        char *copy = text[0] && strcmp(text, secret->text) != 0 ? strdup(text) : NULL;
        if (copy) {
            wipe_text(secret->text);
            secret->text = copy;
        }
        explicit_bzero(text, sizeof(text));
    }
    dt_strbuf_adds(out, secret->text ? secret->text : *member ? *member : "");
    pthread_mutex_unlock(&secrets->lock);
    return out->failed ? DT_NOMEM : DT_OK;
}

void dt_secret_forget(struct dt_strbuf *text)
{
    if (text->p)
        explicit_bzero(text->p, text->cap);
    dt_strbuf_clear(text);
}

dt_status dt_secrets_renew(const struct dt_config *running, const struct dt_config *fresh)
{
    dt_status status = DT_OK;
    for (size_t i = 0; i < DT_OPTIONS; i++) {
        if (!dt_option_is_secret(&dt_options[i]))
            continue;
        const char *text = *(char **)dt_option_member(fresh, &dt_options[i]);
        if (dt_secrets_set(running->secrets, i, text, fresh->secrets->of[i].file) != DT_OK)
            status = DT_NOMEM;
    }
    return status;
}

static void free_property(struct dt_property *property)
{
    wipe_text(property->value);
    free(property->name);
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
        free_property(&list->v[i]);
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

dt_status dt_properties_set(struct dt_properties *list, struct dt_str name, const char *value, const char *file)
{
    struct dt_property made = {strndup(name.p, name.n), strdup(value), file ? strdup(file) : NULL};
    bool whole = made.name && made.value && (!file || made.file);
    struct dt_property *place = whole ? (struct dt_property *)dt_properties_find(list, made.name) : NULL;
    if (whole && !place) { /* all values were copied, and the property is new: appends the property */
        struct dt_property *grown = realloc(list->v, (list->n + 1) * sizeof(*grown));
        if (grown) {
            list->v = grown;
            place = &list->v[list->n++];
            *place = (struct dt_property){0};
        }
    }
    if (!place) {
        free_property(&made);
        return DT_NOMEM;
    }
    free_property(place);
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
