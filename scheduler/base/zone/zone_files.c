/*
 * A list of zones by name, under one lock. There are some six hundred names, each of which has to be a file, so the
 * list is as short as what is in use.
 */
#include "base/zone/zone_files.h"

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

static bool name_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '+' ||
           c == '-' || c == '/';
}

/* A name of tzdata: no dots, so that no path leads out of the folder. */
static bool sane_name(struct dt_str name)
{
    if (name.n == 0 || name.n > DT_ZONE_NAME_MAX || name.p[0] == '/' || name.p[name.n - 1] == '/')
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (!name_letter(name.p[i]))
            return false;
    return true;
}

/* tzdata has files beside its zones: the setting of the host, the rule of POSIX's zones, the zone of a host without a
 * setting, and all zones once more with and without leap seconds. */
static bool is_beside_zones(struct dt_str name)
{
    return dt_str_is(name, "localtime") || dt_str_is(name, "posixrules") || dt_str_is(name, "Factory") ||
           dt_str_begins(name, DT_STR_LIT("posix/")) || dt_str_begins(name, DT_STR_LIT("right/"));
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static dt_status no_zone(struct dt_str name, struct dt_error *err)
{
    return dt_fail(err, DT_INVALID, "the system's tzdata has no time zone '%.*s'",
                   (int)(name.n < DT_ZONE_NAME_MAX ? name.n : DT_ZONE_NAME_MAX), name.p);
}

static dt_status no_zone_itself(struct dt_str name, struct dt_error *err)
{
    return dt_fail(err, DT_INVALID,
                   "'%.*s' is a file of the system's tzdata and no time zone: name one, as Europe/Berlin", (int)name.n,
                   name.p);
}

static dt_status unreadable(const char *path, struct dt_error *err)
{
    return dt_fail(err, DT_UNAVAILABLE, "%s cannot be read: error %d", path, errno);
}

static dt_status read_all(int fd, const char *path, char *bytes, size_t n, struct dt_error *err)
{
    for (size_t have = 0; have < n;) {
        ssize_t got = read(fd, bytes + have, n - have);
        if (got <= 0)
            return unreadable(path, err);
        have += (size_t)got;
    }
    return DT_OK;
}

static dt_status decode(struct dt_str bytes, const char *path, dt_zone **out, struct dt_error *err)
{
    struct dt_error why = {0};
    dt_status status = dt_zone_decode(bytes, out, &why);
    return status == DT_OK ? DT_OK : dt_fail(err, status, "%s: %s", path, why.text);
}

/* Decodes an open file; *seen is its identity. */
static dt_status read_open(int fd, const char *path, struct stat *seen, dt_zone **out, struct dt_error *err)
{
    char *bytes;
    if (fstat(fd, seen) != 0)
        return unreadable(path, err);
    if (!S_ISREG(seen->st_mode) || seen->st_size > FILE_MAX)
        return dt_fail(err, DT_INVALID, "%s is no time zone file", path);
    size_t n = (size_t)seen->st_size;
    bytes = malloc(n + 1);
    if (!bytes)
        return dt_fail(err, DT_NOMEM, "out of memory");
    dt_status status = read_all(fd, path, bytes, n, err);
    if (status == DT_OK)
        status = decode((struct dt_str){bytes, n}, path, out, err);
    free(bytes);
    return status;
}

static dt_status read_file(const char *path, struct stat *seen, dt_zone **out, struct dt_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return unreadable(path, err);
    dt_status status = read_open(fd, path, seen, out, err);
    close(fd);
    return status;
}

static struct entry *find(const dt_zone_files *files, struct dt_str name)
{
    for (struct entry *e = files->entries; e; e = e->next)
        if (dt_str_is(name, e->name))
            return e;
    return NULL;
}

static dt_status add(dt_zone_files *files, struct dt_str name, const struct entry *made, struct dt_error *err)
{
    struct entry *e = malloc(sizeof(*e));
    if (!e)
        return dt_fail(err, DT_NOMEM, "out of memory");
    *e = *made;
    memcpy(e->name, name.p, name.n);
    e->name[name.n] = '\0';
    e->next = files->entries;
    files->entries = e;
    return DT_OK;
}

/* Reads the file, and puts what it says in the place of what was known. */
static dt_status renew(dt_zone_files *files, struct dt_str name, const char *path, struct dt_error *err)
{
    struct entry made = {0};
    struct entry *e = find(files, name);
    dt_status status = read_file(path, &made.seen, &made.zone, err);
    if (status == DT_OK && !e)
        status = add(files, name, &made, err);
    if (status != DT_OK) {
        dt_zone_free(made.zone);
    } else if (e) {
        dt_zone_free(e->zone);
        e->seen = made.seen;
        e->zone = made.zone;
    }
    return status;
}

static dt_status get_locked(dt_zone_files *files, struct dt_str name, dt_zone **out, struct dt_error *err)
{
    char path[PATH_MAX_BYTES];
    struct stat now;
    dt_status status = DT_OK;
    int n = snprintf(path, sizeof(path), "%s/%.*s", files->dir, (int)name.n, name.p);
    if (n < 0 || (size_t)n >= sizeof(path) || (stat(path, &now) != 0 && (errno == ENOENT || errno == ENOTDIR)))
        return no_zone(name, err);
    struct entry *e = find(files, name);
    if (!e || !same_file(&e->seen, &now))
        status = renew(files, name, path, err);
    if (status == DT_OK)
        *out = dt_zone_hold(find(files, name)->zone);
    return status;
}

dt_status dt_zone_files_get(dt_zone_files *files, struct dt_str name, dt_zone **out, struct dt_error *err)
{
    *out = NULL;
    if (dt_str_is(name, "UTC"))
        return DT_OK;
    if (!sane_name(name))
        return no_zone(name, err);
    if (is_beside_zones(name))
        return no_zone_itself(name, err);
    pthread_mutex_lock(&files->lock);
    dt_status status = get_locked(files, name, out, err);
    pthread_mutex_unlock(&files->lock);
    return status;
}
