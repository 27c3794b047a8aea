/* The text of openapi.yaml, compiled into the program (embed.cmake). */
#pragma once

#include <stddef.h>

extern const unsigned char dt_openapi_yaml[];
extern const size_t dt_openapi_yaml_length;
