-- Every job, wherever its row stands. By id: one row, and a look into each partition of history. For joins take v_live or
-- v_history: servers read a UNION as a whole before they join it.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_jobs AS
SELECT * FROM v_live
UNION ALL
SELECT * FROM v_history;
