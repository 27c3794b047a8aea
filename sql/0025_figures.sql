-- What happened, over time, and the versions of processes. See sql/README.md.

CREATE TABLE IF NOT EXISTS figures (
  step_ms INT NOT NULL COMMENT 'length of the step: 5000 (kept for two hours) or 300000 (for two weeks)',
  topic VARBINARY(200) NOT NULL COMMENT 'empty = all topics together',
  at BIGINT NOT NULL COMMENT 'beginning of the step',
  writer BIGINT NOT NULL COMMENT 'a random number of the process that counted',
  created INT NOT NULL COMMENT 'jobs made',
  dispatched INT NOT NULL COMMENT 'attempts claimed',
  succeeded INT NOT NULL COMMENT 'jobs that ended well',
  failed INT NOT NULL COMMENT 'attempts that ended badly, whether or not another followed',
  dead INT NOT NULL COMMENT 'jobs given up',
  cancelled INT NOT NULL COMMENT 'jobs cancelled',
  overdue INT NOT NULL COMMENT 'most jobs that were due and not dispatched in shards of the writer; of all topics together',
  PRIMARY KEY (step_ms, topic, at, writer),
  KEY by_time (step_ms, at)
) ENGINE=InnoDB COMMENT='what each process committed, by step of time and topic: the sum over writers counts. Nothing happened where there is no row';

CREATE TABLE IF NOT EXISTS figures_lateness (
  step_ms INT NOT NULL,
  at BIGINT NOT NULL,
  writer BIGINT NOT NULL,
  up_to_us BIGINT NOT NULL COMMENT 'upper bound of the bucket, in microseconds; a day for whatever is later than the last bound',
  attempts INT NOT NULL COMMENT 'that were sent so late and no earlier than the bound below',
  PRIMARY KEY (step_ms, at, writer, up_to_us)
) ENGINE=InnoDB COMMENT='a histogram of the time from when attempts were due until they were sent, for each row of figures with all topics';

ALTER TABLE processes
  ADD COLUMN version VARBINARY(40) NULL COMMENT 'of the program; NULL = of one that did not say so';
