/*
 * uthash, set up not to end the process if memory runs out. If an element cannot be added, its hh.tbl is NULL and it
 * still belongs to the caller. All files include uthash through this header.
 */
#pragma once

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
