/* The text of openapi.yaml, compiled in (embed.cmake). */
#ifndef DT_API_OPENAPI_H
#define DT_API_OPENAPI_H

#include <stddef.h>

extern const unsigned char dt_openapi_yaml[];
extern const size_t dt_openapi_yaml_length;

#endif
