/* uthash, configured so that the process does not end if memory runs out. If an element cannot be added, its hh.tbl is
 * NULL and the caller still owns the element. All files include uthash through this header. */
#pragma once

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
