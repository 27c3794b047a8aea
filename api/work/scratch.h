/*
 * One JSON parser a thread, made when first asked for and freed when the thread ends. For the length of a function
 * only: nothing of a request may stay in it (a request changes threads).
 */
#ifndef DT_API_SCRATCH_H
#define DT_API_SCRATCH_H

#include "base/json.h"

/* NULL when memory is out. */
dt_json *dt_scratch_json(void);

#endif
