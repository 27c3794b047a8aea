-- A dispatcher says who elected it from when it is elected on: it leads only when it has taken over, which others may hinder it in.

UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

ALTER TABLE processes
  ADD COLUMN elected_by VARBINARY(20) NULL COMMENT 'of a dispatcher that is elected for a shard, whether it leads it yet or not: zookeeper or mysql; NULL of any other';

-- defines dt_renew_member 7a00c98cd73e
