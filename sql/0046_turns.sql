UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

-- Owners take turns at operations and at schedules, and fires spend the quotas of their owner's tokens: for all makers of fires together there is one
-- row in quota_shares, of the process 2.

ALTER TABLE operations
  ADD COLUMN owner BIGINT NOT NULL DEFAULT 0 COMMENT 'who takes turns with others: the owner of its topic (topics.owner), or of several topics that of the token; less than zero: the same, asked for by a token for all topics; 0 = asked for by such a token, of several topics',
  ADD KEY turns (owner, look_at);

ALTER TABLE schedule_fires
  ADD COLUMN owner BIGINT NOT NULL DEFAULT 0 COMMENT 'of its topic, as it was when the schedule was looked at last',
  ADD COLUMN waits_since BIGINT NULL COMMENT 'since when fires wait because a quota of the owner is used up: those that fell due since then are made later; NULL = none waits',
  ADD KEY turns (owner, look_at);

ALTER TABLE quota_shares
  MODIFY COLUMN token BIGINT NOT NULL COMMENT 'the first 63 bits of a hash of api_tokens.name',
  MODIFY COLUMN process BIGINT NOT NULL COMMENT 'an API process, by an odd random number; 2: all makers of fires; 0: a row to lock',
  ADD COLUMN jobs_left BIGINT NOT NULL DEFAULT 0 COMMENT 'of the process 2: thousandths of jobs that could be made at left_at',
  ADD COLUMN left_at BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN pending_left BIGINT NOT NULL DEFAULT 0 COMMENT 'of the process 2: by how many jobs the quota of pending ones was not reached',
  ADD COLUMN count_at BIGINT NOT NULL DEFAULT 0 COMMENT 'when they are counted again';
