/* The order of job ids, for qsort and bsearch over arrays of int64_t. */
#ifndef DT_JOB_JOB_ID_H
#define DT_JOB_JOB_ID_H

#include <stdint.h>

static inline int dt_by_job_id(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return (*x > *y) - (*x < *y);
}

#endif
