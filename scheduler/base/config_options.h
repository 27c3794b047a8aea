/*
 * The table of options as data, made from DT_CONFIG_MAP in its order, so that the options of a section are together.
 * Only for the files of the configuration:
 *
 *   config_options.c   the table, the rules for texts, and how options and values are written
 *   config.c           loading: the file, the environment, the checks
 *   config_print.c     the effective values as an INI file, and the reference page
 */
#pragma once

#include "base/text/strbuf.h"
#include "config.h"

enum dt_option_type { DT_OPTION_INT, DT_OPTION_DURATION, DT_OPTION_BOOL, DT_OPTION_TEXT };

struct dt_option {
    const char *section, *key;
    enum dt_option_type type;
    size_t offset; /* offset of the option's member in struct dt_config */
    int64_t def, min, max;
    const char *def_text;
    unsigned flags;
    const char *help;
};

/* The index of each option in the table, then of each constant. */
enum {
#define INT(section, key, def, min, max, flags, help)      DT_OPTION_OF_##section##_##key,
#define DURATION(section, key, def, min, max, flags, help) DT_OPTION_OF_##section##_##key,
#define BOOL(section, key, def, flags, help)               DT_OPTION_OF_##section##_##key,
#define TEXT(section, key, def, flags, help)               DT_OPTION_OF_##section##_##key,
#define CONSTANT(type, section, key, def, min, max)        DT_OPTION_OF_##section##_##key,
    DT_CONFIG_MAP(INT, DURATION, BOOL, TEXT) DT_OPTIONS,
    DT_OPTIONS_LAST = DT_OPTIONS - 1,
    DT_CONFIG_CONSTANTS(CONSTANT) DT_OPTIONS_AND_CONSTANTS,
#undef CONSTANT
#undef INT
#undef DURATION
#undef BOOL
#undef TEXT
/* The number of options that a program reads. */
#ifdef DT_FAIL_POINTS
    DT_OPTIONS_READ = DT_OPTIONS_AND_CONSTANTS
#else
    DT_OPTIONS_READ = DT_OPTIONS
#endif
};
extern const struct dt_option dt_options[DT_OPTIONS_AND_CONSTANTS];

/* Returns the option's member of config: int64_t, bool or char *, by its type. */
void *dt_option_member(const struct dt_config *config, const struct dt_option *option);
bool dt_option_is_secret(const struct dt_option *option);
/* Returns whether a text is valid for a text option. */
bool dt_option_accepts(const struct dt_option *option, const char *text);

/* Append the accepted values ("a whole number from 1 to 65535"), the text of a value in an INI file, or the name of an
 * option in the environment (DUETIME_<SECTION>_<KEY>) with the suffix. */
void dt_option_add_accepted(struct dt_strbuf *out, const struct dt_option *option);
void dt_option_add_value(struct dt_strbuf *out, const struct dt_option *option, int64_t v);
void dt_option_add_env_name(struct dt_strbuf *out, const struct dt_option *option, const char *suffix);
