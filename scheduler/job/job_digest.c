/*
 * The digest of a request: what "equal" means when a key comes again. xxh3-128 over a canonical text: for each member
 * that is there a tag, the length and the bytes; long members (payload, headers) stand in it by their own hash.
 * Independent of the machine's byte order, since the digest is kept in MySQL. Changing it makes every kept key a
 * conflict: never change it.
 */
#include <stdlib.h>

#define XXH_STATIC_LINKING_ONLY /* for a state on the stack */
#include <xxhash.h>

#include "base/assert.h"
#include "job_decode.h"
#include "job_fields.h"

struct canon {
    /* Topic 200, key 255, partition key 255, content type 255, retry 1,600, URL 2,000, and the small ones. */
    unsigned char p[6144];
    size_t n;
};

static void put_u64(struct canon *c, uint64_t v)
{
    for (unsigned i = 0; i < 8; i++)
        c->p[c->n++] = (unsigned char)(v >> (8 * i));
}

static void put_tag(struct canon *c, char tag)
{
    dt_assert_cmp(c->n + 17, <=, sizeof(c->p)); /* a number or a hash follows */
    c->p[c->n++] = (unsigned char)tag;
}

static void put_i64(struct canon *c, char tag, int64_t v)
{
    put_tag(c, tag);
    put_u64(c, (uint64_t)v);
}

static void put_bytes(struct canon *c, char tag, struct dt_str s)
{
    dt_assert_cmp(s.n, <, sizeof(c->p) - c->n - 9); /* the members were read, with their limits */
    put_tag(c, tag);
    put_u64(c, s.n);
    if (s.n > 0)
        memcpy(c->p + c->n, s.p, s.n);
    c->n += s.n;
}

static void put_hash(struct canon *c, char tag, XXH128_hash_t hash)
{
    put_tag(c, tag);
    put_u64(c, hash.low64);
    put_u64(c, hash.high64);
}

static int by_name(const void *a, const void *b)
{
    return dt_str_order(((const struct dt_header_pair *)a)->name, ((const struct dt_header_pair *)b)->name);
}

static void update(XXH3_state_t *state, struct dt_str s)
{
    unsigned char n[8];
    for (unsigned i = 0; i < 8; i++)
        n[i] = (unsigned char)((uint64_t)s.n >> (8 * i));
    XXH3_128bits_update(state, n, sizeof(n));
    if (s.n > 0)
        XXH3_128bits_update(state, s.p, s.n);
}

static XXH128_hash_t hash_of_headers(struct dt_job_fields *f)
{
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    if (f->n_pairs > 1)
        qsort(f->pairs, f->n_pairs, sizeof(*f->pairs), by_name);
    for (size_t i = 0; i < f->n_pairs; i++) {
        update(&state, f->pairs[i].name);
        update(&state, f->pairs[i].value);
    }
    return XXH3_128bits_digest(&state);
}

void dt_job_digest(struct dt_job_fields *f)
{
    struct dt_new_job *job = &f->job;
    struct canon c;
    c.n = 0;
    put_bytes(&c, 't', job->topic);
    if (f->has & DT_MEMBER_KEY)
        put_bytes(&c, 'k', job->key);
    if (f->has & DT_MEMBER_RUN_AT)
        put_i64(&c, 'r', job->run_at_ms);
    if (f->has & DT_MEMBER_DELAY)
        put_i64(&c, 'd', f->delay_ms);
    if (f->has & DT_MEMBER_RETRY)
        put_bytes(&c, 'y', job->retry);
    if (f->has & DT_MEMBER_ACK_TIMEOUT)
        put_i64(&c, 'a', job->ack_timeout_ms);
    if (f->has & DT_MEMBER_PARTITION_KEY)
        put_bytes(&c, 'p', job->partition_key);
    if (f->has & DT_MEMBER_CONTENT_TYPE)
        put_bytes(&c, 'c', job->content_type);
    if (f->has & DT_MEMBER_HEADERS)
        put_hash(&c, 'h', hash_of_headers(f));
    if (f->has & DT_MEMBER_CALLBACK_URL)
        put_bytes(&c, 'u', job->callback_url);
    put_hash(&c, f->has & DT_MEMBER_PAYLOAD_BASE64 ? 'b' : 'j', XXH3_128bits(job->payload.p, job->payload.n));
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(c.p, c.n));
    memcpy(job->digest, canonical.digest, 16);
}

void dt_job_digest_add(unsigned char digest[16], struct dt_str text)
{
    XXH3_state_t state;
    XXH128_canonical_t canonical;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, digest, 16);
    update(&state, text);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
    memcpy(digest, canonical.digest, 16);
}

uint64_t dt_key_hash(struct dt_str topic, struct dt_str key)
{
    uint64_t hash = XXH3_64bits_withSeed(key.p, key.n, XXH3_64bits(topic.p, topic.n));
    return hash != 0 ? hash : 1;
}
