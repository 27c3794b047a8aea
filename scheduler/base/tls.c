/* Owns: the words for TLS in the configuration. Refuses to know: which library speaks it. */
#include "tls.h"

#include <string.h>

static const char *const words[] = {"off", "required", "verify"};

bool dt_tls_mode_parse(const char *text, enum dt_tls_mode *out)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i], text) == 0) {
            *out = (enum dt_tls_mode)i;
            return true;
        }
    return false;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* A configuration that a test has made may have no texts. */
static struct dt_tls settings(const char *mode, const char *ca, const char *cert, const char *key)
{
    struct dt_tls tls = {DT_TLS_OFF, or_empty(ca), or_empty(cert), or_empty(key)};
    (void)dt_tls_mode_parse(or_empty(mode), &tls.mode);
    return tls;
}

struct dt_tls dt_tls_of_mysql(const struct dt_config *config)
{
    return settings(config->mysql_tls, config->mysql_ca_file, config->mysql_cert_file, config->mysql_key_file);
}

struct dt_tls dt_tls_of_redis(const struct dt_config *config)
{
    return settings(config->redis_tls, config->redis_ca_file, config->redis_cert_file, config->redis_key_file);
}
