-- Ids that callers of the commands gave to their jobs: each once in the installation.

CREATE TABLE IF NOT EXISTS command_ids (
  id VARBINARY(255) NOT NULL PRIMARY KEY,
  job_id BIGINT NOT NULL COMMENT 'the job that was added with it, whose key it is'
) ENGINE=InnoDB COMMENT='ids of jobs that were added by a command; free again when the job''s key is';
