/* Preloaded into one program: a name that ends with .slow.test is looked up for 20 s and not found, as by a name server that
 * does not answer; one that ends with .fast.test is 127.0.0.1 at once. The C library looks up all other names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define LOOKUP_S 20 /* the C library's default: two tries of five seconds, each for two servers */

static bool ends_with(const char *name, const char *end)
{
    size_t n = name ? strlen(name) : 0;
    size_t m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

int getaddrinfo(const char *restrict name, const char *restrict service, const struct addrinfo *restrict hints,
                struct addrinfo **restrict out)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (ends_with(name, ".slow.test")) {
        sleep(LOOKUP_S);
        return EAI_AGAIN;
    }
    return real(ends_with(name, ".fast.test") ? "127.0.0.1" : name, service, hints, out);
}
