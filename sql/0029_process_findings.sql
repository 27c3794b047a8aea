-- What processes see that the API cannot see by itself, for GET /v1/doctor. See sql/README.md.

CREATE TABLE IF NOT EXISTS process_findings (
  process BIGINT NOT NULL COMMENT 'processes.id of whoever sees it; counts while that process lives',
  finding VARBINARY(40) NOT NULL COMMENT 'its name, as GET /v1/doctor tells it',
  subject VARBINARY(250) NOT NULL COMMENT 'the topic, server or file that it is about',
  detail VARBINARY(400) NOT NULL COMMENT 'what it was seen by',
  found_at BIGINT NOT NULL,
  PRIMARY KEY (process, finding, subject)
) ENGINE=InnoDB COMMENT='what is wrong with Kafka, ZooKeeper, clocks and certificates, as each dispatcher sees it: written when it changes, so nothing at rest';
