/* The calls for memory and of the database that suites, and the programs nth_*, let fail where they say. The linker
 * wraps them (tests/CMakeLists.txt). Both are lists: X(type, name, parameters, arguments), X(name, what, parameters,
 * arguments). */
#pragma once

#include "mysql/db.h"
#include "store/store.h"

#define CALLS_FOR_MEMORY(X)                                                                                            \
    X(void *, malloc, (size_t size), (size))                                                                           \
    X(void *, calloc, (size_t n, size_t size), (n, size))                                                              \
    X(void *, realloc, (void *old, size_t size), (old, size))                                                          \
    X(void *, reallocarray, (void *old, size_t n, size_t size), (old, n, size))                                        \
    X(char *, strdup, (const char *text), (text))                                                                      \
    X(char *, strndup, (const char *text, size_t n), (text, n))

#define CALLS_OF_THE_DATABASE(X)                                                                                       \
    X(dt_db_run, sql,                                                                                                  \
      (dt_db * db, const char *sql, struct dt_params params, uint64_t *affected, struct dt_error *error),              \
      (db, sql, params, affected, error))                                                                              \
    X(dt_db_run_many, sql,                                                                                             \
      (dt_db * db, const char *sql, struct dt_param_rows rows, uint64_t *affected, struct dt_error *error),            \
      (db, sql, rows, affected, error))                                                                                \
    X(dt_db_query, sql, (dt_db * db, const char *sql, struct dt_params params, struct dt_error *error),                \
      (db, sql, params, error))                                                                                        \
    X(dt_db_query_stream, sql, (dt_db * db, const char *sql, struct dt_params params, struct dt_error *error),         \
      (db, sql, params, error))                                                                                        \
    X(dt_db_query_index, sql, (dt_db * db, const char *sql, struct dt_params params, struct dt_error *error),          \
      (db, sql, params, error))                                                                                        \
    X(dt_db_begin_at, "begin", (dt_db * db, int64_t * now_ms, struct dt_error * error), (db, now_ms, error))           \
    X(dt_db_commit, "commit", (dt_db * db, struct dt_error * error), (db, error))                                      \
    X(dt_db_commit_with, sql, (dt_db * db, const char *sql, struct dt_param_rows rows, struct dt_error *error),        \
      (db, sql, rows, error))                                                                                          \
    X(dt_store_db, "a connection", (dt_store * of, dt_db * *out, struct dt_error * error), (of, out, error))
