-- What tokens are used for, by days.

UPDATE schema_migrations SET needs = 32 WHERE applied_at = 0;

CREATE TABLE IF NOT EXISTS token_usage (
  day BIGINT NOT NULL COMMENT 'its beginning, UTC',
  token VARBINARY(100) NOT NULL COMMENT 'name of the token',
  requests BIGINT NOT NULL DEFAULT 0 COMMENT 'let pass',
  requests_refused BIGINT NOT NULL DEFAULT 0 COMMENT 'over a quota',
  jobs BIGINT NOT NULL DEFAULT 0 COMMENT 'made',
  jobs_refused BIGINT NOT NULL DEFAULT 0 COMMENT 'over a quota',
  payload_bytes BIGINT NOT NULL DEFAULT 0 COMMENT 'of the jobs that were made',
  PRIMARY KEY (day, token)
) ENGINE=InnoDB COMMENT='what each token was used for on each day; kept for 400 days';
