-- Jobs that wait to be popped: a leader offers what is due, an API claims it for its client.
CREATE TABLE IF NOT EXISTS pop_queue (
  topic VARBINARY(200) NOT NULL,
  due_at BIGINT NOT NULL COMMENT 'next_at of the job when it was offered; 1 where that was zero or less',
  job_id BIGINT NOT NULL,
  PRIMARY KEY (topic, due_at, job_id)
) ENGINE=InnoDB COMMENT='due jobs of topics whose delivery is pull, in the order in which they are popped. A row is a hint: the claim decides by the job''s row, and takes both away together';

-- A row that is offered has `near` at -1, so due_band -1: scans of what is due do not meet it.
ALTER TABLE jobs
  ADD COLUMN ttr_ms BIGINT NOT NULL DEFAULT 0 COMMENT 'time to report that a pop asked for, in place of ack_timeout_ms, of the latest attempt; 0 = it asked for none';

-- defines v_overdue 36dec630f2ab
-- defines v_backlog 47326bce5162
