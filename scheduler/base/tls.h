/*
 * How a connection is secured, in the words of the configuration: off, required (TLS, with whoever answers) or verify
 * (TLS, with a certificate for the host's name that the authorities of ca_file signed; empty: those of the system).
 * cert_file and key_file are our own certificate, for servers that ask for one. Files are PEM, and are read anew by
 * whoever connects. Pure.
 */
#ifndef DT_BASE_TLS_H
#define DT_BASE_TLS_H

#include <stdint.h>

#include "config.h"

enum dt_tls_mode { DT_TLS_OFF, DT_TLS_REQUIRED, DT_TLS_VERIFY };

/* Texts are the configuration's, empty where nothing is given, never NULL. */
struct dt_tls {
    enum dt_tls_mode mode;
    const char *ca_file, *cert_file, *key_file;
};

/* "off", "required", "verify". False: it is none of them, and *out is as it was. */
bool dt_tls_mode_parse(const char *text, enum dt_tls_mode *out);

struct dt_tls dt_tls_of_mysql(const struct dt_config *config);
struct dt_tls dt_tls_of_redis(const struct dt_config *config);

/* Reads until when the certificates hold that the configuration names by files, for the warnings of GET /v1/doctor. */

/* Hears of a file: the key that names it ("mysql.cert_file"), and until when what is in it holds, in seconds since the
 * epoch. */
typedef void dt_certificate_fn(void *arg, const char *key, const char *file, int64_t ends_s);

/*
 * Reads each file of certificates that the configuration names, and tells of those that have some. Of our own
 * certificates the first of the file counts, which is the one that is shown; of authorities the one that holds for
 * longest, since a file has the old one and the new one while one replaces the other.
 */
void dt_certificates_look(const struct dt_config *config, dt_certificate_fn *heard, void *arg);

#endif
