-- Topics that were deleted. See sql/README.md.

CREATE TABLE IF NOT EXISTS deleted_topics (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  deleted_at BIGINT NOT NULL,
  KEY deleted_at (deleted_at)
) ENGINE=InnoDB COMMENT='topics that were deleted within a day: one that an API did not hear of in time is made again, with defaults, if it got a job';

ALTER TABLE schedules
  ADD KEY topic (topic);
