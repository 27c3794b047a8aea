-- Adds dt_wait, with which each process waits in the server for all its events in one statement; and leases for work
-- that only one process at a time may do. dt_watch, dt_watch_clock and dt_watch_inbox remain for older programs.
UPDATE schema_migrations SET needs = 1 WHERE applied_at = 0;

CREATE TABLE IF NOT EXISTS work_leases (
  work VARBINARY(40) NOT NULL PRIMARY KEY COMMENT 'work that one process at a time does: partitions, clock',
  holder BIGINT NOT NULL COMMENT 'random; drawn by the holder for this work',
  until_at BIGINT NOT NULL COMMENT 'by the server''s clock: when another process may take it. The holder renews it while it works'
) ENGINE=InnoDB COMMENT='which process does work that one process at a time does; the row is deleted when the work is done. Versions and states guard the results, not this row';

-- defines dt_wait 282efae72dd1
