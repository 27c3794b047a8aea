/*
 * Configuration, described once: DT_CONFIG_MAP in config_table.h names every option with its type, bounds, default and
 * help; the parser, the environment names, --print-config, the sample file and the reference page come from it.
 * DT_CONFIG_CONSTANTS are members without an option. Order: default < file < credentials < environment
 * (DUETIME_<SECTION>_<KEY>). A text option marked `secret` can also be given as <key>_file, or as the file
 * duetime_<section>.<key> in CREDENTIALS_DIRECTORY (LoadCredential= of systemd), and where it is set it is printed as
 * the comment "# key = ***". The text in struct dt_config is the secret as it was when the program started; whoever
 * connects asks dt_secret_now (base/secrets.h). Settings of librdkafka are [kafka] client.<name>, or
 * DUETIME_KAFKA_CLIENT_<NAME> with _ for each dot; each may be given as client.<name>_file.
 *
 * Texts that an INI file would garble stand in "quotes" with the escapes \\ \" \xHH. A line has at most 198 bytes; a
 * text goes on in indented lines after a comma or inside quotes.
 */
#ifndef DT_BASE_CONFIG_H
#define DT_BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config_table.h"
#include "status.h"

/* One member an option, named <section>_<key>: int64_t for INT, SIZE and DURATION (ms), bool for BOOL, char * for TEXT.
 */
struct dt_secrets;
struct dt_properties;

struct dt_config {
    /* How secrets are now: base/secrets.h; shared by copies, NULL where nothing was loaded. */
    struct dt_secrets *secrets;
    struct dt_properties *kafka_client; /* [kafka] client.<name>: base/secrets.h; as secrets */
#define INT(section, key, def, min, max, flags, help)      int64_t section##_##key;
#define DURATION(section, key, def, min, max, flags, help) int64_t section##_##key;
#define BOOL(section, key, def, flags, help)               bool section##_##key;
#define TEXT(section, key, def, flags, help)               char *section##_##key;
#define CONSTANT(type, section, key, def, min, max)        int64_t section##_##key;
    DT_CONFIG_MAP(INT, DURATION, BOOL, TEXT)
    DT_CONFIG_CONSTANTS(CONSTANT)
#undef CONSTANT
#undef INT
#undef DURATION
#undef BOOL
#undef TEXT
};

/*
 * Reads defaults, then the file (NULL = none), credentials, the environment. On failure (INVALID, or UNAVAILABLE for a
 * file that cannot be read) err names file, line, section and key and the accepted range; config is cleared.
 */
DT_MUST_CHECK dt_status dt_config_load(struct dt_config *config, const char *file, struct dt_error *err);
void dt_config_clear(struct dt_config *config);
/* The effective values as an INI file that can be read back (secrets hidden). */
void dt_config_print(const struct dt_config *config, FILE *out);
/* The reference page (Markdown), made from the table. */
void dt_config_reference(FILE *out);
/* A file to begin with: every option, its help and its default as comments; the other servers than MySQL left out. */
void dt_config_sample(FILE *out);

/* Whether there is a Kafka. An installation can do without; nothing waits for it then, and that is no outage. */
static inline bool dt_config_has_kafka(const struct dt_config *config)
{
    return config->kafka_brokers && config->kafka_brokers[0];
}

#endif
