UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

-- Alerts go to `<installation>.alerts`: no topic's jobs go there, of this installation or of another on the same Kafka. A topic that has such a
-- Kafka topic must be given another one before (`UPDATE topics SET kafka_topic = …`).

ALTER TABLE topics
  ADD CONSTRAINT kafka_topics_are_not_alerts CHECK (INSTR(CONCAT(COALESCE(kafka_topic, name), '/'), '.alerts/') = 0);
