/* A contract suite on the simulator's servers: the suite's main becomes a fiber of a world in which nothing goes wrong
 * by itself. If a statement is unknown to the engine behind db.h, the program ends. Tests that need such a statement
 * are left out (support/running/suite.c); they run on the real server. */

#include "simulator/world.h"
#include "support/suite.h"

/* The suite's own, renamed by the build, if it has one. */
int suite_main(void);
__attribute__((weak)) int suite_main(void)
{
    return suite_run(NULL, NULL);
}

static int result;

static void *run(void *)
{
    result = suite_main();
    world_stop();
    return NULL;
}

int main(void)
{
    world_begin(1);
    fiber_start(NULL, run, NULL);
    world_run(NEVER - 1);
    return result;
}
