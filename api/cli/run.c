/* Which function carries out what the table names. */
#include "run.h"

dt_cli_run *dt_cli_run_of(const struct dt_cli_call *call)
{
    static dt_cli_run *const runs[] = {[DT_CLI_BY_REQUEST] = dt_cli_run_request,
                                       [DT_CLI_BY_SET] = dt_cli_run_set,
                                       [DT_CLI_BY_LIST] = dt_cli_run_list,
                                       [DT_CLI_BY_FOLLOW] = dt_cli_run_follow,
                                       [DT_CLI_BY_DELETE] = dt_cli_run_delete,
                                       [DT_CLI_BY_POP] = dt_cli_run_pop,
                                       [DT_CLI_BY_WATCH] = dt_cli_run_watch,
                                       [DT_CLI_BY_EXPORT] = dt_cli_run_list,
                                       [DT_CLI_BY_IMPORT] = dt_cli_run_import,
                                       [DT_CLI_BY_OVERVIEW] = dt_cli_run_overview,
                                       [DT_CLI_BY_FORECAST] = dt_cli_run_forecast,
                                       [DT_CLI_BY_DOCTOR] = dt_cli_run_doctor,
                                       [DT_CLI_BY_COMPLETION] = dt_cli_run_completion,
                                       [DT_CLI_BY_HELP] = dt_cli_run_help,
                                       [DT_CLI_BY_VERSION] = dt_cli_run_version};
    return call->verb->set && call->n_args == 0 ? dt_cli_run_many : runs[call->verb->way];
}
