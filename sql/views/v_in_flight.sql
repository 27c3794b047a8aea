-- Attempts that are claimed and not settled, in the order in which they are sent. Check them if a shard is halted.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW v_in_flight AS
SELECT
  s.shard,
  f.place,
  f.place <= s.send_n AS goes_next,
  f.job_id,
  f.attempt,
  CONCAT(f.job_id, '/', f.attempt) AS ce_id,
  COALESCE(t.kafka_name, j.topic) AS kafka_topic,
  j.state,
  j.attempt AS latest_attempt,
  CAST('1970-01-01' + INTERVAL (LEAST(GREATEST(f.due_at, -30610224000000), 253402300799999) * 1000) MICROSECOND AS DATETIME(3)) AS due_at
FROM shards s
JOIN JSON_TABLE(IF(JSON_VALID(s.inflight), s.inflight, '[]'), '$[*]' COLUMNS(
  place FOR ORDINALITY,
  job_id BIGINT PATH '$[0]',
  attempt INT PATH '$[1]',
  due_at BIGINT PATH '$[2]')) f
LEFT JOIN jobs j ON j.id = f.job_id
LEFT JOIN topics t ON t.name = j.topic;
