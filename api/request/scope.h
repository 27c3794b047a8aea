/*
 * Scopes, as sets of bits: those that a token has, and those that a route of the API needs (routes.c). A caller may
 * take the route if its token has all bits of the route's set. Pure.
 */
#ifndef DT_API_SCOPE_H
#define DT_API_SCOPE_H

enum dt_scope {
    DT_SCOPE_NONE = 0, /* no token needed */
    DT_SCOPE_WRITE = 1,
    DT_SCOPE_REPORT = 2,
    DT_SCOPE_READ = 4,
    DT_SCOPE_ADMIN = 8, /* has the others in it */
    /* The whole installation. It stands in no token's text; a token that is bound to topics lacks it. */
    DT_SCOPE_ALL_TOPICS = 16,
    /* Given to whoever has one of the two, for a route whose handler looks further. It stands in no token's text. */
    DT_SCOPE_WRITE_OR_REPORT = 32,
    /* Given to whoever has any of the four. It stands in no token's text. */
    DT_SCOPE_ANY = 64,
    DT_SCOPE_ADMIN_ALL = DT_SCOPE_ADMIN | DT_SCOPE_ALL_TOPICS
};

#endif
