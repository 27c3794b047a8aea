# Writes OUT, a C file with the bytes of FILE: dt_openapi_yaml and its length.
cmake_policy(VERSION 3.25)
file(READ ${FILE} bytes HEX)
# 16 bytes a line.
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "/* Generated from openapi.yaml by embed.cmake. */\n#include \"openapi.h\"\n\n"
  "const unsigned char dt_openapi_yaml[] = {\n${bytes}0};\n"
  "const size_t dt_openapi_yaml_length = sizeof(dt_openapi_yaml) - 1;\n")
