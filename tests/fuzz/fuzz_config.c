/* A configuration file: refused with a text that says where, or taken; what is taken prints as a file that is taken
 * again, and prints the same. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/config.h"
#include "fuzz.h"

static void write_all(int fd, const char *p, size_t n)
{
    MUST(ftruncate(fd, 0) == 0);
    for (size_t done = 0; done < n;) {
        ssize_t some = pwrite(fd, p + done, n - done, (off_t)done);
        MUST(some > 0);
        done += (size_t)some;
    }
}

static char *print(const struct dt_config *config, size_t *n)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, n);
    MUST(out);
    dt_config_print(config, out);
    MUST(fclose(out) == 0);
    return text;
}

/* A secret that is set is a comment; one that is not is an empty line of its key. */
static bool is_of_a_secret(const char *line)
{
    static const char *const keys[] = {"password = \n", "sentinel_password = \n", "auth = \n", "secret = \n"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strncmp(line, keys[i], strlen(keys[i])) == 0)
            return true;
    return line[0] == '#';
}

/* Without the lines of secrets, which are not printed, and not read back. */
static void drop_secrets(char *text, size_t *n)
{
    char *to = text;
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        size_t length = end ? (size_t)(end - line) + 1 : strlen(line);
        if (!is_of_a_secret(line)) {
            memmove(to, line, length);
            to += length;
        }
        line += length;
    }
    *n = (size_t)(to - text);
}

static void check_printed(const struct dt_config *config, int fd, const char *path)
{
    struct dt_config again;
    struct dt_error err = {0};
    size_t n = 0, m = 0;
    char *text = print(config, &n);
    write_all(fd, text, n);
    if (dt_config_load(&again, path, &err) != DT_OK) {
        fprintf(stderr, "%s\n%s\n", err.text, text);
        abort(); /* what was printed can be read */
    }
    char *second = print(&again, &m);
    drop_secrets(text, &n);
    drop_secrets(second, &m);
    MUST(n == m && memcmp(text, second, n) == 0);
    free(text);
    free(second);
    dt_config_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static int fd = -1;
    static char path[64];
    struct dt_config config;
    struct dt_error err = {0};
    if (fd < 0) {
        fd = memfd_create("config", 0);
        MUST(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (memmem(data, n, "_file", 5)) /* names a file to read: the fuzzer must not wander about */
        return 0;
    write_all(fd, (const char *)data, n);
    if (dt_config_load(&config, path, &err) == DT_OK) {
        check_printed(&config, fd, path);
        dt_config_clear(&config);
    } else
        MUST(err.text[0]);
    return 0;
}
