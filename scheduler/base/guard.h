/*
 * Guards: conditions of the dispatch protocol, by name. A build can omit a guard (-DDT_WITHOUT_<NAME>=1), to test that
 * the checks notice its absence. In an ordinary build a guard is only its condition.
 *
 *   DT_GUARD(EPOCH, row.epoch == fence->epoch)     the condition; true if the guard is omitted
 *   DT_GUARD_SQL(CLAIM, " AND j.state = …", "")    a statement's text; the second text if the guard is omitted
 *   DT_UNGUARDED(CLAIM)                            true if the guard is omitted
 */
#pragma once

#define DT_GUARD(name, condition)         DT_GUARD_PICK(DT_WITHOUT_##name, 1, (condition))
#define DT_GUARD_SQL(name, text, without) DT_GUARD_PICK(DT_WITHOUT_##name, without, text)
#define DT_UNGUARDED(name)                DT_GUARD_PICK(DT_WITHOUT_##name, 1, 0)

/* Expands to the second of three arguments if `value` is 1, else to the third. */
#define DT_GUARD_ARG_1                       0,
#define DT_GUARD_PICK(value, without, with)  DT_GUARD_PICK_(value, without, with)
#define DT_GUARD_PICK_(value, without, with) DT_GUARD_PICK__(DT_GUARD_ARG_##value, without, with)
#define DT_GUARD_PICK__(junk, without, with) DT_GUARD_SECOND(junk without, with, 0)
#define DT_GUARD_SECOND(first, second, ...)  second
