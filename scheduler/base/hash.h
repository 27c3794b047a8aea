/*
 * uthash, told not to end the process when memory is out: an element that could not be added has no table (hh.tbl is
 * NULL), and belongs to whoever tried. Files of the library and of the dispatcher include
 * uthash by this header alone.
 */
#ifndef DT_HASH_H
#define DT_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif
