/*
 * The command line as data: one table of nouns and verbs. The parser (words.h), the help, the man page, the completion
 * scripts and the reference page use the table. Most verbs are a row and no code.
 *
 * A verb with a method and a path is a request: its arguments fill the path; its options become members of the body or
 * of the query. An option has the name of the REST member that it sets, with dashes instead of underscores.
 */
#pragma once

#include <stddef.h>

/* How the value of an option is read. */
enum dt_cli_kind {
    DT_CLI_SWITCH,  /* takes no value; if it is given, it means true */
    DT_CLI_TEXT,    /* any string */
    DT_CLI_SETTING, /* a string, or the word null for the default */
    DT_CLI_NUMBER,  /* a whole number, or the word null */
    DT_CLI_JSON,    /* JSON, or @FILE with JSON in it (@-: standard input) */
    DT_CLI_SECRET,  /* the name of a FILE; the file's text, without surrounding white space, is the string */
    DT_CLI_LIST     /* strings separated by commas; no string: an empty list; or the word null */
};

/* Where the value of an option is used. */
enum dt_cli_place {
    DT_CLI_HERE,   /* the program itself uses the value */
    DT_CLI_BODY,   /* a member of the request's body */
    DT_CLI_FILTER, /* a member of the filter that chooses a set of jobs */
    DT_CLI_SET,    /* a member of the body of a request for a set of jobs */
    DT_CLI_SETS,   /* the program itself uses the value, for a set of jobs */
    DT_CLI_QUERY   /* a query parameter of the request */
};

struct dt_cli_option {
    const char *name;  /* name without the two dashes: "run-at" */
    const char *takes; /* "TIME", or the words to choose from: "kafka|http|pull"; NULL: no value */
    enum dt_cli_kind kind;
    enum dt_cli_place place;
    const char *help; /* help text, a sentence */
};

/* Kind of thing that an answer shows; decides the columns. */
enum dt_cli_thing {
    DT_CLI_NOTHING,
    DT_CLI_JOB,
    DT_CLI_ATTEMPT,
    DT_CLI_DEAD, /* all dead jobs of one topic and error */
    DT_CLI_TOPIC,
    DT_CLI_TRAFFIC, /* a topic with its rates and lateness */
    DT_CLI_SCHEDULE,
    DT_CLI_FIRE,
    DT_CLI_SHARD,
    DT_CLI_PROCESS,
    DT_CLI_OPERATION,
    DT_CLI_ALERT,
    DT_CLI_SPIKE,
    DT_CLI_FACT, /* one fact of an explanation */
    DT_CLI_EVENT,
    DT_CLI_TOKEN,
    DT_CLI_USED,
    DT_CLI_CLOCK,
    DT_CLI_THINGS
};

/* How a verb is carried out. main.c says which function does it. */
enum dt_cli_way {
    DT_CLI_BY_REQUEST, /* sends one request, and shows its answer */
    DT_CLI_BY_SET,     /* reads a resource, changes the members that the options name, and stores it */
    DT_CLI_BY_LIST,    /* shows a list, page by page */
    DT_CLI_BY_FOLLOW,  /* follows an operation until it has ended */
    DT_CLI_BY_DELETE,  /* sends one request; or previews an operation, and follows it */
    DT_CLI_BY_POP,
    DT_CLI_BY_WATCH,
    DT_CLI_BY_EXPORT,
    DT_CLI_BY_IMPORT,
    DT_CLI_BY_DOCTOR,
    DT_CLI_BY_OVERVIEW,
    DT_CLI_BY_FORECAST,
    DT_CLI_BY_TOKEN, /* asks before the first token is created */
    DT_CLI_BY_APPLY,
    DT_CLI_BY_COMPLETION,
    DT_CLI_BY_HELP,
    DT_CLI_BY_VERSION
};

struct dt_cli_verb {
    const char *noun;
    const char *verb;  /* "": the command is the noun alone */
    const char *takes; /* arguments: "ID | TOPIC KEY"; "": none */
    const char *help;  /* help text, a sentence */
    enum dt_cli_way way;
    const char *method, *path; /* request that the verb sends; NULL: the verb's function knows its requests */
    const char *set;           /* path of the request for a set of jobs; NULL: a job must be named */
    const char *list;          /* member of the answer that holds a list; NULL: the answer is no list */
    enum dt_cli_thing thing;
    const struct dt_cli_option *options;
    size_t n_options;
    const char *examples; /* examples, one on each line, without the program's name */
};

/* All verbs; the verbs of one noun are adjacent. */
extern const struct dt_cli_verb dt_cli_verbs[];
extern const size_t dt_cli_n_verbs;
/* The options that all verbs have. */
extern const struct dt_cli_option dt_cli_common[];
extern const size_t dt_cli_n_common;
/* Returns a sentence that describes the noun; never NULL. */
const char *dt_cli_noun_help(const char *noun);
/* Minimal and maximal number of arguments of a verb. An argument ID may be given as two arguments, TOPIC KEY. */
unsigned dt_cli_args_min(const struct dt_cli_verb *verb);
unsigned dt_cli_args_max(const struct dt_cli_verb *verb);

#define DT_CLI_ID_OR_KEY "ID | TOPIC KEY"
