/* Owns the calls of OpenSSL for one connection: see tls_session.h. Refuses to know when they are made. */
#include "tls_session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

dt_tls_session *dt_tls_session_new(dt_tls_files *files, int fd)
{
    SSL_CTX *ctx = dt_tls_files_take(files);
    SSL *ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    if (ssl && SSL_set_fd(ssl, fd) == 1) {
        SSL_set_accept_state(ssl);
        return ssl;
    }
    SSL_free(ssl);
    ERR_clear_error();
    return NULL;
}

void dt_tls_session_free(dt_tls_session *session)
{
    SSL_free(session);
}

static enum dt_tls_outcome outcome(SSL *ssl, int result)
{
    switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_NONE:
        return DT_TLS_DONE;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return DT_TLS_WAIT;
    case SSL_ERROR_ZERO_RETURN:
        return DT_TLS_END;
    default:
        return DT_TLS_BROKEN;
    }
}

enum dt_tls_outcome dt_tls_session_greet(dt_tls_session *session, const char **why)
{
    ERR_clear_error();
    enum dt_tls_outcome found = outcome(session, SSL_do_handshake(session));
    if (found == DT_TLS_BROKEN || found == DT_TLS_END) {
        const char *reason = ERR_reason_error_string(ERR_peek_error());
        *why = reason ? reason : "the client has left";
        found = DT_TLS_BROKEN;
    }
    ERR_clear_error();
    return found;
}

enum dt_tls_outcome dt_tls_session_read(dt_tls_session *session, char *p, size_t room, size_t *n)
{
    ERR_clear_error();
    enum dt_tls_outcome found = outcome(session, SSL_read_ex(session, p, room, n));
    ERR_clear_error();
    return found;
}

enum dt_tls_outcome dt_tls_session_write(dt_tls_session *session, const char *p, size_t room, size_t *n)
{
    ERR_clear_error();
    enum dt_tls_outcome found = outcome(session, SSL_write_ex(session, p, room, n));
    ERR_clear_error();
    return found;
}

void dt_tls_session_part(dt_tls_session *session)
{
    ERR_clear_error();
    (void)SSL_shutdown(session);
    ERR_clear_error();
}
