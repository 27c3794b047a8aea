/* What must hold once everything has healed and come to rest: O1 to O7 of the fault catalogue, and the answers that
 * were given. Judged from the journal, the committed rows, the committed records and the sets alone. */
#pragma once

#include "base/config.h"

/* Is there nothing left to do? A reason when not. NULL: quiet. */
const char *oracles_unrest(const struct dt_config *config);
/* The ledger was trimmed or made anew, or MySQL came back from an earlier copy. */
extern bool history_lost;
/* How many jobs were found in history, over all worlds. */
extern uint64_t history_kept;
void oracles_judge(void);
/* A world begins: what is judged while it runs. */
void oracles_begin(void);
/* A callback is put on the wire. */
void oracles_called(int64_t job, int64_t attempt);
/* A transaction was committed. By hand: nobody's claims. */
void oracles_committed(bool by_hand);
