/* STUB(dt_status, dt_store_ping, (dt_store *store, struct dt_error *err), DT_OK) defines a function that ignores its
 * parameters and returns the value. Of a void function the value is empty. */
#pragma once

#define STUB(type, name, params, value)                                                                                \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wunused-parameter\"") type name params           \
    {                                                                                                                  \
        return value;                                                                                                  \
    }                                                                                                                  \
    _Pragma("GCC diagnostic pop")
