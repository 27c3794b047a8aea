-- The process that has the lease in alert_judge judges alerts: a dispatcher, or an API while no dispatcher lives. See sql/README.md.
-- No program before it: dt_watch_alerts has other parameters.

CREATE TABLE IF NOT EXISTS alert_judge (
  only_row TINYINT NOT NULL PRIMARY KEY COMMENT '1',
  process BIGINT NOT NULL COMMENT 'processes.id of the process that judges alerts and sends their messages'
) ENGINE=InnoDB COMMENT='one row: a lease, which its process renews with its row in processes (seen_at) and which ends four seconds later';

ALTER TABLE alerts
  MODIFY COLUMN kind ENUM('overdue','backlog','dead','unreported','shard_halted','no_leader','kafka_unwritable','index_incomplete','inbox_errors','audit_corrected','no_dispatcher') CHARACTER SET ascii NOT NULL;

ALTER TABLE alert_messages
  MODIFY COLUMN kind ENUM('overdue','backlog','dead','unreported','shard_halted','no_leader','kafka_unwritable','index_incomplete','inbox_errors','audit_corrected','no_dispatcher') CHARACTER SET ascii NOT NULL;

-- defines dt_watch_alerts 752b6828382a
