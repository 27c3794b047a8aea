/*
 * How a connection is secured, in the words of the configuration: off, required (TLS, with whoever answers) or verify
 * (TLS, with a certificate for the host's name that the authorities of ca_file signed; empty: those of the system).
 * cert_file and key_file are our own certificate, for servers that ask for one. Files are PEM, and are read anew by
 * whoever connects. Pure.
 */
#ifndef DT_BASE_TLS_H
#define DT_BASE_TLS_H

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

#endif
