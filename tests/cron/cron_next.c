/* Reads lines "expression TAB zone TAB instant in ms TAB count", answers each with a line of that many fires in ms, or with
 * "refused: why". For compare.py. */
#include <inttypes.h>

#include "base/text/zone.h"
#include "features/schedules/cron.h"

static void answer(dt_zone_files *files, char *parts[4])
{
    struct dt_error err = {0};
    struct dt_cron cron;
    dt_zone *zone = NULL;
    int64_t at_ms = strtoll(parts[2], NULL, 10);
    dt_status status = dt_cron_parse(dt_str(parts[0]), &cron, &err);
    if (status == DT_OK)
        status = dt_zone_files_get(files, dt_str(parts[1]), &zone, &err);
    if (status != DT_OK) {
        printf("refused: %s\n", err.text);
        return;
    }
    for (long n = strtol(parts[3], NULL, 10); n > 0; n--) {
        at_ms = dt_cron_next_ms(&cron, zone, at_ms);
        printf("%" PRId64 "%c", at_ms, n == 1 ? '\n' : ' ');
    }
    dt_zone_free(zone);
}

int main(void)
{
    char line[1024];
    dt_zone_files *files;
    if (dt_zone_files_new(NULL, &files) != DT_OK)
        return EXIT_FAILURE;
    while (fgets(line, sizeof(line), stdin)) {
        char *parts[4], *rest = line;
        line[strcspn(line, "\n")] = '\0';
        for (int i = 0; i < 4; i++)
            parts[i] = strsep(&rest, "\t");
        if (!parts[3])
            return EXIT_FAILURE;
        answer(files, parts);
    }
    dt_zone_files_free(files);
    return EXIT_SUCCESS;
}
