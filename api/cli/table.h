/*
 * The command line as data: one table of nouns and verbs. Parsing (words.h), help, man page, completion and the
 * reference page use it. Most verbs are a row and no code.
 *
 * A verb with a method and a path is a request: its arguments fill the path, its options become members of the body or
 * of the query. An option is named as the REST member it sets, with dashes.
 */
#pragma once

#include <stddef.h>

/* How an option's value is read. */
enum dt_cli_kind {
    DT_CLI_SWITCH,  /* takes no value: true */
    DT_CLI_TEXT,    /* any string */
    DT_CLI_SETTING, /* a string, or the word null: the default */
    DT_CLI_NUMBER,  /* a whole number, or the word null */
    DT_CLI_JSON,    /* JSON, or @FILE that holds it (@-: standard input) */
    DT_CLI_SECRET,  /* FILE: its text, without white space around it, as a string */
    DT_CLI_LIST     /* strings between commas; none: the empty list; or the word null */
};

/* Where an option's value is sent. */
enum dt_cli_place {
    DT_CLI_HERE,   /* the program itself reads it */
    DT_CLI_BODY,   /* a member of the request's body */
    DT_CLI_FILTER, /* a member of the filter that chooses a set of jobs */
    DT_CLI_SET,    /* a member of the body of a request for a set */
    DT_CLI_SETS,   /* the program itself reads it, for a set */
    DT_CLI_QUERY   /* a parameter of the request */
};

struct dt_cli_option {
    const char *name;  /* "run-at" */
    const char *takes; /* "TIME", or words to choose from: "kafka|http|pull"; NULL: a switch */
    enum dt_cli_kind kind;
    enum dt_cli_place place;
    const char *help; /* help text, a sentence */
};

/* The kind of an answer, which decides how it is shown. */
enum dt_cli_thing {
    DT_CLI_NOTHING,
    DT_CLI_JOB,
    DT_CLI_ATTEMPT,
    DT_CLI_DEAD, /* dead jobs of one topic and error */
    DT_CLI_TOPIC,
    DT_CLI_TRAFFIC, /* a topic by what happens in it */
    DT_CLI_SCHEDULE,
    DT_CLI_FIRE,
    DT_CLI_SHARD,
    DT_CLI_OPERATION,
    DT_CLI_ALERT,
    DT_CLI_SPIKE,
    DT_CLI_FACT, /* part of an explanation */
    DT_CLI_EVENT,
    DT_CLI_TOKEN,
    DT_CLI_USED,
    DT_CLI_CLOCK,
    DT_CLI_THINGS
};

/* How a verb is carried out: main.c has the function of each. */
enum dt_cli_way {
    DT_CLI_BY_REQUEST, /* one request, and its answer shown */
    DT_CLI_BY_SET,     /* the current document, changed by the options, stored again */
    DT_CLI_BY_LIST,    /* a list, page by page */
    DT_CLI_BY_FOLLOW,  /* an operation, until it has ended */
    DT_CLI_BY_DELETE,  /* one request, or an operation that is previewed and followed */
    DT_CLI_BY_POP,
    DT_CLI_BY_WATCH,
    DT_CLI_BY_EXPORT,
    DT_CLI_BY_IMPORT,
    DT_CLI_BY_DOCTOR,
    DT_CLI_BY_OVERVIEW,
    DT_CLI_BY_FORECAST,
    DT_CLI_BY_COMPLETION,
    DT_CLI_BY_HELP,
    DT_CLI_BY_VERSION
};

struct dt_cli_verb {
    const char *noun;
    const char *verb;  /* "": the noun alone is a command */
    const char *takes; /* its arguments: "ID | TOPIC KEY"; "": none */
    const char *help;  /* help text, a sentence */
    enum dt_cli_way way;
    const char *method, *path; /* of the request that the verb makes; NULL: its function makes the requests */
    const char *set;           /* path of the request for a set, used if no job is named; NULL: a job must be named */
    const char *list;          /* the member of the answer that holds a list; NULL: the answer is one thing */
    enum dt_cli_thing thing;
    const struct dt_cli_option *options;
    size_t n_options;
    const char *examples; /* one a line, without the program's name */
};

/* All verbs; those of one noun are adjacent. */
extern const struct dt_cli_verb dt_cli_verbs[];
extern const size_t dt_cli_n_verbs;
/* The options that every verb takes. */
extern const struct dt_cli_option dt_cli_common[];
extern const size_t dt_cli_n_common;
/* A sentence about a noun, never NULL. */
const char *dt_cli_noun_help(const char *noun);
/* How many arguments a verb takes; an ID may be given as TOPIC KEY. */
unsigned dt_cli_args_min(const struct dt_cli_verb *verb);
unsigned dt_cli_args_max(const struct dt_cli_verb *verb);

#define DT_CLI_ID_OR_KEY "ID | TOPIC KEY"
