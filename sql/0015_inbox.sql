-- Jobs that applications ask for inside their own transactions.
CREATE TABLE IF NOT EXISTS job_inbox (
  id BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT COMMENT 'of the rows of a key that are committed the lowest goes first',
  action ENUM('create', 'replace', 'cancel', 'change', 'run_now') NOT NULL DEFAULT 'create',
  topic VARBINARY(1000) NULL,
  job_key VARBINARY(1000) NULL,
  job_id BIGINT NULL COMMENT 'names a job that has no key; not of create and replace',
  run_at BIGINT NULL COMMENT 'ms UTC; this or delay_ms',
  delay_ms BIGINT NULL COMMENT 'counts from created_at',
  payload MEDIUMBLOB NULL COMMENT 'JSON; any bytes when options has content_type',
  options MEDIUMBLOB NULL COMMENT 'a JSON object: retry, ack_timeout, headers, partition_key, content_type, callback_url',
  created_at BIGINT NOT NULL DEFAULT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000) COMMENT 'ms UTC, of the INSERT',
  error VARCHAR(2000) CHARACTER SET utf8mb4 NULL COMMENT 'why it could not be carried out; NULL: it is to be carried out, or once more',
  error_at BIGINT NULL COMMENT 'ms UTC',
  is_open TINYINT GENERATED ALWAYS AS (IF(error IS NULL, 1, NULL)) STORED COMMENT '1: it is to be carried out; else NULL',
  KEY open_rows (is_open, id),
  KEY by_error (error_at)
) ENGINE=InnoDB COMMENT='what applications ask for; dispatchers carry it out and remove the row, in one transaction';

-- defines v_inbox_errors faef7b13eb0a
-- defines dt_watch_inbox
