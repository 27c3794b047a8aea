-- duetime: the clock of an installation for tests (installation.test_clock). See sql/README.md, "The test clock".
UPDATE schema_migrations SET needs = 33 WHERE applied_at = 0;

CREATE TABLE IF NOT EXISTS test_clock (
  one TINYINT NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  ahead_ms BIGINT NOT NULL DEFAULT 0 COMMENT 'so far ahead of the server''s clock it is while it goes on',
  frozen_at BIGINT NULL COMMENT 'the instant at which it stands still; NULL = it goes on',
  version BIGINT NOT NULL DEFAULT 1 COMMENT 'raised by every change',
  changed_at BIGINT NOT NULL COMMENT 'by the server''s clock'
) ENGINE=InnoDB COMMENT='one row in an installation that was made with installation.test_clock, none in any other';

-- defines dt_watch_clock d971045ab253
-- defines dt_watch dd5d0a32e0ed
-- defines dt_watch_inbox
