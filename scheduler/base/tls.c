/* Owns: the words for TLS in the configuration. Refuses to know: which library speaks it. */
#include "tls.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "secrets.h"

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

/* See tls.h. */

#define KAFKA_CLIENT "kafka.client."

/* A file that has no certificate, or cannot be read, is not told of: whoever connects with it says so. */
static void look_at(const char *key, const char *file, bool authorities, dt_certificate_fn *heard, void *arg)
{
    FILE *in = file[0] ? fopen(file, "re") : NULL;
    int64_t ends_s = 0;
    X509 *certificate = in ? PEM_read_X509(in, NULL, NULL, NULL) : NULL;
    while (certificate) {
        struct tm tm = {0};
        bool told = ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) == 1;
        int64_t this_s = told ? (int64_t)timegm(&tm) : 0;
        ends_s = this_s > ends_s ? this_s : ends_s;
        X509_free(certificate);
        certificate = authorities ? PEM_read_X509(in, NULL, NULL, NULL) : NULL;
    }
    if (in)
        fclose(in);
    if (ends_s)
        heard(arg, key, file, ends_s);
}

static void look_at_kafkas(const struct dt_config *config, const char *key, bool authorities, dt_certificate_fn *heard,
                           void *arg)
{
    dt_properties_hold(config->kafka_client);
    const struct dt_property *property = dt_properties_find(config->kafka_client, key + strlen(KAFKA_CLIENT));
    char *file = property && property->value ? strdup(property->value) : NULL;
    dt_properties_let_go(config->kafka_client);
    look_at(key, file ? file : "", authorities, heard, arg);
    free(file);
}

void dt_certificates_look(const struct dt_config *config, dt_certificate_fn *heard, void *arg)
{
    const struct {
        const char *key, *file;
        bool authorities;
    } files[] = {
        {"mysql.ca_file", config->mysql_ca_file, true},         {"mysql.cert_file", config->mysql_cert_file, false},
        {"redis.ca_file", config->redis_ca_file, true},         {"redis.cert_file", config->redis_cert_file, false},
        {"callbacks.ca_file", config->callbacks_ca_file, true},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
        look_at(files[i].key, files[i].file, files[i].authorities, heard, arg);
    look_at_kafkas(config, KAFKA_CLIENT "ssl.ca.location", true, heard, arg);
    look_at_kafkas(config, KAFKA_CLIENT "ssl.certificate.location", false, heard, arg);
}
