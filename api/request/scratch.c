/* A parser a thread: see scratch.h. */
#include "scratch.h"

#include <pthread.h>

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool usable;

static void free_json(void *json)
{
    dt_json_free(json);
}

static void make_key(void)
{
    usable = pthread_key_create(&key, free_json) == 0;
}

dt_json *dt_scratch_json(void)
{
    pthread_once(&once, make_key);
    if (!usable)
        return NULL;
    dt_json *json = pthread_getspecific(key);
    if (json)
        return json;
    if (dt_json_new(&json) != DT_OK)
        return NULL;
    if (pthread_setspecific(key, json) != 0) {
        dt_json_free(json);
        return NULL;
    }
    return json;
}
