/* The scripts of lua/, which alone change and read the sets; what they take and give is at the top of each. Internal.
 */
#ifndef DT_INDEX_INDEX_SCRIPTS_H
#define DT_INDEX_INDEX_SCRIPTS_H

extern const char dt_lua_change[], dt_lua_hold[], dt_lua_unhold[], dt_lua_mark[];
extern const char dt_lua_due[], dt_lua_range[], dt_lua_count[], dt_lua_scores[];
extern const char dt_lua_fill[], dt_lua_filled[], dt_lua_tidy[], dt_lua_drop[], dt_lua_probe[];

#endif
