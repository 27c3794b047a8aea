/* The server behind db.h in the simulator: what the nemesis and the oracles do with it. */
#pragma once

#include "simulator/sql/sql.h"

void mysql_begin(void); /* a new world: empty tables, one installation of `shards` shards */
void mysql_install(unsigned shards);
/* Killed: everybody's session is gone; it answers again at that time. */
void mysql_restart(int64_t until_us);
void mysql_copy(void); /* keeps a copy of what is committed now */
bool mysql_has_copy(void);
void mysql_restore(void);
extern int64_t mysql_restored_us; /* when the copy came back; 0 = it did not */
/* Replies to that process are lost until then; what it asks for is done. */
void mysql_cut_replies(struct proc *proc, int64_t until_us);
void mysql_process_died(struct proc *proc);
/* A session of nobody's that runs plain SQL, atomically: hand edits. Rows that are locked are waited for. */
dt_status mysql_by_hand(const char *sql, struct dt_params params);
/* A cell of the row that is read, whatever its type. */
const struct val *mysql_cell(const dt_db *db, unsigned column);
unsigned mysql_columns(const dt_db *db);
/* Locks a job's row for so long. */
void mysql_hold_row(int64_t job_id, int64_t us);
