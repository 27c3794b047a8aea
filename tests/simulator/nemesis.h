/* Strikes at random times with the faults that no request brings about by itself. */
#pragma once

#include "simulator/world.h"

void nemesis_begin(int64_t heal_us);
/* A leader has asked for its shard's ledger to be trimmed. */
void nemesis_while_trimming(unsigned shard);
