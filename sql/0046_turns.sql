UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

-- Owners take turns at operations and at schedules, and fires spend the quotas of their owner's tokens: for all makers of fires together there is one
-- row in quota_shares, of the process 2.

ALTER TABLE operations
  ADD COLUMN owner BIGINT NOT NULL DEFAULT 0 COMMENT 'owners take turns: topics.owner of its topic, or for several topics the owner of the token that asked; if a token for all topics asked: negated, or 0 for several topics',
  ADD KEY turns (owner, look_at);

ALTER TABLE schedule_fires
  ADD COLUMN owner BIGINT NOT NULL DEFAULT 0 COMMENT 'of its topic, as it was when the schedule was looked at last',
  ADD COLUMN waits_since BIGINT NULL COMMENT 'when fires began to wait because a quota of the owner was used up; fires that are due since then are made later; NULL = no fire waits',
  ADD KEY turns (owner, look_at);

ALTER TABLE quota_shares
  MODIFY COLUMN token BIGINT NOT NULL COMMENT 'the first 63 bits of a hash of api_tokens.name',
  MODIFY COLUMN process BIGINT NOT NULL COMMENT 'an API process, by an odd random number; 2: all makers of fires; 0: a row to lock',
  ADD COLUMN jobs_left BIGINT NOT NULL DEFAULT 0 COMMENT 'of the process 2: thousandths of jobs that could be made at left_at',
  ADD COLUMN left_at BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN pending_left BIGINT NOT NULL DEFAULT 0 COMMENT 'process 2: how many more pending jobs the quota allowed at left_at',
  ADD COLUMN count_at BIGINT NOT NULL DEFAULT 0 COMMENT 'when they are counted again';
