-- Callbacks: what topics say about them, whose hands attempts are in, and what receivers answered.

ALTER TABLE topics
  ADD COLUMN callback_url VARBINARY(2000) NULL COMMENT 'where callbacks of jobs go that have no URL of their own',
  ADD COLUMN callback_timeout_ms BIGINT NULL COMMENT 'time for an answer; NULL = 10 seconds, or half of a shorter ack_timeout_ms',
  ADD COLUMN callback_headers BLOB NULL COMMENT 'JSON object of strings, added to each callback; values are secret',
  ADD COLUMN callback_secret VARBINARY(600) NULL COMMENT 'whsec_ and a key in base64, or two of them with a space between: signs callbacks';

ALTER TABLE jobs
  MODIFY COLUMN attempt_status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','lost','none') CHARACTER SET ascii NOT NULL DEFAULT 'none' COMMENT 'of the latest attempt',
  ADD COLUMN http_status SMALLINT NULL COMMENT 'that a receiver answered to the latest attempt; NULL = no callback, or no answer',
  ADD COLUMN duration_ms INT NULL COMMENT 'from the sending of that callback to its answer, or its failure; NULL = no callback';

ALTER TABLE attempts
  MODIFY COLUMN status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','lost','none') CHARACTER SET ascii NOT NULL,
  ADD COLUMN http_status SMALLINT NULL COMMENT 'that a receiver answered',
  ADD COLUMN duration_ms INT NULL COMMENT 'of the callback';

ALTER TABLE history
  MODIFY COLUMN attempt_status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','lost','none') CHARACTER SET ascii NOT NULL,
  ADD COLUMN http_status SMALLINT NULL,
  ADD COLUMN duration_ms INT NULL;

ALTER TABLE history_attempts
  MODIFY COLUMN status ENUM('dispatched','succeeded','failed','timed_out','snoozed','gave_up','undeliverable','lost','none') CHARACTER SET ascii NOT NULL,
  ADD COLUMN http_status SMALLINT NULL,
  ADD COLUMN duration_ms INT NULL;

CREATE TABLE IF NOT EXISTS hands (
  job_id BIGINT NOT NULL PRIMARY KEY COMMENT 'its latest attempt, claimed for a callback whose outcome is not recorded',
  attempt INT NOT NULL,
  shard SMALLINT NOT NULL COMMENT 'whose leader claimed it',
  owner BIGINT NOT NULL COMMENT 'the process that alone may put it on the wire: hand_owners.owner; 0 = nobody, the attempt is lost'
) ENGINE=InnoDB COMMENT='attempts in the hands of a process: written with the claim, deleted with the outcome, or by a leader that ends the attempt as lost';

CREATE TABLE IF NOT EXISTS hand_owners (
  owner BIGINT NOT NULL PRIMARY KEY COMMENT 'a random number that the dispatcher gave itself',
  name VARBINARY(100) NOT NULL COMMENT 'host:pid',
  timeout_ms BIGINT NOT NULL COMMENT 'so long after renewed_at the owner is gone, and what it has in its hands is lost',
  renewed_at BIGINT NOT NULL,
  renewals BIGINT NOT NULL DEFAULT 0 COMMENT 'how often'
) ENGINE=InnoDB COMMENT='dispatchers that have callbacks in their hands. A number that was not renewed in time is never used again';
