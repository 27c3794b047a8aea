/*
 * Owns the list of tokens as it was last read from MySQL: an immutable set with a reference count, which is replaced as
 * a whole.
 *
 * Invariants: a published set never changes; a presented token is hashed, and compared with every entry in constant
 * time; the text of a token is stored nowhere, not even in logs.
 */
#include "auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/random.h>

#include "base/assert.h"

#define HASH_BYTES   32
#define NAME_BYTES   100
#define TOPICS_BYTES 4000
#define FAILURES_MAX 3 /* number of failed loads in a row after which the list counts as unknown */
#define ALL_SCOPES   ((unsigned)(DT_SCOPE_WRITE | DT_SCOPE_REPORT | DT_SCOPE_READ | DT_SCOPE_ADMIN))

const struct dt_scope_word dt_scope_words[DT_SCOPE_WORDS] = {
    {DT_SCOPE_WRITE, "write"}, {DT_SCOPE_REPORT, "report"}, {DT_SCOPE_READ, "read"}, {DT_SCOPE_ADMIN, "admin"}};

struct entry {
    unsigned char hash[HASH_BYTES];
    unsigned scopes;
    struct dt_str name;
    struct dt_str *prefixes;
    size_t n_prefixes;
    dt_tenant *tenant; /* quotas of the token, with a reference; NULL: the process uses no quotas */
};

struct dt_token_set {
    _Atomic unsigned refs;
    bool open; /* callers without a token are accepted */
    struct dt_arena arena;
    struct entry *entries;
    size_t n;
};

struct dt_auth {
    dt_quotas *quotas; /* NULL: the process uses no quotas */
    bool need_tokens;
    bool asked;           /* MySQL requires a token even if the list is empty; used by the loading thread only */
    unsigned failures;    /* loads in a row that MySQL answered with an error */
    pthread_mutex_t lock; /* protects `set`; held for a few instructions */
    struct dt_token_set *set;
};

static void release_token_set(struct dt_token_set *set)
{
    if (!set)
        return;
    const unsigned refs = atomic_fetch_sub(&set->refs, 1);
    dt_assert_cmp(refs, >, 0);
    if (refs > 1)
        return;
    for (size_t i = 0; i < set->n; i++)
        dt_tenant_release(set->entries[i].tenant);
    dt_arena_clear(&set->arena);
    free(set);
}

static struct dt_token_set *acquire_token_set(dt_auth *auth)
{
    pthread_mutex_lock(&auth->lock);
    struct dt_token_set *set = auth->set;
    if (set)
        atomic_fetch_add(&set->refs, 1);
    pthread_mutex_unlock(&auth->lock);
    return set;
}

dt_status dt_auth_new(bool need_tokens, dt_quotas *quotas, dt_auth **out)
{
    *out = NULL;
    dt_auth *auth = calloc(1, sizeof(*auth));
    if (!auth)
        return DT_NOMEM;
    auth->need_tokens = need_tokens;
    auth->quotas = quotas;
    pthread_mutex_init(&auth->lock, NULL);
    *out = auth;
    return DT_OK;
}

void dt_auth_free(dt_auth *auth)
{
    if (!auth)
        return;
    release_token_set(auth->set);
    pthread_mutex_destroy(&auth->lock);
    free(auth);
}

/* ---- scopes and prefixes ---- */

/* Returns the next element of a comma-separated list; it may be empty. False: the list has ended. */
static bool next_element(struct dt_str *remainder, struct dt_str *element)
{
    if (!remainder->p)
        return false;
    const char *comma = remainder->n ? memchr(remainder->p, ',', remainder->n) : NULL;
    *element = (struct dt_str){remainder->p, comma ? (size_t)(comma - remainder->p) : remainder->n};
    *remainder = comma ? (struct dt_str){comma + 1, remainder->n - element->n - 1} : DT_STR_NONE;
    return true;
}

dt_status dt_scopes_parse(struct dt_str text, unsigned *scopes, struct dt_error *err)
{
    struct dt_str word;
    *scopes = 0;
    if (text.n == 0)
        return dt_fail(err, DT_INVALID, "no scope given: write, report, read or admin, separated by commas");
    while (next_element(&text, &word)) {
        unsigned bits = 0;
        for (size_t i = 0; i < DT_SCOPE_WORDS; i++)
            if (dt_str_is(word, dt_scope_words[i].word))
                bits = dt_scope_words[i].scope == DT_SCOPE_ADMIN ? ALL_SCOPES : dt_scope_words[i].scope;
        if (!bits && word.n == 0)
            return dt_fail(err, DT_INVALID, "an empty scope: write, report, read or admin, separated by single commas");
        if (!bits)
            return dt_fail(err, DT_INVALID, "unknown scope \"%.*s\": write, report, read or admin, separated by commas",
                           (int)word.n, word.p);
        *scopes |= bits;
    }
    return DT_OK;
}

dt_status dt_token_topics_check(struct dt_str text, struct dt_error *err)
{
    struct dt_str prefix;
    if (text.n == 0)
        return dt_fail(err, DT_INVALID, "no topics given: prefixes of topic names, separated by commas");
    if (text.n > TOPICS_BYTES)
        return dt_fail(err, DT_INVALID, "the prefixes of topics have more than %d bytes together", TOPICS_BYTES);
    while (next_element(&text, &prefix)) {
        if (prefix.n == 0)
            return dt_fail(err, DT_INVALID, "an empty prefix of topics: prefixes are separated by single commas");
        if (!dt_topic_prefix_valid(prefix))
            return dt_fail(err, DT_INVALID, "no topics begin with \"%.*s\": a prefix has 1 to %d of A-Z a-z 0-9 . _ -",
                           (int)prefix.n, prefix.p, DT_TOPIC_MAX);
    }
    return DT_OK;
}

dt_status dt_token_name_check(struct dt_str text, struct dt_error *err)
{
    bool fine = text.n > 0 && text.n <= NAME_BYTES;
    for (size_t i = 0; fine && i < text.n; i++) {
        const char c = text.p[i];
        const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        fine = word || (c != '\0' && strchr("._-@:", c));
    }
    return fine ? DT_OK : dt_fail(err, DT_INVALID, "a token's name has 1 to %d of A-Z a-z 0-9 . _ - @ :", NAME_BYTES);
}

static dt_status fill_token_entry(struct dt_arena *arena, const struct dt_token *token, struct entry *entry)
{
    *entry = (struct entry){0};
    memcpy(entry->hash, token->hash, HASH_BYTES);
    entry->name = dt_arena_copy(arena, token->name);
    if (!entry->name.p)
        return DT_NOMEM;
    if (dt_scopes_parse(token->scopes, &entry->scopes, NULL) != DT_OK)
        entry->scopes = 0; /* a manual edit made the scopes unreadable, so the token may do nothing */
    if (entry->scopes & (DT_SCOPE_WRITE | DT_SCOPE_REPORT))
        entry->scopes |= DT_SCOPE_WRITE_OR_REPORT;
    if (entry->scopes)
        entry->scopes |= DT_SCOPE_ANY;
    if (dt_str_is(token->topics, DT_TOPICS_ALL)) {
        entry->scopes |= DT_SCOPE_ALL_TOPICS;
        return DT_OK;
    }
    struct dt_str topics = token->topics;
    struct dt_str prefix;
    size_t most = 1;
    for (size_t i = 0; i < topics.n; i++)
        most += topics.p[i] == ',';
    entry->prefixes = dt_arena_alloc(arena, most * sizeof(*entry->prefixes));
    if (!entry->prefixes)
        return DT_NOMEM;
    while (next_element(&topics, &prefix)) {
        if (!dt_topic_prefix_valid(prefix)) /* a manual edit made the prefix invalid, so it gives no right */
            continue;
        dt_assert_cmp(entry->n_prefixes, <, most);
        entry->prefixes[entry->n_prefixes] = dt_arena_copy(arena, prefix);
        if (!entry->prefixes[entry->n_prefixes++].p)
            return DT_NOMEM;
    }
    return DT_OK;
}

/* ---- the list ---- */

static void publish_token_set(dt_auth *auth, struct dt_token_set *set)
{
    pthread_mutex_lock(&auth->lock);
    struct dt_token_set *old = auth->set;
    auth->set = set;
    pthread_mutex_unlock(&auth->lock);
    release_token_set(old);
}

dt_status dt_auth_set(dt_auth *auth, const struct dt_token *tokens, size_t n, enum dt_token_rule rule)
{
    struct dt_token_set *set = calloc(1, sizeof(*set));
    if (!set)
        return DT_NOMEM;
    atomic_store(&set->refs, 1);
    set->entries = dt_arena_alloc(&set->arena, (n ? n : 1) * sizeof(*set->entries));
    dt_status status = set->entries ? DT_OK : DT_NOMEM;
    while (status == DT_OK && set->n < n) {
        struct entry *entry = &set->entries[set->n];
        status = fill_token_entry(&set->arena, &tokens[set->n], entry);
        if (status == DT_OK && auth->quotas && !(entry->tenant = dt_quotas_tenant(auth->quotas, &tokens[set->n])))
            status = DT_NOMEM;
        set->n += status == DT_OK;
    }
    if (status != DT_OK) {
        release_token_set(set);
        return status;
    }
    if (n > 0 || (rule != DT_TOKENS_NEVER_MADE && rule != DT_TOKENS_WAIVED))
        auth->asked = true;
    else if (rule == DT_TOKENS_WAIVED)
        auth->asked = false;
    set->open = !auth->asked && !auth->need_tokens;
    publish_token_set(auth, set);
    return DT_OK;
}

dt_status dt_auth_load(dt_auth *auth, dt_store *store, struct dt_error *err)
{
    struct dt_arena arena = {0};
    struct dt_token *tokens = NULL;
    size_t n = 0;
    enum dt_token_rule rule = DT_TOKENS_ASKED;
    dt_status status = dt_store_token_list(store, &arena, &tokens, &n, &rule, err);
    DT_THEN(status, dt_auth_set(auth, tokens, n, rule));
    dt_arena_clear(&arena);
    if (status == DT_OK) {
        /* the row no longer says that tokens are required: a manual edit, or a restored backup */
        const bool forgotten = n > 0 && rule != DT_TOKENS_ASKED;
        auth->failures = 0;
        return forgotten ? dt_store_tokens_ask(store, err) : DT_OK;
    }
    if (status != DT_UNAVAILABLE && status != DT_NOMEM && ++auth->failures >= FAILURES_MAX)
        publish_token_set(auth, NULL);
    return status;
}

bool dt_auth_known(dt_auth *auth)
{
    struct dt_token_set *set = acquire_token_set(auth);
    bool known = set != NULL;
    release_token_set(set);
    return known;
}

bool dt_auth_open(dt_auth *auth)
{
    struct dt_token_set *set = acquire_token_set(auth);
    bool open = set && set->open;
    release_token_set(set);
    return open;
}

size_t dt_auth_count(dt_auth *auth)
{
    struct dt_token_set *set = acquire_token_set(auth);
    size_t n = set ? set->n : 0;
    release_token_set(set);
    return n;
}

/* ---- a caller ---- */

static dt_status hash_token_text(struct dt_str text, unsigned char hash[HASH_BYTES])
{
    unsigned n = 0;
    return EVP_Digest(text.p, text.n, hash, &n, EVP_sha256(), NULL) == 1 && n == HASH_BYTES ? DT_OK : DT_INTERNAL;
}

/* Returns the token in "Bearer <token>", whatever the case of "Bearer". */
static struct dt_str bearer_token(struct dt_str authorization)
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

dt_status dt_auth_check(dt_auth *auth, struct dt_str authorization, struct dt_caller *caller)
{
    *caller = (struct dt_caller){0};
    struct dt_token_set *set = acquire_token_set(auth);
    if (!set)
        return DT_UNAVAILABLE;
    if (set->open) {
        release_token_set(set);
        caller->scopes = ALL_SCOPES | DT_SCOPE_WRITE_OR_REPORT | DT_SCOPE_ANY | DT_SCOPE_ALL_TOPICS;
        return DT_OK;
    }
    unsigned char hash[HASH_BYTES];
    struct dt_str token = bearer_token(authorization);
    const struct entry *entry = NULL;
    /* Compares with every entry, so that the time does not depend on the entry that matches. */
    const bool hashed = token.n && token.n < 512 && hash_token_text(token, hash) == DT_OK;
    for (size_t i = 0; hashed && i < set->n; i++)
        if (CRYPTO_memcmp(set->entries[i].hash, hash, HASH_BYTES) == 0)
            entry = &set->entries[i];
    if (!entry) {
        release_token_set(set);
        return DT_DENIED;
    }
    *caller = (struct dt_caller){.scopes = entry->scopes,
                                 .topics = {entry->prefixes, entry->n_prefixes},
                                 .fair_queue = (uint8_t)(1 + (size_t)(entry - set->entries) % UINT8_MAX),
                                 .name = entry->name,
                                 .tenant = entry->tenant,
                                 .set = set};
    return DT_OK;
}

void dt_caller_copy(const struct dt_caller *caller, struct dt_caller *out)
{
    *out = *caller;
    if (out->set)
        atomic_fetch_add(&out->set->refs, 1);
}

void dt_caller_clear(struct dt_caller *caller)
{
    release_token_set(caller->set);
    *caller = (struct dt_caller){0};
}

/* ---- creating tokens ---- */

dt_status dt_auth_make_token(char text[DT_TOKEN_TEXT_MAX], unsigned char hash[32], struct dt_error *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char random[43]; /* random bytes; six bits of each are used: 258 bits */
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return dt_fail(err, DT_SYSTEM, "the system returned no random numbers");
    size_t k = 0;
    memcpy(text, "dt_", 3);
    k = 3;
    for (size_t i = 0; i < sizeof(random); i++)
        text[k++] = digits[random[i] & 63];
    text[k] = '\0';
    return hash_token_text(dt_str(text), hash);
}
