/* See tls.h. */
#include "tls.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <time.h>

#include "secrets.h"

#define KAFKA_CLIENT "kafka.client."

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* Returns the TLS settings. The texts may be NULL in a configuration that a test has made. */
static struct dt_tls make_tls(const char *mode, const char *ca, const char *cert, const char *key)
{
    const char *word = or_empty(mode);
    return (struct dt_tls){.mode = strcmp(word, "required") == 0 ? DT_TLS_REQUIRED
                                   : strcmp(word, "verify") == 0 ? DT_TLS_VERIFY
                                                                 : DT_TLS_OFF,
                           .ca_file = or_empty(ca),
                           .cert_file = or_empty(cert),
                           .key_file = or_empty(key)};
}

struct dt_tls dt_tls_of_mysql(const struct dt_config *config)
{
    return make_tls(config->mysql_tls, config->mysql_ca_file, config->mysql_cert_file, config->mysql_key_file);
}

struct dt_tls dt_tls_of_redis(const struct dt_config *config)
{
    return make_tls(config->redis_tls, config->redis_ca_file, config->redis_cert_file, config->redis_key_file);
}

static void report_expiry(const char *key, const char *file, bool authorities, dt_certificate_fn *heard, void *arg)
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

void dt_certificates_look(const struct dt_config *config, dt_certificate_fn *heard, void *arg)
{
    const struct {
        const char *key, *file; /* file: value of the option; NULL: a property of librdkafka has the file's name */
        bool authorities;
    } files[] = {
        {"mysql.ca_file", config->mysql_ca_file, true},         {"mysql.cert_file", config->mysql_cert_file, false},
        {"redis.ca_file", config->redis_ca_file, true},         {"redis.cert_file", config->redis_cert_file, false},
        {"callbacks.ca_file", config->callbacks_ca_file, true}, {KAFKA_CLIENT "ssl.ca.location", NULL, true},
        {KAFKA_CLIENT "ssl.certificate.location", NULL, false},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        char *copy = NULL;
        if (!files[i].file) {
            dt_properties_hold(config->kafka_client);
            const char *name = files[i].key + strlen(KAFKA_CLIENT);
            const struct dt_property *property = dt_properties_find(config->kafka_client, name);
            copy = property && property->value ? strdup(property->value) : NULL;
            dt_properties_let_go(config->kafka_client);
        }
        report_expiry(files[i].key, copy ? copy : or_empty(files[i].file), files[i].authorities, heard, arg);
        free(copy);
    }
}
