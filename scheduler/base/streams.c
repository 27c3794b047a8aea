/* See streams.h. */
#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
        first = errno ? errno : EIO; /* of this flush, or of the write before it that failed */
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
