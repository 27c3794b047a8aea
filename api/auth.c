/*
 * Owns the list of tokens as last read from MySQL, as a counted immutable set that is swapped whole, and decides who a
 * caller is. Refuses to know HTTP and how topics or jobs look.
 *
 * Invariants: a set never changes after it was published; a presented token is hashed and compared with every entry in
 * constant time; token texts are nowhere, not even in logs.
 */
#include "auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define HASH_BYTES 32
#define ALL_SCOPES ((unsigned)(DT_SCOPE_WRITE | DT_SCOPE_REPORT | DT_SCOPE_READ | DT_SCOPE_ADMIN))

struct entry {
    unsigned char hash[HASH_BYTES];
    unsigned scopes;
    struct dt_str *prefixes;
    size_t n_prefixes;
};

struct dt_token_set {
    _Atomic unsigned refs;
    struct dt_arena arena;
    struct entry *entries;
    size_t n;
};

struct dt_auth {
    bool need_tokens;
    pthread_mutex_t lock; /* of `set` alone; held for a few instructions */
    struct dt_token_set *set;
};

static void set_release(struct dt_token_set *set)
{
    if (!set || atomic_fetch_sub(&set->refs, 1) != 1)
        return;
    dt_arena_clear(&set->arena);
    free(set);
}

static struct dt_token_set *set_acquire(dt_auth *auth)
{
    pthread_mutex_lock(&auth->lock);
    struct dt_token_set *set = auth->set;
    if (set)
        atomic_fetch_add(&set->refs, 1);
    pthread_mutex_unlock(&auth->lock);
    return set;
}

dt_status dt_auth_new(bool need_tokens, dt_auth **out)
{
    *out = NULL;
    dt_auth *auth = calloc(1, sizeof(*auth));
    if (!auth)
        return DT_NOMEM;
    auth->need_tokens = need_tokens;
    pthread_mutex_init(&auth->lock, NULL);
    *out = auth;
    return DT_OK;
}

void dt_auth_free(dt_auth *auth)
{
    if (!auth)
        return;
    set_release(auth->set);
    pthread_mutex_destroy(&auth->lock);
    free(auth);
}

/* ---- scopes and prefixes ---- */

static bool separator(char c)
{
    return c == ',' || c == ' ';
}

/* The next word of a list at *at; absent at its end. */
static struct dt_str next_word(struct dt_str list, size_t *at)
{
    while (*at < list.n && separator(list.p[*at]))
        (*at)++;
    size_t from = *at;
    while (*at < list.n && !separator(list.p[*at]))
        (*at)++;
    return *at > from ? (struct dt_str){list.p + from, *at - from} : DT_STR_NONE;
}

static unsigned scope_bits(struct dt_str word)
{
    if (dt_str_is(word, "write"))
        return DT_SCOPE_WRITE;
    if (dt_str_is(word, "report"))
        return DT_SCOPE_REPORT;
    if (dt_str_is(word, "read"))
        return DT_SCOPE_READ;
    if (dt_str_is(word, "admin"))
        return ALL_SCOPES;
    return 0;
}

dt_status dt_scopes_parse(struct dt_str text, unsigned *scopes, struct dt_error *err)
{
    size_t at = 0;
    *scopes = 0;
    for (struct dt_str word = next_word(text, &at); word.p; word = next_word(text, &at)) {
        unsigned bits = scope_bits(word);
        if (!bits)
            return dt_fail(err, DT_INVALID, "unknown scope \"%.*s\": write, report, read or admin", (int)word.n,
                           word.p);
        *scopes |= bits;
    }
    return *scopes ? DT_OK : dt_fail(err, DT_INVALID, "no scope given: write, report, read or admin");
}

static dt_status copy_prefixes(struct dt_arena *arena, struct dt_str topics, struct entry *entry)
{
    size_t at = 0, n = 0;
    while (next_word(topics, &at).p)
        n++;
    if (n == 0)
        return DT_OK;
    entry->prefixes = dt_arena_alloc(arena, n * sizeof(*entry->prefixes));
    if (!entry->prefixes)
        return DT_NOMEM;
    at = 0;
    for (size_t i = 0; i < n; i++) {
        entry->prefixes[i] = dt_arena_copy(arena, next_word(topics, &at));
        if (!entry->prefixes[i].p)
            return DT_NOMEM;
    }
    entry->n_prefixes = n;
    return DT_OK;
}

/* ---- the list ---- */

static dt_status set_fill(struct dt_token_set *set, const struct dt_token *tokens, size_t n)
{
    set->entries = dt_arena_alloc(&set->arena, (n ? n : 1) * sizeof(*set->entries));
    if (!set->entries)
        return DT_NOMEM;
    memset(set->entries, 0, (n ? n : 1) * sizeof(*set->entries));
    for (size_t i = 0; i < n; i++) {
        struct entry *entry = &set->entries[i];
        memcpy(entry->hash, tokens[i].hash, HASH_BYTES);
        if (dt_scopes_parse(tokens[i].scopes, &entry->scopes, NULL) != DT_OK)
            entry->scopes = 0; /* edited by hand into nonsense: a token that may do nothing */
        dt_status status = copy_prefixes(&set->arena, tokens[i].topics, entry);
        if (status != DT_OK)
            return status;
    }
    set->n = n;
    return DT_OK;
}

dt_status dt_auth_set(dt_auth *auth, const struct dt_token *tokens, size_t n)
{
    struct dt_token_set *set = calloc(1, sizeof(*set));
    if (!set)
        return DT_NOMEM;
    atomic_store(&set->refs, 1);
    dt_arena_init(&set->arena);
    dt_status status = set_fill(set, tokens, n);
    if (status != DT_OK) {
        set_release(set);
        return status;
    }
    pthread_mutex_lock(&auth->lock);
    struct dt_token_set *old = auth->set;
    auth->set = set;
    pthread_mutex_unlock(&auth->lock);
    set_release(old);
    return DT_OK;
}

dt_status dt_auth_load(dt_auth *auth, dt_store *store, struct dt_error *err)
{
    struct dt_arena arena;
    struct dt_token *tokens = NULL;
    size_t n = 0;
    dt_arena_init(&arena);
    dt_status status = dt_store_token_list(store, &arena, &tokens, &n, err);
    if (status == DT_OK)
        status = dt_auth_set(auth, tokens, n);
    dt_arena_clear(&arena);
    return status;
}

bool dt_auth_known(dt_auth *auth)
{
    struct dt_token_set *set = set_acquire(auth);
    bool known = set != NULL;
    set_release(set);
    return known;
}

size_t dt_auth_count(dt_auth *auth)
{
    struct dt_token_set *set = set_acquire(auth);
    size_t n = set ? set->n : 0;
    set_release(set);
    return n;
}

/* ---- a caller ---- */

static dt_status hash_text(struct dt_str text, unsigned char hash[HASH_BYTES])
{
    unsigned n = 0;
    return EVP_Digest(text.p, text.n, hash, &n, EVP_sha256(), NULL) == 1 && n == HASH_BYTES ? DT_OK : DT_INTERNAL;
}

/* "Bearer <token>", the word in any case. */
static struct dt_str bearer(struct dt_str authorization)
{
    static const char word[] = "bearer";
    size_t n = sizeof(word) - 1;
    if (authorization.n <= n + 1 || authorization.p[n] != ' ')
        return DT_STR_NONE;
    for (size_t i = 0; i < n; i++)
        if ((authorization.p[i] | 0x20) != word[i])
            return DT_STR_NONE;
    struct dt_str token = {authorization.p + n + 1, authorization.n - n - 1};
    while (token.n && token.p[0] == ' ') {
        token.p++;
        token.n--;
    }
    return token;
}

/* Looks at every entry, so that the time tells nothing about which one fits. */
static const struct entry *find(const struct dt_token_set *set, const unsigned char hash[HASH_BYTES])
{
    const struct entry *found = NULL;
    for (size_t i = 0; i < set->n; i++)
        if (CRYPTO_memcmp(set->entries[i].hash, hash, HASH_BYTES) == 0)
            found = &set->entries[i];
    return found;
}

dt_status dt_auth_check(dt_auth *auth, struct dt_str authorization, struct dt_caller *caller)
{
    *caller = (struct dt_caller){0};
    struct dt_token_set *set = set_acquire(auth);
    if (!set)
        return DT_UNAVAILABLE;
    if (set->n == 0) {
        set_release(set);
        caller->scopes = auth->need_tokens ? 0 : ALL_SCOPES;
        return auth->need_tokens ? DT_DENIED : DT_OK;
    }
    unsigned char hash[HASH_BYTES];
    struct dt_str token = bearer(authorization);
    const struct entry *entry = NULL;
    if (token.n && token.n < 512 && hash_text(token, hash) == DT_OK)
        entry = find(set, hash);
    if (!entry) {
        set_release(set);
        return DT_DENIED;
    }
    *caller = (struct dt_caller){entry->scopes, entry->prefixes, entry->n_prefixes, set};
    return DT_OK;
}

void dt_caller_clear(struct dt_caller *caller)
{
    set_release(caller->set);
    *caller = (struct dt_caller){0};
}

bool dt_caller_sees(const struct dt_caller *caller, struct dt_str topic)
{
    if (caller->n_prefixes == 0)
        return true;
    for (size_t i = 0; i < caller->n_prefixes; i++) {
        struct dt_str prefix = caller->prefixes[i];
        if (topic.n >= prefix.n && memcmp(topic.p, prefix.p, prefix.n) == 0)
            return true;
    }
    return false;
}

/* ---- making tokens ---- */

dt_status dt_auth_make_token(char text[DT_TOKEN_TEXT_MAX], unsigned char hash[32], struct dt_error *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char random[43]; /* six bits of each are used: 258 bits */
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return dt_fail(err, DT_SYSTEM, "no random numbers from the system");
    size_t k = 0;
    memcpy(text, "dt_", 3);
    k = 3;
    for (size_t i = 0; i < sizeof(random); i++)
        text[k++] = digits[random[i] & 63];
    text[k] = '\0';
    return hash_text(dt_str(text), hash);
}
