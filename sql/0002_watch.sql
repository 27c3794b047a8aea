-- One wait in the server for a process, and leases for what one process at a time does. dt_watch, dt_watch_clock and dt_watch_inbox stay
-- where they are, for programs of before.
UPDATE schema_migrations SET needs = 1 WHERE applied_at = 0;

CREATE TABLE IF NOT EXISTS work_leases (
  work VARBINARY(40) NOT NULL PRIMARY KEY COMMENT 'what one process at a time does: partitions, clock',
  holder BIGINT NOT NULL COMMENT 'a random number that the holder drew for this piece of work',
  until_at BIGINT NOT NULL COMMENT 'by the clock of the server: from then on another one may take it. The holder renews it while it works'
) ENGINE=InnoDB COMMENT='who does what one process at a time does; a row is removed when the work is done. What is written is guarded by versions and states, not by this';

-- defines dt_wait 22959ff5de0b
