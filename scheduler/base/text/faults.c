/* Lists of faults: see faults.h. */
#include "faults.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"

void dt_faults_init(struct dt_faults *faults, struct dt_arena *arena)
{
    *faults = (struct dt_faults){.arena = arena};
}

static void add_fault(struct dt_faults *faults, struct dt_str pointer, struct dt_str reason)
{
    if (faults->n >= DT_FAULTS_MAX) {
        faults->n++;
        return;
    }
    const struct dt_str copy = dt_arena_copy(faults->arena, reason);
    bool failed = !copy.p || !pointer.p;
    if (!failed && faults->n == faults->room) { /* doubled from 4 up to DT_FAULTS_MAX */
        const size_t doubled = faults->room == 0 ? 4 : 2 * faults->room;
        const size_t room = doubled < DT_FAULTS_MAX ? doubled : DT_FAULTS_MAX;
        struct dt_fault *v = dt_arena_alloc(faults->arena, room * sizeof(*v));
        if (v && faults->n > 0)
            memcpy(v, faults->v, faults->n * sizeof(*v));
        faults->v = v ? v : faults->v;
        faults->room = v ? room : faults->room;
        failed = !v;
    }
    if (failed) {
        faults->failed = true;
        return;
    }
    dt_assert_cmp(faults->n, <, faults->room);
    faults->v[faults->n++] = (struct dt_fault){.pointer = pointer, .reason = copy};
}

void dt_faults_add(struct dt_faults *faults, const char *pointer, const char *reason)
{
    add_fault(faults, dt_arena_copy(faults->arena, dt_str(pointer)), dt_str(reason));
}

void dt_faults_addf(struct dt_faults *faults, const char *pointer, const char *fmt, ...)
{
    char text[320];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    dt_faults_add(faults, pointer, text);
}

/* The pointer is parent + "/" + name, with "~" as "~0" and "/" as "~1". */
void dt_faults_add_member(struct dt_faults *faults, const char *parent, struct dt_str name, const char *reason)
{
    size_t n = strlen(parent);
    if (faults->n >= DT_FAULTS_MAX) {
        faults->n++;
        return;
    }
    char *p = dt_arena_alloc(faults->arena, n + 2 * name.n + 2);
    if (!p) {
        faults->failed = true;
        return;
    }
    memcpy(p, parent, n);
    p[n++] = '/';
    for (size_t i = 0; i < name.n; i++) {
        bool escape = name.p[i] == '~' || name.p[i] == '/';
        if (escape)
            p[n++] = '~';
        p[n++] = !escape ? name.p[i] : name.p[i] == '~' ? '0' : '1';
    }
    p[n] = '\0';
    add_fault(faults, (struct dt_str){p, n}, dt_str(reason));
}

void dt_faults_add_item(struct dt_faults *faults, const char *parent, size_t index, const char *reason)
{
    char text[24];
    snprintf(text, sizeof(text), "%zu", index);
    dt_faults_add_member(faults, parent, dt_str(text), reason);
}

void dt_faults_add_query(struct dt_faults *faults, struct dt_str name, const char *reason)
{
    char *p = dt_arena_alloc(faults->arena, name.n + 2);
    if (p) {
        p[0] = '?';
        if (name.n > 0)
            memcpy(p + 1, name.p, name.n);
        p[name.n + 1] = '\0';
    }
    add_fault(faults, (struct dt_str){p, p ? name.n + 1 : 0}, dt_str(reason));
}
