UPDATE schema_migrations SET needs = 33 WHERE applied_at = 0;

-- Each claim and each result adds one to these. A row whose number cannot rise would refuse the statement for all jobs of its batch, again and
-- again: what a manual edit may set leaves room.

ALTER TABLE jobs
  ADD CONSTRAINT numbers_can_rise CHECK (attempt < 2000000000 AND failures < 2000000000 AND version < 2000000000);
