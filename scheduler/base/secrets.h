/*
 * Secrets of a configuration, as they are now. A secret that is given as <key>_file is read from its file each time
 * that it is asked for, so that a connection made after the file has changed uses the new one; a secret that stands in
 * the configuration itself changes when the configuration is loaded again (SIGHUP).
 *
 * Copies of a struct dt_config share the secrets of the one that dt_config_load made, which outlives them. A struct
 * dt_config that dt_config_load did not make has no secrets of this kind: the texts in it are taken as they are.
 * Thread-safe.
 */
#ifndef DT_BASE_SECRETS_H
#define DT_BASE_SECRETS_H

#include "base/text/strbuf.h"
#include "config.h"

#define DT_SECRET_MAX 4096

struct dt_secrets;

/*
 * Puts the secret into *out, which is reset first. `member` is the option's member in `config`
 * (&config->mysql_password). A file that cannot be read any more, or holds no text, leaves the secret as it was read
 * last. dt_secret_forget clears *out. NOMEM.
 */
DT_MUST_CHECK dt_status dt_secret_now(const struct dt_config *config, char *const *member, struct dt_strbuf *out);
/* Frees the text, overwritten. */
void dt_secret_forget(struct dt_strbuf *text);

/* Gives `running` the secrets, and the names of their files, of a configuration that was loaded anew. NOMEM: those that
 * could not be copied stay. */
DT_MUST_CHECK dt_status dt_secrets_renew(const struct dt_config *running, const struct dt_config *fresh);

/* ---- for config.c ---- */
DT_MUST_CHECK dt_status dt_secrets_new(struct dt_secrets **out);
void dt_secrets_free(struct dt_secrets *secrets);
/* Notes a secret's text, and the file that it came from; file NULL: from the configuration itself. Both NULL: the text
 * in struct dt_config holds. */
DT_MUST_CHECK dt_status dt_secrets_set(struct dt_secrets *secrets, size_t option, const char *text, const char *file);
/* Reads a secret's file without the line end that editors put there. UNAVAILABLE: errno says why; INVALID: it holds a
 * zero byte, or more than DT_SECRET_MAX. */
DT_MUST_CHECK dt_status dt_secret_read_file(const char *path, char text[DT_SECRET_MAX + 1]);

#endif
