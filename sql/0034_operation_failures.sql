-- Operations on jobs whose last failure was in a stretch of time.

ALTER TABLE operations
  ADD COLUMN failed_from BIGINT NULL COMMENT 'the last failure of the jobs was no earlier; NULL = whenever, or never',
  ADD COLUMN failed_to BIGINT NULL COMMENT 'exclusive; NULL with failed_from';
