/*
 * One JSON parser a thread, made when first asked for and freed when the thread ends. It is borrowed for the length of
 * a function: nothing of a request may stay in it, because a request changes threads.
 */
#ifndef DT_API_SCRATCH_H
#define DT_API_SCRATCH_H

#include "base/text/json.h"

/* The parser of the calling thread. NULL: memory is out. */
dt_json *dt_scratch_json(void);

#endif
