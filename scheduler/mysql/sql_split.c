/* See sql_split.h. Pure: knows quotes, comments and delimiters, and nothing else of SQL. */
#include "sql_split.h"

#include <ctype.h>
#include <strings.h>

void dt_sql_split_init(struct dt_sql_split *s, const char *text)
{
    *s = (struct dt_sql_split){.p = text, .delimiter = ";"};
}

static const char *end_of_line(const char *p)
{
    const char *end = strchr(p, '\n');
    return end ? end + 1 : p + strlen(p);
}

static const char *end_of_quoted(const char *p)
{
    char quote = *p++;
    while (*p && *p != quote)
        p += *p == '\\' && quote != '`' && p[1] ? 2 : 1;
    return *p ? p + 1 : p;
}

static const char *end_of_block(const char *p)
{
    const char *end = strstr(p + 2, "*/");
    return end ? end + 2 : p + strlen(p);
}

static bool line_comment(const char *p)
{
    return *p == '#' || (p[0] == '-' && p[1] == '-' && (p[2] == '\0' || isspace((unsigned char)p[2])));
}

/* Behind white space and comments between statements. */
static const char *skip_blank(const char *p)
{
    for (;;) {
        if (isspace((unsigned char)*p))
            p++;
        else if (line_comment(p))
            p = end_of_line(p);
        else if (p[0] == '/' && p[1] == '*' && p[2] != '!')
            p = end_of_block(p);
        else
            return p;
    }
}

static bool take_delimiter(struct dt_sql_split *s)
{
    if (strncasecmp(s->p, "DELIMITER", 9) != 0 || (s->p[9] != ' ' && s->p[9] != '\t'))
        return false;
    const char *word = s->p + 9;
    const char *line = end_of_line(s->p);
    while (*word == ' ' || *word == '\t')
        word++;
    size_t n = 0;
    while (word + n < line && !isspace((unsigned char)word[n]))
        n++;
    if (n > 0 && n < sizeof(s->delimiter)) {
        memcpy(s->delimiter, word, n);
        s->delimiter[n] = '\0';
    }
    s->p = line;
    return true;
}

struct dt_str dt_sql_split_next(struct dt_sql_split *s)
{
    do
        s->p = skip_blank(s->p);
    while (take_delimiter(s));
    if (!*s->p)
        return DT_STR_NONE;
    const char *start = s->p;
    const char *p = start;
    size_t n = strlen(s->delimiter);
    while (*p && strncmp(p, s->delimiter, n) != 0) {
        if (*p == '\'' || *p == '"' || *p == '`')
            p = end_of_quoted(p);
        else if (line_comment(p))
            p = end_of_line(p);
        else if (p[0] == '/' && p[1] == '*')
            p = end_of_block(p);
        else
            p++;
    }
    s->p = *p ? p + n : p;
    return (struct dt_str){start, (size_t)(p - start)};
}
