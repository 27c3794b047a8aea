-- Quotas of tokens: what each may ask for, and which share of it each API process lets pass.

ALTER TABLE api_tokens
  ADD COLUMN requests_per_second BIGINT NULL COMMENT 'quota: requests in a second; NULL = the configuration''s, 0 = none',
  ADD COLUMN jobs_per_second BIGINT NULL COMMENT 'quota: new jobs in a second; NULL = the configuration''s, 0 = none',
  ADD COLUMN payload_bytes_per_second BIGINT NULL COMMENT 'quota: bytes of payloads of new jobs in a second; NULL = the configuration''s, 0 = none',
  ADD COLUMN pending_jobs BIGINT NULL COMMENT 'quota: jobs of its topics that are not finished; NULL = the configuration''s, 0 = none';

CREATE TABLE IF NOT EXISTS quota_shares (
  token BIGINT NOT NULL COMMENT 'the first 63 bits of api_tokens.hash',
  process BIGINT NOT NULL COMMENT 'an API process, by a random number; 0: a row to lock',
  until BIGINT NOT NULL COMMENT 'when the share ends that is not renewed',
  requests_demand BIGINT NOT NULL DEFAULT 0 COMMENT 'requests that came to the process in a second',
  requests_share INT NOT NULL DEFAULT 0 COMMENT 'millionths of the quota that the process lets pass',
  jobs_demand BIGINT NOT NULL DEFAULT 0,
  jobs_share INT NOT NULL DEFAULT 0,
  bytes_demand BIGINT NOT NULL DEFAULT 0,
  bytes_share INT NOT NULL DEFAULT 0,
  PRIMARY KEY (token, process)
) ENGINE=InnoDB COMMENT='who lets pass which part of a quota; of one token all together at most the whole. Only of tokens that were in use a moment ago';
