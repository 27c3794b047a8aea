UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

-- A topic has a name in Kafka while its delivery is kafka, or if kafka_topic names one: names that installations keep for themselves are refused only
-- then. An ending is looked for with a '/' after the name.
ALTER TABLE topics DROP CONSTRAINT kafka_topics_are_not_internal;
ALTER TABLE topics DROP CONSTRAINT kafka_topics_are_not_alerts;
ALTER TABLE topics
  ADD CONSTRAINT kafka_topics_are_not_records CHECK (
    (kafka_topic IS NULL AND delivery <> 'kafka')
    OR (INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.ledger/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.results/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.results.rejected/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.commands/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.commands.rejected/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.dead/') = 0
    AND INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.alerts/') = 0
    AND LEFT(COALESCE(kafka_topic, name), 2) <> '__'));

-- An account that may insert into all columns of job_inbox cannot end its numbers for others: after a row with the last id no INSERT would succeed.
-- A CHECK cannot look at an AUTO_INCREMENT column, and would refuse the errors that dispatchers write. An id that the server gives is still 0 here.
UPDATE job_inbox SET created_at = LEAST(GREATEST(created_at, 0), 253402300799999) WHERE created_at < 0 OR created_at > 253402300799999;
ALTER TABLE job_inbox
  ADD CONSTRAINT created_at_is_a_time CHECK (created_at >= 0 AND created_at <= 253402300799999);

DELIMITER $$
CREATE TRIGGER IF NOT EXISTS job_inbox_bounds BEFORE INSERT ON job_inbox FOR EACH ROW
BEGIN
  IF NEW.id < 0 OR NEW.id > 4611686018427387903 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'job_inbox: id must be left out, or be from 1 to 4611686018427387903';
  END IF;
  IF NEW.error IS NOT NULL OR NEW.error_at IS NOT NULL THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'job_inbox: error and error_at are written by dispatchers';
  END IF;
END$$
DELIMITER ;
