-- Views and procedures answer whatever numbers the rows hold, where they ended with an error of the server: numbers that rise stay within their
-- CHECK, what comes back from history fits into `jobs`, and no sum leaves its type.

UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

-- defines v_live e94dfeac2070
-- defines v_jobs 59772069203a
-- defines v_backlog 45b65591bf1d
-- defines v_audit 8e5355b5e162
-- defines v_recount a564df8cf1b2
-- defines v_history_audit 726f06940ddf
-- defines dt_begin_operation 2290e8f9f5d8
-- defines dt_cancel c27419e376a7
-- defines dt_clear_halt 917a8692e1c1
-- defines dt_mark_sent 20c2688d3b2f
-- defines dt_redrive fe3c4408dd09
-- defines dt_renew_member ae18f7642cd1
-- defines dt_reschedule e167b03a4cc3
-- defines dt_watch_alerts 6c00befbfb5b
