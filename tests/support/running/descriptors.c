/* A program of a suite that ends with more descriptors than it began with has failed: what is made and freed again gives back
 * its sockets, its epoll and its files, which sanitizers do not look at. Linked into suites as an object of its own. */
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOOKED_AT   4096
#define PATIENCE_MS 120000
#define LOOK_MS     10

static bool at_first[LOOKED_AT];

static void list_open(bool open[static LOOKED_AT])
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        long fd = entry->d_name[0] == '.' ? -1 : strtol(entry->d_name, NULL, 10);
        if (fd >= 0 && fd < LOOKED_AT && fd != dirfd(dir))
            open[fd] = true;
    }
    if (dir)
        closedir(dir);
}

static const char *name_of(int fd)
{
    static char name[PATH_MAX];
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, name, sizeof(name) - 1);
    name[n > 0 ? n : 0] = '\0';
    return name;
}

/* The first that is open and was not; -1: none is. */
static int one_left(void)
{
    bool at_last[LOOKED_AT] = {false};
    list_open(at_last);
    for (int fd = 0; fd < LOOKED_AT; fd++)
        if (at_last[fd] && !at_first[fd])
            return fd;
    return -1;
}

/* A thread of its own may still be about to close its own. */
__attribute__((destructor)) static void compare(void)
{
    int fd = one_left();
    for (int i = 0; fd >= 0 && i < PATIENCE_MS / LOOK_MS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
        fd = one_left();
    }
    if (fd < 0)
        return;
    fprintf(stderr, "descriptor %d was not given back: %s\n", fd, name_of(fd));
    _exit(1);
}

__attribute__((constructor)) static void begin(void)
{
    list_open(at_first);
}
