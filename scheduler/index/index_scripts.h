/*
 * The scripts of lua/, which alone change and read the sets. What a script takes and gives is at the top of its file.
 * The texts are generated at build time (embed.cmake). Internal to index/.
 */
#ifndef DT_INDEX_INDEX_SCRIPTS_H
#define DT_INDEX_INDEX_SCRIPTS_H

extern const char dt_lua_change[], dt_lua_hold[], dt_lua_unhold[], dt_lua_mark[];
extern const char dt_lua_due[], dt_lua_range[], dt_lua_count[], dt_lua_scores[];
extern const char dt_lua_fill[], dt_lua_filled[], dt_lua_tidy[], dt_lua_drop[], dt_lua_probe[];

/* The number of a script for dt_link_script: its place among the texts that dt_index_new gives to dt_link_new. */
enum dt_script {
    DT_SCRIPT_CHANGE,
    DT_SCRIPT_HOLD,
    DT_SCRIPT_UNHOLD,
    DT_SCRIPT_MARK,
    DT_SCRIPT_DUE,
    DT_SCRIPT_RANGE,
    DT_SCRIPT_COUNT,
    DT_SCRIPT_SCORES,
    DT_SCRIPT_FILL,
    DT_SCRIPT_FILLED,
    DT_SCRIPT_TIDY,
    DT_SCRIPT_DROP,
    DT_SCRIPT_PROBE,
    DT_SCRIPTS
};

#endif
