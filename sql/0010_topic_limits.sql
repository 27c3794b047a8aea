-- Limits of a topic: how many attempts may be in flight, and how many may begin in a second or a minute.
ALTER TABLE topics
  ADD COLUMN max_in_flight INT NULL COMMENT 'attempts that may be dispatched and not reported; NULL = any number',
  ADD CONSTRAINT max_in_flight_is_a_number CHECK (max_in_flight > 0);

ALTER TABLE topics
  ADD COLUMN rate_limit VARCHAR(20) CHARACTER SET ascii NULL COMMENT 'attempts that may begin, e.g. 100/s or 600/m; NULL = any number',
  ADD CONSTRAINT rate_limit_is_a_rate CHECK (rate_limit REGEXP '^[1-9][0-9]{0,6}/[sm]$');

CREATE TABLE IF NOT EXISTS topic_gates (
  topic VARBINARY(200) NOT NULL PRIMARY KEY,
  next_ns BIGINT NOT NULL DEFAULT 0 COMMENT 'nanoseconds since 1970: when the next attempt would begin if they came at the topic''s rate',
  interval_ns BIGINT NOT NULL DEFAULT 0 COMMENT 'nanoseconds between attempts at the rate that next_ns was counted with; 0 = none yet',
  opens_at BIGINT NOT NULL DEFAULT 0 COMMENT 'nothing is claimed before: set with a topic''s first limit, because claims that do not know it may be under way'
) ENGINE=InnoDB COMMENT='one row a topic that has, or had, a limit: whoever claims jobs of it holds the lock of the row until its commit, so claims come one after the other';

-- defines v_live
