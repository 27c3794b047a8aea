/* The files in the folder of credentials: see credentials.h. (<dirent.h> has a DT_UNKNOWN of its own.) */
#include "base/service/credentials.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"

#define OURS "/duetime_"

void dt_credentials_each(dt_credential_take *take, void *arg)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    struct dt_strbuf pattern = {0};
    glob_t found = {0};
    if (!folder)
        return;
    dt_strbuf_addf(&pattern, "%s" OURS "*", folder);
    if (pattern.p && glob(pattern.p, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            take(arg, found.gl_pathv[i], strrchr(found.gl_pathv[i], '/') + strlen(OURS));
    globfree(&found);
    dt_strbuf_clear(&pattern);
}
