"""Which suites concern a file, cheapest first. What names a header concerns its source; the rest is told here by hand.

A suite is "unit/test_inflight", "check/cron" (of the sources, by a program), "simulated/test_store_jobs" (a contract suite on the simulator's servers), "sim", "contract/test_store_jobs",
"api/test_batch" or "integration/test_life"; one that the tree does not have is passed over.
"""
import re

from runner import tree

ORDER = ("unit", "check", "simulated", "sim", "contract", "api", "integration")
ON_SERVERS = ("contract", "api", "integration")


def _not_simulated():
    """What the simulator has in memory of its own, as tests/simulator/CMakeLists.txt leaves it out."""
    text = (tree.TREE / "tests/simulator/CMakeLists.txt").read_text(encoding="utf-8")
    left_out = re.findall(r'^list\(FILTER product EXCLUDE REGEX "([^"]+)"\)', text, re.M)
    assert left_out, "tests/simulator/CMakeLists.txt leaves nothing out"
    return re.compile("|".join([*(pattern.replace("\\\\", "\\") for pattern in left_out), "^api/"]))


BY_HAND = [
    (r"^scheduler/base/text/(encoding|json_table|json|strbuf|timetext)\.c", "unit/test_json_table unit/test_job_json unit/test_message unit/test_result_json unit/test_batch unit/test_batch_leaving api/test_create"),
    (r"^scheduler/base/(config|config_options|config_print)\.c", "unit/test_config api/test_commands api/test_service check/configuration"),
    (r"^scheduler/base/mailbox\.c", "contract/test_elector"),
    (r"^scheduler/base/(log|metrics)\.c", "contract/test_reconcile contract/test_reconcile_rebuild contract/test_reconcile_told api/test_http"),
    (r"^scheduler/job/job_encode\.c", "unit/test_job_json unit/test_message"),
    (r"^scheduler/base/http/(callback_rules|webhook)\.c|^scheduler/features/alerts/alert\.c|^scheduler/features/doctor/finding\.c|^scheduler/features/quotas/quota\.c|^scheduler/features/schedules/(cron|cron_parse|recurrence)\.c|^scheduler/job/\w+\.c|^scheduler/job/results/result_json\.c|^scheduler/topic/(owner|rate)\.c", "contract/test_store_jobs contract/test_store_jobs_races api/test_create api/test_changes"),
    (r"^scheduler/job/job\.c", "unit/test_auth api/test_tokens contract/test_store_results"),
    (r"^(scheduler/dispatch|scheduler/events|scheduler/features/clock|scheduler/features/figures|scheduler/features/forecast|scheduler/features/intents|scheduler/features/operations|scheduler/features/tokens|scheduler/job/archive|scheduler/job/change|scheduler/job/list|scheduler/mysql|scheduler/store)/\w+\.c|^scheduler/features/alerts/(alert_figures|alert_outbox|store_alerts)\.c|^scheduler/features/doctor/process_findings\.c|^scheduler/features/quotas/(store_quotas|store_usage)\.c|^scheduler/features/schedules/(fire_batch|fire_plan|fire_quota|schedule_row|store_schedules)\.c|^scheduler/job/inflight\.c|^scheduler/job/results/(dead|results_txn|store_deferred|store_outbox|store_results)\.c|^scheduler/topic/\w+\.c", "contract/test_failing_statements simulated/test_store_dispatch simulated/test_store_refused simulated/test_store_scans simulated/test_store_jobs simulated/test_store_jobs_races simulated/test_store_results simulated/test_store_results_together simulated/test_store_history simulated/test_store_history_days simulated/test_store_insert simulated/test_store_insert_faults contract/test_store_topics contract/test_store_schema contract/test_store_processes contract/test_store_tokens contract/test_store_shards contract/test_store_leases"),
    (r"^(scheduler/index|scheduler/redis)/\w+\.c", "contract/test_index contract/test_index_wake contract/test_index_pages contract/test_index_failures contract/test_reconcile contract/test_reconcile_rebuild contract/test_reconcile_told contract/test_wake integration/test_index_losses"),
    (r"^scheduler/index/reconcile/\w+\.c", "contract/test_reconcile contract/test_reconcile_rebuild contract/test_reconcile_told"),
    (r"^scheduler/dispatch/topic_snapshot\.c|^scheduler/store/store\.c|^scheduler/topic/(topic_put|topics_store)\.c", "simulated/test_store_topics"),
    (r"^scheduler/features/tokens/\w+\.c|^scheduler/dispatch/shards_store\.c|^scheduler/store/(processes_store|store_schema)\.c", "simulated/test_store_tokens simulated/test_store_processes simulated/test_store_shards"),
    (r"^scheduler/dispatch/\w+\.c|^scheduler/job/inflight\.c|^scheduler/job/archive/housekeeping\.c|^scheduler/job/change/store_row\.c|^scheduler/mysql/id_in\.c", "contract/test_store_dispatch contract/test_store_refused contract/test_store_scans"),
    (r"^scheduler/mysql/(db_error|db_mysql|db_mysql_connect)\.c", "contract/test_db contract/test_store_insert contract/test_store_insert_faults contract/test_store_jobs contract/test_store_jobs_races"),
    (r"^scheduler/job/archive/\w+\.c", "contract/test_store_history contract/test_store_history_days"),
    (r"^scheduler/dispatch/topic_snapshot\.c|^scheduler/topic/(counts|counts_audit)\.c", "contract/test_store_counts"),
    (r"^scheduler/store/store_schema\.c", "contract/test_store_schema"),
    (r"^scheduler/job/change/store_row\.c|^scheduler/job/results/store_outbox\.c", "contract/test_store_results contract/test_store_results_together contract/test_outbox contract/test_store_jobs contract/test_store_jobs_races"),
    (r"^scheduler/store/store\.c|^scheduler/topic/(topic_put|topics_store)\.c", "contract/test_store_topics contract/test_store_schema contract/test_store_jobs contract/test_store_jobs_races api/test_topics"),
    (r"^scheduler/job/list/(list_filter|list_times|store_list)\.c", "contract/test_store_list contract/test_store_list_times contract/test_store_history contract/test_store_history_days api/test_lists"),
    (r"^scheduler/job/change/(store_insert|store_jobs)\.c|^scheduler/job/results/store_results\.c", "contract/test_store_history contract/test_store_history_days api/test_changes api/test_keys"),
    (r"^scheduler/dispatch/shards_store\.c", "contract/test_store_shards api/test_shards"),
    (r"^scheduler/store/leases_store\.c", "contract/test_store_leases contract/test_elector_leases integration/test_without_zookeeper"),
    (r"^dispatcher/deliver/kafka/(kafka_admin|kafka_topics|kafka_watch)\.c", "unit/test_topic_lookups contract/test_kafka_topics contract/test_kafka_producer integration/test_refused"),
    (r"^dispatcher/deliver/kafka/(kafka_common|kafka_ledger|kafka_producer|kafka_txn_producer)\.c", "contract/test_kafka_producer contract/test_kafka_producer_refused contract/test_kafka_ledger contract/test_kafka_results contract/test_kafka_topics"),
    (r"^dispatcher/deliver/kafka/(kafka_lag|kafka_reader)\.c", "contract/test_kafka_results"),
    (r"^dispatcher/deliver/kafka/(delivery_kafka|kafka_parts)\.c", "unit/test_delivery_absent integration/test_without_kafka integration/test_growing"),
    (r"^dispatcher/deliver/kafka/(delivery_kafka|ledger_record|message)\.c", "unit/test_dead_letter contract/test_kafka_producer integration/test_life"),
    (r"^scheduler/base/http/(host_names|http_curl|http_curl_exchange)\.c", "contract/test_http_curl contract/test_http_curl_hosts"),
    (r"^dispatcher/deliver/\w+\.c", "unit/test_message unit/test_request_head"),
    (r"^dispatcher/election/(elector|elector_mysql|elector_share|lease_link)\.c", "contract/test_elector_leases"),
    (r"^dispatcher/deliver/http/(callback|http_places)\.c|^scheduler/base/http/webhook\.c", "unit/test_request_head unit/test_http_outcome"),
    (r"^dispatcher/election/\w+\.c", "contract/test_elector unit/test_elector unit/test_elector_leases contract/test_elector_leases"),
    (r"^dispatcher/deliver/kafka/(topic_queue|writable_topics)\.c|^dispatcher/election/shard_map\.c|^dispatcher/shard/\w+\.c|^scheduler/base/fair\.c", "integration/test_new_topics integration/test_fair integration/test_life integration/test_refused"),
    (r"^dispatcher/deliver/kafka/(outbox|results)\.c", "contract/test_outbox contract/test_results integration/test_life"),
    (r"^dispatcher/deliver/kafka/(kafka_common|kafka_ledger|kafka_producer|kafka_txn_producer|kafka_watch)\.c", "unit/test_kafka_faults"),
    (r"^dispatcher/deliver/kafka/(kafka_common|kafka_producer)\.c", "contract/test_outbox"),
    (r"^dispatcher/heartbeat\.c|^dispatcher/shard/shard_due\.c", "integration/test_index_losses"),
    (r"^dispatcher/dispatcher\.c|^dispatcher/deliver/kafka/(outbox|results)\.c|^dispatcher/shard/shard_loop\.c|^scheduler/base/outage\.c", "integration/test_outage_lines"),
    (r"^dispatcher/(dispatcher|housekeeper|main|metrics_server)\.c|^dispatcher/election/shard_map\.c", "integration/test_waiting_shards integration/test_history integration/test_rest integration/test_life api/test_shards"),
    (r"^api/request/(auth|session)\.c", "api/test_tokens"),
    (r"^api/intake/(batch|create_rest)\.c|^api/request/workers\.c", "api/test_batch api/test_batch_ends api/test_http"),
    (r"^api/intake/batch_gate\.c|^api/request/(request|workers)\.c", "api/test_batch_ends api/test_large_answers api/test_connections"),
    (r"^api/http/\w+\.c|^scheduler/base/http/parse\.c", "api/test_connections api/test_later_requests"),
    (r"^api/rest/health\.c", "api/test_health"),
    (r"^api/main\.c|^api/cli/main\.c", "api/test_commands api/test_http api/test_unavailable"),
    (r"^api/intake/(committer|create_rest)\.c|^api/request/\.c", "contract/test_committer contract/test_committer_batches api/test_create api/test_batch api/test_keys"),
    (r"^api/intake/create_rest\.c|^api/rest/jobs_rest\.c", "unit/test_job_json api/test_create api/test_keys api/test_offers api/test_changes api/test_limits"),
    (r"^api/rest/jobs_rest\.c", "api/test_changes api/test_create api/test_keys api/test_tokens api/test_unsettled"),
    (r"^api/rest/list_rest\.c", "api/test_lists api/test_large_answers"),
    (r"^api/intake/index_writer\.c|^api/rest/(ops_rest|health|explain_rest)\.c", "api/test_http api/test_waiting api/test_shards api/test_unavailable api/test_tokens api/test_forbidden"),
    (r"^api/intake/results_rest\.c", "api/test_results"),
    (r"^api/request/topic_cache\.c|^api/rest/topics_rest\.c", "contract/test_topic_cache api/test_topics api/test_lists"),
    (r"^api/(answer|routes)\.c|^api/cli/request\.c|^api/http/\w+\.c|^api/request/(request|router)\.c", "api/test_http api/test_batch api/test_create api/test_limits"),
    (r"^api/rest/alerts_rest\.c", "api/test_cli_alerts api/test_topics integration/test_alerts"),
    (r"^api/token_commands\.c|^api/request/(auth|cursor)\.c|^api/rest/tokens_rest\.c", "api/test_tokens api/test_forbidden api/test_lists api/test_cli_tokens api/test_quotas api/test_cursors"),
    (r"^api/http/http_admit\.c|^api/request/topic_cache\.c|^api/rest/(operations_rest|topics_rest)\.c", "api/test_tokens"),
    (r"^api/request/topic_cache\.c|^api/rest/(events_rest|operations_rest|schedules_rest|topics_rest)\.c", "api/test_large_answers api/test_cursors"),
    (r"^api/cli/\w+\.c", "unit/test_cli_words api/test_cli_terminal api/test_cli api/test_cli_texts api/test_cli_many api/test_cli_sets api/test_cli_doctor check/command_line"),
    (r"^api/console/\w+\.c", "api/test_console_files"),
    (r"^scheduler/features/doctor/\w+\.c|^api/rest/doctor_rest\.c|^dispatcher/deliver/kafka/examiner\.c", "api/test_doctor api/test_doctor_dispatchers api/test_cli_doctor"),
    (r"^scheduler/events/\w+\.c|^api/rest/events_rest\.c", "contract/test_store_events api/test_events"),
    (r"^scheduler/features/forecast/\w+\.c|^api/rest/forecast_rest\.c", "api/test_forecast"),
    (r"^scheduler/base/http/(tls_files|sock)\.c", "api/test_tls"),
    (r"^api/intake/\w+\.c", "api/test_batch api/test_batch_ends api/test_result_batch api/test_create"),
    (r"^api/rest/explain_rest\.c", "api/test_explain"),
    (r"^api/rest/jobs_rest\.c", "api/test_topics api/test_create api/test_replace api/test_offers api/test_unsettled api/test_results api/test_schedules"),
    (r"^api/rest/(alerts_rest|topics_rest|explain_rest)\.c", "unit/test_topic_callback api/test_topics api/test_results"),
    (r"^scheduler/features/operations/\w+\.c|^api/rest/operations_rest\.c|^dispatcher/operation_runner\.c", "contract/test_store_operations contract/test_operation_owners api/test_operations api/test_cli_sets"),
    (r"^scheduler/features/operations/(topic_cancel|topic_deletion)\.c", "contract/test_topic_deletion integration/test_topic_deletion"),
    (r"^api/rest/(ops_rest|health|kept|overview_rest|series_rest)\.c", "api/test_overview api/test_clock api/test_health"),
    (r"^api/pull/\w+\.c", "unit/test_pop_lines api/test_pop api/test_waiting_pops api/test_queue_commands api/test_topics"),
    (r"^api/request/(meter|quotas)\.c|^api/rest/tokens_rest\.c", "api/test_tokens api/test_forbidden"),
    (r"^scheduler/job/change/\w+\.c|^scheduler/dispatch/offer_made\.c|^scheduler/job/list/key_range\.c|^scheduler/topic/(counts|counts_audit|topic_put|topic_refusal|topics_store)\.c", "contract/test_store_jobs contract/test_store_jobs_races contract/test_store_insert contract/test_store_replace contract/test_store_topics contract/test_store_history contract/test_store_unknown contract/test_store_counts contract/test_store_commands contract/test_store_inbox api/test_results api/test_changes api/test_topics"),
    (r"^scheduler/job/archive/\w+\.c|^scheduler/job/list/(list_filter|list_times|store_list)\.c|^scheduler/mysql/walk\.c", "contract/test_store_list contract/test_store_list_times contract/test_store_history contract/test_store_history_days api/test_lists"),
    (r"^scheduler/job/results/(results_txn|store_deferred|store_outbox|store_results)\.c", "contract/test_store_results contract/test_store_results_together contract/test_outbox contract/test_results api/test_results"),
    (r"^scheduler/dispatch/(deadlines|fence|leader_candidates|leader_choose|leader_claim|leader_judge|leader_offers|leader_timeouts|leader_txn|store_outgoing|store_scan|store_takeover|topic_snapshot)\.c|^scheduler/job/inflight\.c", "contract/test_store_dispatch contract/test_store_refused contract/test_store_scans"),
    (r"^scheduler/mysql/\w+\.c", "contract/test_db contract/test_store_insert_faults contract/test_store_jobs contract/test_store_unknown"),
    (r"^dispatcher/deliver/kafka/\w+\.c", "contract/test_kafka_topics contract/test_kafka_results contract/test_kafka_producer contract/test_kafka_producer_refused contract/test_kafka_ledger integration/test_life"),
    (r"^dispatcher/shard/\w+\.c", "unit/test_shard_due unit/test_shard_queues unit/test_shard_queues_held unit/test_shard_tell unit/test_shard_cursor contract/test_fair_queues contract/test_shard_fence integration/test_life integration/test_refused"),
    (r"^scheduler/features/quotas/\w+\.c|^api/request/(meter|quotas)\.c|^api/rest/tokens_rest\.c", "unit/test_meter contract/test_store_quotas api/test_quotas"),
    (r"^scheduler/features/schedules/\w+\.c|^api/rest/schedules_rest\.c|^dispatcher/schedule_maker\.c|^scheduler/job/fire_key\.c", "unit/test_fire_plan unit/test_cron contract/test_store_schedules api/test_schedules integration/test_schedules"),
    (r"^scheduler/features/tokens/\w+\.c|^scheduler/dispatch/shards_store\.c|^scheduler/topic/topics_store\.c", "api/test_events"),
    (r"^api/request/topic_cache\.c|^api/rest/topics_rest\.c", "api/test_topics api/test_batch api/test_without_kafka"),
    (r"^api/request/(workers|session)\.c", "api/test_batch_ends api/test_connections api/test_http"),
    (r"^scheduler/features/alerts/\w+\.c", "unit/test_alert contract/test_store_alerts integration/test_alerts"),
    (r"^(dispatcher/deliver/http|scheduler/base/http)/\w+\.c|^scheduler/dispatch/(leader_hands|record_hands|store_hands)\.c|^scheduler/job/callback_fit\.c", "unit/test_pool_room contract/test_http_curl contract/test_http_curl_hosts contract/test_store_hands api/test_topics integration/test_callbacks"),
    (r"^dispatcher/intake\.c|^dispatcher/deliver/kafka/(command_reader|command_sender)\.c|^scheduler/features/intents/(command_answers|command_batch|command_decode|command_offsets)\.c", "contract/test_store_commands integration/test_commands"),
    (r"^dispatcher/(inbox_mover|intake|announcer)\.c|^scheduler/features/intents/(inbox_row|intents_txn|store_inbox)\.c", "contract/test_store_inbox integration/test_inbox"),
    (r"^dispatcher/deliver/kafka/kafka_client\.c|^scheduler/base/(tls|host|listen|networks|properties|secrets|service|stop_bound|streams)\.c", "unit/test_connection unit/test_service unit/test_credentials api/test_commands api/test_service"),
    (r"^dispatcher/(announcer|heartbeat|housekeeper|metrics_server)\.c|^dispatcher/deliver/kafka/(kafka_parts|results)\.c|^dispatcher/shard/(due_watch|room)\.c", "contract/test_results contract/test_outbox integration/test_life"),
    (r"^api/routes\.c|^api/request/(request|router)\.c", "check/openapi"),
    (r"^scheduler/base/text/zone\.c|^scheduler/features/schedules/(cron|cron_parse|recurrence)\.c|^scheduler/job/fire_key\.c", "check/cron"),
    (r"^scheduler/base/text/timetext\.c", "unit/test_timetext unit/test_cron unit/test_recurrence unit/test_zone"),
    (r"^dispatcher/dispatcher\.c", "integration/test_waiting_shards integration/test_without_kafka"),
    (r"^scheduler/base/text/zone\.c", "unit/test_zone unit/test_cron_zones unit/test_recurrence"),
    (r"^dispatcher/shard/(shard_memory|shard_held)\.c|^scheduler/dispatch/(leader_topics|offers_tidy|store_pop)\.c|^scheduler/topic/topic_gate\.c", "simulated/test_store_pop simulated/test_store_limits contract/test_store_pop contract/test_store_limits api/test_pop api/test_offers"),
    (r"^scheduler/dispatch/(leader_hands|record_hands|store_hands)\.c", "simulated/test_store_hands"),
    (r"^scheduler/features/outbox/\w+\.c", "contract/test_outbox integration/test_alerts integration/test_commands"),
    (r"^scheduler/features/clock/\w+\.c", "contract/test_store_clock api/test_clock"),
    (r"^scheduler/features/figures/\w+\.c|^scheduler/topic/tally\.c", "contract/test_store_figures api/test_overview"),
    (r"^scheduler/store/(store_schema|store)\.c|^scheduler/topic/topics_version\.c", "contract/test_store_schema contract/test_store_topics api/test_commands api/test_unavailable"),
    (r"^(api/http|api/intake|dispatcher/deliver|dispatcher/deliver/http|scheduler/base|scheduler/base/text|scheduler/dispatch|scheduler/events|scheduler/features/clock|scheduler/features/figures|scheduler/features/forecast|scheduler/features/intents|scheduler/features/operations|scheduler/features/tokens|scheduler/index|scheduler/job/archive|scheduler/job/change|scheduler/job/list|scheduler/mysql|scheduler/redis|scheduler/store)/\w+\.c|^api/token_commands\.c|^api/request/\w+\.c|^api/rest/(tokens_rest|topics_rest)\.c|^dispatcher/deliver/kafka/\w+\.c|^scheduler/features/alerts/(alert_figures|alert_outbox|store_alerts)\.c|^scheduler/features/doctor/process_findings\.c|^scheduler/features/quotas/(store_quotas|store_usage)\.c|^scheduler/features/schedules/(fire_batch|fire_plan|fire_quota|schedule_row|store_schedules)\.c|^scheduler/job/inflight\.c|^scheduler/job/results/(dead|results_txn|store_deferred|store_outbox|store_results)\.c|^scheduler/topic/\w+\.c", "unit/test_out_of_memory unit/test_out_of_memory_apart"),
    (r"^(api/http|api/intake)/\w+\.c|^api/token_commands\.c|^api/request/\w+\.c|^api/rest/(tokens_rest|topics_rest)\.c", "api/test_limits"),
    (r"^(api|api/cli|api/console|api/http|api/intake|api/pull|api/request|api/rest|scheduler/dispatch|scheduler/events|scheduler/features/clock|scheduler/features/figures|scheduler/features/forecast|scheduler/features/intents|scheduler/features/operations|scheduler/features/tokens|scheduler/job/archive|scheduler/job/change|scheduler/job/list|scheduler/mysql|scheduler/store)/\w+\.c|^scheduler/features/alerts/(alert_figures|alert_outbox|store_alerts)\.c|^scheduler/features/doctor/process_findings\.c|^scheduler/features/quotas/(store_quotas|store_usage)\.c|^scheduler/features/schedules/(fire_batch|fire_plan|fire_quota|schedule_row|store_schedules)\.c|^scheduler/job/inflight\.c|^scheduler/job/results/(dead|results_txn|store_deferred|store_outbox|store_results)\.c|^scheduler/topic/\w+\.c", "api/test_failing_statements"),
    (r"^api/console/\w+\.c|^api/intake/(batch_feed|create_rest|results_rest)\.c|^api/pull/(command_json|commands_rest|pop_room)\.c|^api/rest/\w+\.c|^scheduler/base/http/(callback_rules|webhook)\.c|^scheduler/base/text/(encoding|timetext|json|json_table|json_write)\.c|^scheduler/features/alerts/alert\.c|^scheduler/job/(callback_fit|job_decode|job_digest|problem)\.c|^scheduler/job/results/result_json\.c", "api/test_member_types"),
    (r"^(api/intake|api/pull|scheduler/features/clock|scheduler/features/figures)/\w+\.c|^api/request/(meter|quotas|workers|session|topic_cache)\.c|^api/rest/(ops_rest|health|kept|overview_rest|series_rest|topics_rest|tokens_rest)\.c|^dispatcher/\w+\.c|^dispatcher/deliver/http/(pool|pool_claims)\.c|^dispatcher/deliver/kafka/(command_reader|examiner|kafka_parts|results)\.c|^dispatcher/shard/(due_watch|room)\.c|^scheduler/features/alerts/(alert_judge|alert_topics|alerts_chores)\.c|^scheduler/topic/tally\.c", "unit/test_out_of_memory_starts"),
    (r"^scheduler/dispatch/(store_watch|watcher)\.c", "contract/test_store_watch integration/test_without_redis"),
]


def _including(stem):
    """C suites that include the header of this name, or carry it in their own."""
    header = re.compile(rf'#include "(?:\w+/)*{re.escape(stem)}\.h"')
    for kind in ("unit", "contract"):
        for path in sorted((tree.TREE / "tests" / kind).rglob("test_*.c")):
            if path.stem == f"test_{stem}" or header.search(path.read_text(encoding="utf-8")):
                yield f"{kind}/{path.stem}"


def _there(suite, targets):
    kind, _, name = suite.partition("/")
    if kind == "sim":
        return "simulator" in targets
    if kind == "check":
        return True
    if kind in ("api", "integration"):
        return any((tree.TREE / "tests" / kind).rglob(f"{name}.py"))
    return f"{kind}_{name}" in targets


def suites_of(path, targets):
    """Of a source, by name, in the order in which they are tried."""
    stem = path.rsplit("/", 1)[1].removesuffix(".c")
    found = list(_including(stem))
    if not _not_simulated().search(path):
        found.append("sim")
    for pattern, suites in BY_HAND:
        if re.search(pattern, path):
            found += suites.split()
    there = [suite for suite in dict.fromkeys(found) if _there(suite, targets)]
    words = set(stem.split("_")) - {"store", "kafka"}
    return sorted(there, key=lambda suite: (ORDER.index(suite.split("/")[0]), not words & set(suite.split("_"))))


def needs_servers(suite):
    return suite.split("/")[0] in ON_SERVERS


def misnamed():
    """Suites that are told by hand and that the tree does not have: a renamed one would be passed over in silence."""
    where = {"check": "runner/checks.py", "unit": "unit/**/{}.c", "contract": "contract/**/{}.c", "simulated": "contract/**/{}.c", "api": "api/**/{}.py", "integration": "integration/**/{}.py"}
    told = {suite for _, suites in BY_HAND for suite in suites.split()}
    return sorted(suite for suite in told if not any((tree.TREE / "tests").glob(where[suite.split("/")[0]].format(suite.split("/")[1]))))
