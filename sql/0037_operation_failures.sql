-- Operations on jobs whose last failure was in a stretch of time.
-- No program before it: it would change jobs of such an operation whenever they have failed.

ALTER TABLE operations
  ADD COLUMN failed_from BIGINT NULL COMMENT 'the last failure of the jobs was no earlier; NULL = whenever, or never',
  ADD COLUMN failed_to BIGINT NULL COMMENT 'exclusive; NULL with failed_from';
