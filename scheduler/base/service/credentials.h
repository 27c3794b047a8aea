/*
 * Credentials: secrets that the service manager puts into files which only the program can read. Ours are named
 * duetime_<section>.<key> in the folder that CREDENTIALS_DIRECTORY names: systemd makes such names of the files in a
 * folder (LoadCredential=duetime:FOLDER).
 */
#ifndef DT_BASE_CREDENTIALS_H
#define DT_BASE_CREDENTIALS_H

/* path: of the file; name: <section>.<key>. Both live during the call. */
typedef void dt_credential_take(void *arg, const char *path, const char *name);

/* Calls `take` for each file of ours, in the order of their names; for none where there is no folder. */
void dt_credentials_each(dt_credential_take *take, void *arg);

#endif
