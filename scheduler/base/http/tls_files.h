/*
 * The certificate that clients are shown, from the files of http.tls_*. A new connection takes the settings of its time
 * (dt_tls_files_take); existing connections keep theirs. The files are checked when a connection begins or the
 * certificate's end is requested, at most once a second, and when the configuration is loaded again. If a pair cannot
 * be used, the previous pair remains, and the failure is logged once.
 *
 * dt_tls_files_renew: one thread; the other functions: any thread.
 */
#pragma once

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"

struct ssl_ctx_st; /* SSL_CTX of OpenSSL */

typedef struct dt_tls_files dt_tls_files;

/* Reads the files of the configuration. Without tls_cert, returns OK, and *out is NULL. If the files cannot be used,
 * returns INVALID, and err names the option, the file and the reason. */
dt_status dt_tls_files_new(const struct dt_config *config, const dt_clock *clock, dt_tls_files **out,
                           struct dt_error *err);
/* Accepts NULL. */
void dt_tls_files_free(dt_tls_files *files);
/* Reads the files that this configuration names, perhaps other files than before. Accepts NULL. */
void dt_tls_files_renew(dt_tls_files *files, const struct dt_config *config);
/* Returns the settings for a new connection; the caller frees them with SSL_CTX_free when the connection ends. */
struct ssl_ctx_st *dt_tls_files_take(dt_tls_files *files);
/* Returns when the certificate for new connections expires, in milliseconds since the epoch. */
int64_t dt_tls_files_end_at_ms(dt_tls_files *files);
/* Sets the gauge of the seconds until the certificate expires, before metrics are written. Accepts NULL. */
void dt_tls_files_report(dt_tls_files *files);
