/* Reads until when the certificates hold that the configuration names by files, for the warnings of GET /v1/doctor. */
#ifndef DT_BASE_CERTIFICATES_H
#define DT_BASE_CERTIFICATES_H

#include <stdint.h>

#include "config.h"

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
