/*
 * TLS settings of connections to MySQL and Redis; and when the configured certificates expire.
 *
 *   off        no TLS
 *   required   TLS; the server's certificate is not checked
 *   verify     TLS; the certificate must be for the host's name, and signed by an authority in ca_file. If ca_file is
 *              empty, the system's authorities are used.
 *
 * cert_file and key_file are our own certificate, for servers that request one. Files are PEM, and each new connection
 * reads them again.
 */
#pragma once

#include "config.h"

enum dt_tls_mode { DT_TLS_OFF, DT_TLS_REQUIRED, DT_TLS_VERIFY };

/* TLS settings. The texts are borrowed from the configuration; a text that is not set is empty, never NULL. */
struct dt_tls {
    enum dt_tls_mode mode;
    const char *ca_file, *cert_file, *key_file;
};

struct dt_tls dt_tls_of_mysql(const struct dt_config *config);
struct dt_tls dt_tls_of_redis(const struct dt_config *config);

/* Receives the name of the option that names the file ("mysql.cert_file"), the file, and the time when the certificate
 * expires, in seconds since 1970. */
typedef void dt_certificate_fn(void *arg, const char *key, const char *file, int64_t ends_s);

/* Reads each certificate file that the configuration names, and calls `heard` for each file that has a certificate. In
 * a file of our own, the first certificate counts, because we send this one. In a file of authorities, the certificate
 * that expires last counts, because during a replacement the file has both the old and the new one. A file that cannot
 * be read is skipped: the connection that needs it reports the failure. For GET /v1/doctor. */
void dt_certificates_look(const struct dt_config *config, dt_certificate_fn *heard, void *arg);
