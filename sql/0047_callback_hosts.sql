UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

-- A topic's headers and signature go to the topic's own scheme, host and port, and to those that it lists: a job may name any URL.

ALTER TABLE topics
  ADD COLUMN callback_hosts VARBINARY(4000) NULL COMMENT 'scheme://host[:port], between commas: further places to which callback_headers and the signature may go';
