-- Every job, live or in history. A query by id reads one row, and looks into each partition of history. For joins use
-- v_live or v_history, because servers read the whole UNION before they join it.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_jobs AS
SELECT * FROM v_live
UNION ALL
SELECT * FROM v_history;
