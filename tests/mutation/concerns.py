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
    (r"scheduler/base/(json|json_table|faults|strbuf|text/base64|text/timetext)\.c", "unit/test_json_table unit/test_job_json unit/test_message unit/test_result_json unit/test_batch unit/test_batch_leaving api/test_create"),
    (r"scheduler/base/config\w*\.c", "unit/test_config api/test_commands api/test_service"),
    (r"scheduler/base/mailbox\.c", "contract/test_elector"),
    (r"scheduler/base/(metrics|log)\.c", "contract/test_reconcile contract/test_reconcile_rebuild contract/test_reconcile_told api/test_http"),
    (r"scheduler/job/job_encode", "unit/test_job_json unit/test_message"),
    (r"scheduler/job/", "contract/test_store_jobs contract/test_store_jobs_races api/test_create api/test_changes"),
    (r"scheduler/job/job\.c", "unit/test_auth api/test_tokens contract/test_store_results"),
    (r"scheduler/store/", "contract/test_failing_statements contract/test_failing_upkeep"),
    (r"scheduler/index/", "contract/test_index contract/test_index_wake contract/test_index_pages contract/test_index_failures contract/test_reconcile contract/test_reconcile_rebuild contract/test_reconcile_told contract/test_wake integration/test_index_losses"),
    (r"scheduler/reconcile/", "contract/test_reconcile contract/test_reconcile_rebuild contract/test_reconcile_told"),
    (r"scheduler/store/", "simulated/test_store_dispatch simulated/test_store_refused simulated/test_store_scans simulated/test_store_jobs simulated/test_store_jobs_races simulated/test_store_results simulated/test_store_results_together simulated/test_store_history simulated/test_store_history_days simulated/test_store_insert simulated/test_store_insert_faults"),
    (r"store/(store_topics|topic_put|store|topic_snapshot)\.c", "simulated/test_store_topics"),
    (r"store/(store_tokens|store_processes|store_shards|store_schema)\.c", "simulated/test_store_tokens simulated/test_store_processes simulated/test_store_shards"),
    (r"store/(leader_\w+|fence|deadlines|shard_stats)|store/store_(takeover|scan|shards|outgoing|row)|store/housekeeping|store/inflight|store/id_in|store/topic_snapshot", "contract/test_store_dispatch contract/test_store_refused contract/test_store_scans"),
    (r"store/(db_mysql\w*|db_error)\.c", "contract/test_db contract/test_store_insert contract/test_store_insert_faults contract/test_store_jobs contract/test_store_jobs_races"),
    (r"store/(partitions|archive_search|housekeeping|archiver)\.c", "contract/test_store_history contract/test_store_history_days"),
    (r"store/(store_audit|counts|topic_snapshot)\.c", "contract/test_store_counts"),
    (r"store/(store_schema|sql_split)\.c", "contract/test_store_schema"),
    (r"store/(store_outbox|store_row)\.c", "contract/test_store_results contract/test_store_results_together contract/test_outbox contract/test_store_jobs contract/test_store_jobs_races"),
    (r"store/(store|store_txn|store_topics|topic_put)\.c", "contract/test_store_topics contract/test_store_schema contract/test_store_jobs contract/test_store_jobs_races api/test_topics"),
    (r"store/(store_list|list_times|list_filter)\.c", "contract/test_store_list contract/test_store_list_times contract/test_store_history contract/test_store_history_days api/test_lists"),
    (r"store/(store_jobs|store_insert|store_results)\.c", "contract/test_store_history contract/test_store_history_days api/test_changes api/test_keys"),
    (r"store/(store_shards)\.c", "contract/test_store_shards api/test_shards"),
    (r"store/store_leases\.c", "contract/test_store_leases contract/test_elector_leases integration/test_without_zookeeper"),
    (r"dispatcher/kafka_(admin.*|topics|warm|watch)\.c", "unit/test_topic_lookups contract/test_kafka_topics contract/test_kafka_producer integration/test_refused"),
    (r"dispatcher/kafka_(common|txn_producer|ledger|plain|producer|trim)\.c", "contract/test_kafka_producer contract/test_kafka_producer_refused contract/test_kafka_ledger contract/test_kafka_results contract/test_kafka_topics"),
    (r"dispatcher/kafka_(reader|lag)\.c", "contract/test_kafka_results"),
    (r"dispatcher/(delivery_kafka|kafka_parts)\.c", "unit/test_delivery_absent integration/test_without_kafka integration/test_growing"),
    (r"dispatcher/(delivery_kafka|message|ledger_\w+)\.c", "unit/test_dead_letter contract/test_kafka_producer integration/test_life"),
    (r"http/(http_curl\w*|host_names)\.c", "contract/test_http_curl contract/test_http_curl_hosts"),
    (r"dispatcher/(caller_headers|cloud_event)\.c", "unit/test_message unit/test_request_head"),
    (r"dispatcher/(elector(_mysql|_share)?|lease_\w+)\.c", "contract/test_elector_leases"),
    (r"http/(webhook_sign|http_places|http_outcome)", "unit/test_request_head unit/test_http_outcome"),
    (r"dispatcher/(elector|zk)", "contract/test_elector"),
    (r"dispatcher/(shard_|topic_memory|writable_topics|topic_queue)|base/fair", "integration/test_new_topics integration/test_fair integration/test_life integration/test_refused"),
    (r"scheduler/outbox/", "contract/test_outbox integration/test_alerts integration/test_commands"),
    (r"dispatcher/results\.c", "contract/test_results integration/test_life"),
    (r"dispatcher/kafka_(txn_producer|producer|ledger|notices|common|handle|watch)\.c", "unit/test_kafka_faults"),
    (r"dispatcher/kafka_(notices|common)\.c", "contract/test_outbox"),
    (r"dispatcher/(heartbeat|shard_due)\.c", "integration/test_index_losses"),
    (r"(dispatcher/(shard_loop|results|outbox|dispatcher)|base/outage)\.c", "integration/test_outage_lines"),
    (r"dispatcher/(dispatcher|main|shard_map|housekeeper|metrics_server)\.c", "integration/test_waiting_shards integration/test_history integration/test_rest integration/test_life api/test_shards"),
    (r"api/(auth|session)\.c", "api/test_tokens"),
    (r"api/(batch|batch_chunk|handlers_batch|scratch|workers)\.c", "api/test_batch api/test_batch_ends api/test_http"),
    (r"api/(budget|batch_gate|workers)\.c", "api/test_batch_ends api/test_large_answers api/test_connections"),
    (r"(api/http|scheduler/base/http)/(.*/)?(acceptor|frames|head|http_\w*)\.c", "api/test_connections api/test_later_requests"),
    (r"api/health\.c", "api/test_health"),
    (r"api/(commands|main)\.c", "api/test_commands api/test_http api/test_unavailable"),
    (r"api/(committer|commit_window|id_block|create)\.c", "contract/test_committer contract/test_committer_batches api/test_create api/test_batch api/test_keys"),
    (r"api/(handlers_create|job_decode|job_digest|job_json|job_answer)\.c", "unit/test_job_json api/test_create api/test_keys api/test_offers api/test_changes api/test_limits"),
    (r"api/handlers_jobs\.c", "api/test_changes api/test_create api/test_keys api/test_tokens api/test_unsettled"),
    (r"api/handlers_list\.c", "api/test_lists api/test_large_answers"),
    (r"api/(handlers_admin|handlers_ops|health|waiting|index_writer)\.c", "api/test_http api/test_waiting api/test_shards api/test_unavailable api/test_tokens api/test_forbidden"),
    (r"api/(handlers_results|results_batcher)\.c", "api/test_results"),
    (r"api/(handlers_topics|topic_json|topic_cache)\.c", "contract/test_topic_cache api/test_topics api/test_lists"),
    (r"api/(http_|answer|problem|request|router|routes)", "api/test_http api/test_batch api/test_create api/test_limits"),
    (r"^api/alerts/|api/jobs/topic_alerts", "api/test_cli_alerts api/test_topics integration/test_alerts"),
    (r"^api/auth/", "api/test_tokens api/test_forbidden api/test_lists api/test_cli_tokens api/test_quotas api/test_cursors"),
    (r"^api/http/http_admit|^api/(operations|topics)/", "api/test_tokens"),
    (r"^api/(events|operations|schedules|topics)/", "api/test_large_answers api/test_cursors"),
    (r"^api/cli/", "unit/test_cli_words api/test_cli_terminal api/test_cli api/test_cli_texts api/test_cli_many api/test_cli_sets api/test_cli_doctor"),
    (r"^api/console/", "api/test_console_files"),
    (r"^(api|dispatcher)/doctor/|job/finding/|store/process_findings", "api/test_doctor api/test_doctor_dispatchers api/test_cli_doctor"),
    (r"^api/events/|scheduler/store/events/", "contract/test_store_events api/test_events"),
    (r"^api/forecast/|scheduler/store/forecast/", "api/test_forecast"),
    (r"^api/http/tls/|^scheduler/base/http/tls_", "api/test_tls"),
    (r"^api/intake/", "api/test_batch api/test_batch_ends api/test_result_batch api/test_create"),
    (r"^api/jobs/explain|api/jobs/handlers_explain", "api/test_explain"),
    (r"^api/jobs/(job_fit|settle)", "api/test_topics api/test_create api/test_replace api/test_offers api/test_unsettled api/test_results api/test_schedules"),
    (r"^api/jobs/(topic|report|attempt|waiting)", "unit/test_topic_callback api/test_topics api/test_results"),
    (r"^api/operations/|scheduler/store/operations/|dispatcher/intake/operation_runner", "contract/test_store_operations contract/test_operation_owners api/test_operations api/test_cli_sets"),
    (r"operations/topic_(cancel|deletion)", "contract/test_topic_deletion integration/test_topic_deletion"),
    (r"^api/(ops|overview)/", "api/test_overview api/test_clock api/test_health"),
    (r"^api/pull/", "unit/test_pop_lines api/test_pop api/test_waiting_pops api/test_queue_commands api/test_topics"),
    (r"^api/quota/", "api/test_tokens api/test_forbidden"),
    (r"scheduler/store/jobs/", "contract/test_store_jobs contract/test_store_jobs_races contract/test_store_insert contract/test_store_replace contract/test_store_topics "
                               "contract/test_store_history contract/test_store_unknown contract/test_store_counts contract/test_store_commands contract/test_store_inbox api/test_results api/test_changes api/test_topics"),
    (r"scheduler/store/(list|archive|walk)/", "contract/test_store_list contract/test_store_list_times contract/test_store_history contract/test_store_history_days api/test_lists"),
    (r"scheduler/store/results/", "contract/test_store_results contract/test_store_results_together contract/test_outbox contract/test_results api/test_results"),
    (r"scheduler/store/dispatch/", "contract/test_store_dispatch contract/test_store_refused contract/test_store_scans"),
    (r"scheduler/store/db/", "contract/test_db contract/test_store_insert_faults contract/test_store_jobs contract/test_store_unknown"),
    (r"scheduler/store/\w+\.c", "contract/test_store_topics contract/test_store_schema contract/test_store_processes contract/test_store_tokens contract/test_store_shards contract/test_store_leases"),
    (r"dispatcher/(kafka|delivery/kafka)/", "contract/test_kafka_topics contract/test_kafka_results contract/test_kafka_producer contract/test_kafka_producer_refused contract/test_kafka_ledger contract/test_ledger_trimming integration/test_life"),
    (r"dispatcher/election/", "unit/test_elector unit/test_elector_leases contract/test_elector contract/test_elector_leases"),
    (r"dispatcher/shard/", "unit/test_shard_due unit/test_shard_queues unit/test_shard_queues_held unit/test_shard_tell unit/test_shard_unknown unit/test_shard_cursor contract/test_fair_queues "
                          "contract/test_shard_fence integration/test_life integration/test_refused"),
    (r"^api/quota/|scheduler/store/quotas/|scheduler/job/quota", "unit/test_meter contract/test_store_quotas api/test_quotas"),
    (r"^api/schedules/|scheduler/store/schedules/|scheduler/job/schedule/|dispatcher/intake/schedule_maker",
     "unit/test_fire_plan unit/test_cron contract/test_store_schedules api/test_schedules integration/test_schedules"),
    (r"store/store_(tokens|topics|shards)\.c", "api/test_events"),
    (r"^api/topics/", "api/test_topics api/test_batch api/test_without_kafka"),
    (r"^api/work/", "api/test_batch_ends api/test_connections api/test_http"),
    (r"scheduler/alerts/|scheduler/store/alerts/|scheduler/job/alert/", "unit/test_alert contract/test_store_alerts integration/test_alerts"),
    (r"dispatcher/delivery/http/|scheduler/http/|scheduler/job/callback/|scheduler/store/hands/",
     "unit/test_pool_room contract/test_http_curl contract/test_http_curl_hosts contract/test_store_hands api/test_topics integration/test_callbacks"),
    (r"dispatcher/intake/(command|intake)|store/intents/command", "contract/test_store_commands integration/test_commands"),
    (r"dispatcher/intake/(inbox|intake|tell)|store/intents/(inbox|intents|store)", "contract/test_store_inbox integration/test_inbox"),
    (r"dispatcher/kafka/kafka_token|base/connection/|base/service/", "unit/test_connection unit/test_service unit/test_credentials api/test_commands api/test_service"),
    (r"dispatcher/chores/", "contract/test_results contract/test_outbox integration/test_life"),
    (r"scheduler/base/config", "check/configuration"),
    (r"^api/cli/", "check/command_line"),
    (r"^api/(routes|request/)", "check/openapi"),
    (r"scheduler/base/zone/|scheduler/job/schedule/", "check/cron"),
    (r"scheduler/base/text/civil", "unit/test_timetext unit/test_cron unit/test_recurrence unit/test_zone"),
    (r"dispatcher/dispatcher\.c", "integration/test_waiting_shards integration/test_without_kafka"),
    (r"scheduler/base/zone/", "unit/test_zone unit/test_cron_zones unit/test_recurrence"),
    (r"scheduler/store/(pop|limits)/|dispatcher/shard/(limit|shard_limits)", "simulated/test_store_pop simulated/test_store_limits contract/test_store_pop contract/test_store_limits api/test_pop api/test_offers"),
    (r"scheduler/store/hands/", "simulated/test_store_hands"),
    (r"scheduler/store/clock/", "contract/test_store_clock api/test_clock"),
    (r"scheduler/store/figures/", "contract/test_store_figures api/test_overview"),
    (r"store/(store_settings|topics_version|grants)\.c", "contract/test_store_schema contract/test_store_topics api/test_commands api/test_unavailable"),
    (r"^api/(http|request|work|auth|intake|topics)/|scheduler/(base|store|index)/|dispatcher/(delivery|kafka)/", "unit/test_out_of_memory unit/test_out_of_memory_apart"),
    (r"^api/(http|request|work|auth|intake|topics)/", "api/test_limits"),
    (r"^api/(?!cli|console|doctor)|scheduler/store/", "api/test_failing_statements"),
    (r"^api/.*(_json|_decode|/handlers_\w+|batch_feed)\.c|scheduler/job/(request|result|alert|callback)|scheduler/base/(json|text)", "api/test_member_types"),
    (r"^api/(intake|work|ops|quota|pull|overview|topics)/|scheduler/store/(figures|clock)/|dispatcher/(chores|intake|doctor|dispatcher)|scheduler/alerts/|delivery/http/pool/",
     "unit/test_out_of_memory_starts"),
    (r"scheduler/store/watch/", "contract/test_store_watch integration/test_without_redis"),
]


def _flat(path):
    """The path without its room; the table above goes by areas and names, or by rooms."""
    return re.sub(r"^(dispatcher|api|scheduler/store)/(?:\w+/)+", r"\1/", path)


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
        if re.search(pattern, _flat(path)) or re.search(pattern, path):
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
