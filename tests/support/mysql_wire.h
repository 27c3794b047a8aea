/* What gets lost between the client library and the server. A test that links this has mysql_wire.c's mysql_real_query
 * and its like before the library's own: the next COMMIT, or the next execution of a statement, can be lost before the
 * server sees it, after it was carried out, or be held back while its session lives on. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

enum wire_loss { LOSE_NOTHING, LOSE_BEFORE, LOSE_AFTER, HOLD };

extern _Atomic enum wire_loss wire_loss;           /* of the next COMMIT */
extern _Atomic enum wire_loss wire_execution_loss; /* of the next execution: LOSE_BEFORE or LOSE_AFTER */
extern _Atomic int wire_statements;                /* that went over the wire, COMMITs too */

/* Nothing is lost any more. */
void wire_heal(void);
/* Is a COMMIT being held? */
bool wire_holds(void);
/* The COMMIT that was held arrives, or never does: its session ends. */
void wire_commit_held(void);
void wire_drop_held(void);
