/* Implements kept.h: the cache of answers. */
#include "kept.h"

#include <pthread.h>

#include "base/assert.h"

struct answer {
    char key[DT_KEPT_KEY];
    size_t key_n;
    struct dt_strbuf text;
    int64_t made_us, took_us; /* made_us: mono; 0: the slot is empty. took_us: time that making the answer took */
};

struct dt_kept {
    const dt_clock *clock;
    int share;
    pthread_mutex_t making;  /* held by the thread that makes an answer */
    pthread_mutex_t publish; /* protects the answers; held while an answer is copied */
    struct answer answers[DT_KEPT];
};

dt_status dt_kept_new(const dt_clock *clock, int share, dt_kept **out)
{
    dt_kept *kept = calloc(1, sizeof(*kept));
    *out = kept;
    if (!kept)
        return DT_NOMEM;
    kept->clock = clock;
    kept->share = share;
    pthread_mutex_init(&kept->making, NULL);
    pthread_mutex_init(&kept->publish, NULL);
    return DT_OK;
}

void dt_kept_free(dt_kept *kept)
{
    if (!kept)
        return;
    for (size_t i = 0; i < DT_KEPT; i++)
        dt_strbuf_clear(&kept->answers[i].text);
    pthread_mutex_destroy(&kept->publish);
    pthread_mutex_destroy(&kept->making);
    free(kept);
}

static bool answer_has_key(const struct answer *answer, struct dt_str key)
{
    return answer->made_us && answer->key_n == key.n && memcmp(answer->key, key.p, key.n) == 0;
}

/* Copies the answer for the key into out. False: no answer is young enough. */
static bool copy_answer(dt_kept *kept, struct dt_str key, int64_t max_age_us, struct dt_strbuf *out)
{
    bool found = false;
    pthread_mutex_lock(&kept->publish);
    for (size_t i = 0; i < DT_KEPT && !found; i++) {
        const struct answer *answer = &kept->answers[i];
        int64_t age_us = dt_clock_mono_us(kept->clock) - answer->made_us;
        found = answer_has_key(answer, key) && age_us <= dt_later(max_age_us, kept->share * answer->took_us);
        if (found)
            dt_strbuf_add(out, answer->text.p, answer->text.n);
    }
    pthread_mutex_unlock(&kept->publish);
    return found;
}

/* Stores the answer and takes over its text. Replaces the old answer for the key, or else the oldest answer. */
static void store_answer(dt_kept *kept, struct dt_str key, int64_t begun_us, struct dt_strbuf *text)
{
    dt_assert_cmp(key.n, <=, DT_KEPT_KEY);
    pthread_mutex_lock(&kept->publish);
    struct answer *answer = &kept->answers[0];
    for (size_t i = 0; i < DT_KEPT && !answer_has_key(answer, key); i++)
        if (answer_has_key(&kept->answers[i], key) || kept->answers[i].made_us < answer->made_us)
            answer = &kept->answers[i];
    struct dt_strbuf old = answer->text;
    memcpy(answer->key, key.p, key.n);
    answer->key_n = key.n;
    answer->text = *text;
    answer->made_us = dt_clock_mono_us(kept->clock);
    answer->took_us = answer->made_us - begun_us;
    *text = old;
    pthread_mutex_unlock(&kept->publish);
}

dt_status dt_kept_answer(dt_kept *kept, struct dt_str key, int64_t max_age_us, dt_make_answer *make, void *arg,
                         struct dt_strbuf *out, struct dt_error *err)
{
    dt_status status = DT_OK;
    struct dt_strbuf text = {0};
    if (key.n > DT_KEPT_KEY)
        return make(arg, out, err);
    if (copy_answer(kept, key, max_age_us, out))
        return DT_OK;
    pthread_mutex_lock(&kept->making);
    if (!copy_answer(kept, key, max_age_us, out)) { /* no other thread has made the answer meanwhile */
        const int64_t begun_us = dt_clock_mono_us(kept->clock);
        status = make(arg, &text, err);
        if (status == DT_OK && text.failed)
            status = DT_NOMEM;
        if (status == DT_OK) {
            dt_strbuf_fit(&text);
            dt_strbuf_add(out, text.p, text.n);
            store_answer(kept, key, begun_us, &text);
        }
        dt_strbuf_clear(&text);
    }
    pthread_mutex_unlock(&kept->making);
    return status;
}
