/* See service.h. A message to the service manager is one datagram of lines NAME=value. */
#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "thread.h"

#define EXTENSION_US INT64_C(30000000) /* each message extends the start timeout of the manager by this time */
#define MESSAGE_MAX  256

/* Returns the number, or 0 if the text is not a positive number. */
static int64_t positive_number(const char *text)
{
    char *end = NULL;
    errno = 0;
    long long number = text ? strtoll(text, &end, 10) : 0;
    return errno == 0 && end && end != text && *end == '\0' && number > 0 ? number : 0;
}

/* Connects to the manager's socket at a path or, if the name begins with '@', to an abstract socket of the kernel.
 * Returns -1 if this fails. */
static int connect_to_manager(const char *name)
{
    const struct timeval patience = {1, 0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t n = name ? strlen(name) : 0;
    if (n < 2 || n >= sizeof(address.sun_path) || (name[0] != '/' && name[0] != '@'))
        return -1;
    memcpy(address.sun_path, name, n);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
                    connect(fd, (const struct sockaddr *)&address,
                            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

void dt_service_open(struct dt_service *service)
{
    /* Child processes inherit NOTIFY_SOCKET and WATCHDOG_USEC. WATCHDOG_PID says which process must send
     * keep-alives. */
    const char *pid = getenv("WATCHDOG_PID");
    const bool expected = !pid || positive_number(pid) == getpid();
    service->fd = connect_to_manager(getenv("NOTIFY_SOCKET"));
    int64_t limit_us = service->fd >= 0 && expected ? positive_number(getenv("WATCHDOG_USEC")) : 0;
    service->ready = false;
    service->pause_us = limit_us > 1 ? limit_us / 2 : INT64_MAX;
}

void dt_service_close(struct dt_service *service)
{
    if (service->fd >= 0)
        close(service->fd);
    service->fd = -1;
}

bool dt_service_heard(const struct dt_service *service)
{
    return service->fd >= 0;
}

int64_t dt_service_pause_us(const struct dt_service *service)
{
    return service->pause_us;
}

void dt_service_tell(const struct dt_service *service, const char *message)
{
    if (service->fd >= 0 && send(service->fd, message, strlen(message), MSG_NOSIGNAL) < 0)
        return; /* without a message, the manager's own timeout applies */
}

void dt_service_waits(const struct dt_service *service, const char *what)
{
    char message[MESSAGE_MAX];
    snprintf(message, sizeof(message), "STATUS=%s\nEXTEND_TIMEOUT_USEC=%" PRId64, what, EXTENSION_US);
    dt_service_tell(service, message);
}

#define SERVES "READY=1\nSTATUS=serves\nWATCHDOG=1"

void dt_service_ready(struct dt_service *service)
{
    service->ready = true;
    dt_service_tell(service, SERVES);
}

void dt_service_reloading(const struct dt_service *service, int64_t mono_us)
{
    char message[MESSAGE_MAX];
    if (!service->ready)
        return;
    snprintf(message, sizeof(message), "RELOADING=1\nMONOTONIC_USEC=%" PRId64, mono_us);
    dt_service_tell(service, message);
}

void dt_service_reloaded(const struct dt_service *service)
{
    if (service->ready)
        dt_service_tell(service, SERVES);
}

/* Exits the process after a time. When client libraries are destroyed, they join threads of their own, and some wait
 * without limit for a server that does not answer. We cannot limit this wait, so a separate thread ends the process. */
static void exit_later(void *arg)
{
    struct timespec left = {.tv_sec = (time_t)(uintptr_t)arg};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    DT_LOG(WARN, "main", "exits now: a server that does not answer delays the shutdown",
           DT_I("seconds", (int64_t)(uintptr_t)arg));
    _exit(EXIT_SUCCESS);
}

void dt_stop_bound(unsigned seconds)
{
    if (!dt_thread_start_detached(exit_later, (void *)(uintptr_t)seconds))
        DT_LOG(WARN, "main", "the thread that limits the time of the shutdown could not be started");
}

void dt_streams_occupy(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            _exit(1);
}

int dt_streams_flush(void)
{
    static int first;
    if ((fflush(stdout) != 0 || ferror(stdout)) && first == 0)
        first = errno ? errno : EIO; /* the error of this flush, or of an earlier write */
    return first;
}

int dt_streams_end(const char *program, int code)
{
    int error = dt_streams_flush();
    if (error == 0)
        return code;
    fprintf(stderr, "%s: standard output cannot be written: %s\n", program, strerror(error));
    return code ? code : 1;
}
