/*
 * uthash, which does not end the process here if memory is out: an element that could not be added has no table (hh.tbl
 * is NULL), and still belongs to its caller. All files include uthash by this header.
 */
#ifndef DT_BASE_HASH_H
#define DT_BASE_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif
