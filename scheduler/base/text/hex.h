/* Reads hexadecimal digits. Pure. */
#ifndef DT_BASE_HEX_H
#define DT_BASE_HEX_H

/* The value of a hexadecimal digit in either case; -1: the character is none. */
static inline int dt_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

#endif
