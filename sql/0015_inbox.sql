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

-- Rows that could not be carried out.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_inbox_errors AS
SELECT i.id, i.action, i.topic, i.job_key, i.job_id,
       CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(i.created_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS created_at,
       CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(i.error_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS error_at,
       i.error
  FROM job_inbox i
 WHERE i.error IS NOT NULL;

DELIMITER $$

-- Waits until the inbox has an open row, for p_wait_ms at most, and tells id and size of those behind p_after, a thousand at most. One
-- session looks, under GET_LOCK, five times a second; the others wait for the lock, and tell of nothing. When the session that looks
-- ends, the next one looks at once.
DROP PROCEDURE IF EXISTS dt_watch_inbox$$
CREATE PROCEDURE dt_watch_inbox(IN p_after BIGINT, IN p_wait_ms BIGINT)
  READS SQL DATA
  SQL SECURITY INVOKER
  COMMENT 'for dispatchers: waits for rows of job_inbox'
BEGIN
  DECLARE v_name VARCHAR(64) DEFAULT CONCAT('duetime.inbox.', LEFT(SHA2(DATABASE(), 256), 40));
  DECLARE v_end BIGINT DEFAULT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED) + p_wait_ms;
  DECLARE v_ours, v_ends BOOLEAN DEFAULT FALSE;

  SET v_ours = COALESCE(IS_USED_LOCK(v_name) = CONNECTION_ID(), FALSE);
  IF NOT v_ours THEN
    SET v_ours = COALESCE(GET_LOCK(v_name, CEIL(p_wait_ms / 1000)), 0);
  END IF;
  waiting: WHILE v_ours DO
    SELECT EXISTS (SELECT 1 FROM job_inbox FORCE INDEX (open_rows) WHERE is_open = 1) INTO v_ends;
    IF v_ends OR CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED) >= v_end THEN
      LEAVE waiting;
    END IF;
    DO SLEEP(0.2);
  END WHILE;

  SELECT id, COALESCE(LENGTH(payload), 0) + COALESCE(LENGTH(options), 0)
    FROM job_inbox FORCE INDEX (open_rows)
   WHERE is_open = 1 AND id > p_after AND v_ends
   ORDER BY id LIMIT 1000;
END$$

DELIMITER ;
