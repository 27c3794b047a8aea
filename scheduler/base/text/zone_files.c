/*
 * A list of zones by name, under one lock. There are some six hundred names, each of which has to be a file, so the
 * list is as short as what is in use.
 */
#include "zone_files.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX       ((off_t)1 << 20)
#define PATH_MAX_BYTES 512

/* The name of a known zone, its file's identity, and itself. */
struct entry {
    struct entry *next;
    char name[DT_ZONE_NAME_MAX + 1];
    struct stat seen;
    dt_zone *zone;
};

struct dt_zone_files {
    const char *dir;
    pthread_mutex_t lock;
    struct entry *entries;
};

dt_status dt_zone_files_new(const char *dir, dt_zone_files **out)
{
    dt_zone_files *files = calloc(1, sizeof(*files));
    *out = files;
    if (!files)
        return DT_NOMEM;
    files->dir = dir ? dir : DT_ZONE_DIR;
    pthread_mutex_init(&files->lock, NULL);
    return DT_OK;
}

void dt_zone_files_free(dt_zone_files *files)
{
    if (!files)
        return;
    for (struct entry *e = files->entries, *next; e; e = next) {
        next = e->next;
        dt_zone_free(e->zone);
        free(e);
    }
    pthread_mutex_destroy(&files->lock);
    free(files);
}

static dt_status no_zone(struct dt_str name, struct dt_error *err)
{
    return dt_fail(err, DT_INVALID, "the system's tzdata has no time zone '%.*s'",
                   (int)(name.n < DT_ZONE_NAME_MAX ? name.n : DT_ZONE_NAME_MAX), name.p);
}

static dt_status unreadable(const char *path, struct dt_error *err)
{
    return dt_fail(err, DT_UNAVAILABLE, "%s cannot be read: error %d", path, errno);
}

/* Reads and decodes a file; *seen is its identity. */
static dt_status read_file(const char *path, struct stat *seen, dt_zone **out, struct dt_error *err)
{
    struct dt_error why = {0};
    dt_status status = DT_OK;
    char *bytes = NULL;
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return unreadable(path, err);
    if (fstat(fd, seen) != 0)
        status = unreadable(path, err);
    else if (!S_ISREG(seen->st_mode) || seen->st_size > FILE_MAX)
        status = dt_fail(err, DT_INVALID, "%s is no time zone file", path);
    else if (!(bytes = malloc((size_t)seen->st_size + 1)))
        status = dt_fail(err, DT_NOMEM, "out of memory");
    while (status == DT_OK && n < (size_t)seen->st_size) {
        ssize_t got = read(fd, bytes + n, (size_t)seen->st_size - n);
        if (got <= 0)
            status = unreadable(path, err);
        else
            n += (size_t)got;
    }
    if (status == DT_OK && (status = dt_zone_decode((struct dt_str){bytes, n}, out, &why)) != DT_OK)
        status = dt_fail(err, status, "%s: %s", path, why.text);
    free(bytes);
    close(fd);
    return status;
}

/* Under the lock. Reads the file again if it has become another one. */
static dt_status get(dt_zone_files *files, struct dt_str name, dt_zone **out, struct dt_error *err)
{
    char path[PATH_MAX_BYTES];
    struct stat now;
    struct entry made = {0};
    dt_status status = DT_OK;
    int n = snprintf(path, sizeof(path), "%s/%.*s", files->dir, (int)name.n, name.p);
    if (n < 0 || (size_t)n >= sizeof(path) || (stat(path, &now) != 0 && (errno == ENOENT || errno == ENOTDIR)))
        return no_zone(name, err);
    struct entry *e = files->entries;
    while (e && !dt_str_is(name, e->name))
        e = e->next;
    const struct stat *was = e ? &e->seen : NULL;
    if (!was || was->st_dev != now.st_dev || was->st_ino != now.st_ino || was->st_size != now.st_size ||
        was->st_mtim.tv_sec != now.st_mtim.tv_sec || was->st_mtim.tv_nsec != now.st_mtim.tv_nsec)
        status = read_file(path, &made.seen, &made.zone, err);
    else
        made = *e;
    if (status != DT_OK)
        return status;
    if (!e) {
        if (!(e = malloc(sizeof(*e)))) {
            dt_zone_free(made.zone);
            return dt_fail(err, DT_NOMEM, "out of memory");
        }
        *e = (struct entry){.next = files->entries};
        memcpy(e->name, name.p, name.n);
        files->entries = e;
    }
    if (e->zone != made.zone)
        dt_zone_free(e->zone);
    e->zone = made.zone;
    e->seen = made.seen;
    *out = dt_zone_hold(e->zone);
    return DT_OK;
}

dt_status dt_zone_files_get(dt_zone_files *files, struct dt_str name, dt_zone **out, struct dt_error *err)
{
    *out = NULL;
    if (dt_str_is(name, "UTC"))
        return DT_OK;
    /* A name of tzdata: no dots, so that no path leads out of the folder. */
    bool sane = name.n > 0 && name.n <= DT_ZONE_NAME_MAX && name.p[0] != '/' && name.p[name.n - 1] != '/';
    for (size_t i = 0; i < name.n && sane; i++)
        sane = isalnum((unsigned char)name.p[i]) || (name.p[i] && strchr("_+-/", name.p[i]));
    if (!sane)
        return no_zone(name, err);
    /* tzdata has files beside its zones: the setting of the host, the rule of POSIX's zones, the zone of a host without
     * a setting, and all zones once more with and without leap seconds. */
    if (dt_str_is(name, "localtime") || dt_str_is(name, "posixrules") || dt_str_is(name, "Factory") ||
        dt_str_begins(name, DT_STR_LIT("posix/")) || dt_str_begins(name, DT_STR_LIT("right/")))
        return dt_fail(err, DT_INVALID,
                       "'%.*s' is a file of the system's tzdata and no time zone: name one, as Europe/Berlin",
                       (int)name.n, name.p);
    pthread_mutex_lock(&files->lock);
    dt_status status = get(files, name, out, err);
    pthread_mutex_unlock(&files->lock);
    return status;
}
