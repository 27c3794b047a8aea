/*
 * The certificate that clients are shown, as the files of http.tls_* are now. Who begins a connection takes the
 * settings of that moment (tls_files_take); connections that are there keep theirs. The files are looked at when
 * connections come or somebody asks when it ends, at most once a second, and when the configuration is loaded again. A
 * pair that cannot be used leaves the one before it, and is told of once.
 *
 * tls_files_renew: one thread; the other functions: any thread.
 */
#pragma once

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */

typedef struct dt_tls_files dt_tls_files;

/*
 * Reads the files of the configuration. *out is NULL, and all is well, where there is no tls_cert. INVALID: they cannot
 * be used; err names the option, the file and the reason.
 */
DT_MUST_CHECK dt_status dt_tls_files_new(const struct dt_config *config, const dt_clock *clock, dt_tls_files **out,
                                         struct dt_error *err);
/* Accepts NULL. */
void dt_tls_files_free(dt_tls_files *files);
/* Reads the files that this configuration names, which need not be those of before. Accepts NULL. */
void dt_tls_files_renew(dt_tls_files *files, const struct dt_config *config);
/* The settings for a connection that begins: SSL_CTX_free when it ends. */
struct ssl_ctx_st *dt_tls_files_take(dt_tls_files *files);
/* When the certificate that a connection would be shown now ends, in milliseconds since the epoch. */
int64_t dt_tls_files_end_at_ms(dt_tls_files *files);
/* Sets the gauge of the seconds that are left, for who reads the metrics now. Accepts NULL. */
void dt_tls_files_report(dt_tls_files *files);
