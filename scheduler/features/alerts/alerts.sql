-- Alerts: the figures that begin and end them, active alerts, and messages about alerts (features/alerts/alerts.h).

-- name: watch_alerts
CALL dt_watch_alerts(?);

-- name: select_alert_topics
SELECT name, alerts, owner FROM topics WHERE alerts IS NOT NULL;

-- name: select_all_alert_topics
SELECT name, alerts, owner FROM topics;

-- name: count_alert_jobs
SELECT c.topic, CAST(SUM(c.scheduled) AS SIGNED), CAST(SUM(c.dispatched) AS SIGNED), CAST(SUM(c.dead) AS SIGNED)
  FROM JSON_TABLE(?, '$[*]' COLUMNS(name VARCHAR(200) CHARACTER SET ascii PATH '$')) t
  STRAIGHT_JOIN job_counts c FORCE INDEX (PRIMARY) ON c.topic = CAST(t.name AS BINARY)
 GROUP BY c.topic
UNION ALL
SELECT h.topic, 0, 0, CAST(SUM(h.jobs) AS SIGNED)
  FROM JSON_TABLE(?, '$[*]' COLUMNS(name VARCHAR(200) CHARACTER SET ascii PATH '$')) t
  STRAIGHT_JOIN history_counts h FORCE INDEX (PRIMARY) ON h.topic = CAST(t.name AS BINARY) AND h.state = 'dead'
 GROUP BY h.topic;

-- Finds the end of the next slice of the due index. A slice has at most the given number of rows of each band. Reads
-- the index alone.
-- name: find_alert_slice
SELECT due_key, id
  FROM ((SELECT due_key, id
           FROM jobs FORCE INDEX (due)
          WHERE due_band = -1
            AND (due_key > ? OR (due_key = ? AND id > ?))
            AND due_key <= ?
          ORDER BY due_key, id LIMIT 1 OFFSET ?)
        UNION ALL
        (SELECT due_key, id
           FROM jobs FORCE INDEX (due)
          WHERE due_band = 1
            AND (due_key > ? OR (due_key = ? AND id > ?))
            AND due_key <= ?
          ORDER BY due_key, id LIMIT 1 OFFSET ?)) s
 ORDER BY due_key, id LIMIT 1;

-- Returns, for each topic in a slice of the due index, the number of its due jobs, the time of the oldest of them, and
-- the oldest dispatch without a report. If an attempt's deadline was extended, the time of the extension counts instead
-- of the dispatch. If a job is offered or the offer is withdrawn, its row moves to the other band with the same key. So
-- one statement reads both bands.
-- name: walk_alert_jobs
SELECT j.topic,
       CAST(SUM(j.state = 'scheduled' AND j.due_key <= ?) AS SIGNED),
       MIN(IF(j.state = 'scheduled' AND j.due_key <= ? AND j.due_key > 1, j.due_key, NULL)),
       MIN(CASE
             WHEN j.attempt = 0 OR j.attempt_status NOT IN ('dispatched','timed_out','lost') THEN NULL
             WHEN j.attempt_status = 'dispatched'
                  AND GREATEST(j.next_at, 1) - COALESCE(NULLIF(j.ttr_ms, 0), j.ack_timeout_ms) > j.dispatched_at + 60000
               THEN j.next_at - COALESCE(NULLIF(j.ttr_ms, 0), j.ack_timeout_ms)
             WHEN j.attempt = 1 THEN j.dispatched_at
             ELSE LEAST(j.dispatched_at, COALESCE((
               SELECT MIN(a.dispatched_at)
                 FROM attempts a FORCE INDEX (PRIMARY)
                WHERE a.job_id = j.id
                  AND a.attempt > COALESCE((SELECT MAX(b.attempt)
                                              FROM attempts b FORCE INDEX (PRIMARY)
                                             WHERE b.job_id = j.id
                                               AND b.status IN ('succeeded','failed','snoozed','gave_up')), 0)),
               j.dispatched_at))
           END)
  FROM jobs j FORCE INDEX (due)
 WHERE j.due_band IN (-1, 1)
   AND (j.due_key > ? OR (j.due_key = ? AND j.id > ?))
   AND (j.due_key < ? OR (j.due_key = ? AND j.id <= ?))
 GROUP BY j.topic;

-- ---- which stand ----

-- name: select_alerts
SELECT id, topic, kind + 0, value, bound, began_at, told_at, silenced_until
  FROM alerts
 WHERE id > ?
 ORDER BY id LIMIT ?;

-- name: select_alert
SELECT id, topic, kind + 0, value, bound, began_at, told_at, silenced_until
  FROM alerts
 WHERE id = ?;

-- Locks the judge's lease for the transaction, if this process still holds it. A process that takes the lease over
-- waits for this lock.
-- name: lock_alert_judge
SELECT 1
  FROM alert_judge j
  STRAIGHT_JOIN processes p ON p.id = j.process
 WHERE j.only_row = 1
   AND j.process = ?
   AND p.seen_at > CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) - 4000
  LOCK IN SHARE MODE;

-- name: insert_alert
INSERT INTO alerts (topic, kind, value, bound, began_at, told_at)
VALUES (?,?,?,?,?,?);

-- name: select_last_alert
SELECT LAST_INSERT_ID();

-- name: tell_alert
UPDATE alerts
   SET value = ?, bound = ?, told_at = ?
 WHERE id = ?
   AND told_at <=> ?;

-- name: delete_alert
DELETE FROM alerts WHERE id = ?;

-- name: set_alert_values
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$[0]', value BIGINT PATH '$[1]', bound BIGINT PATH '$[2]')) r
  STRAIGHT_JOIN alerts a FORCE INDEX (PRIMARY) ON a.id = r.id
   SET a.value = r.value, a.bound = r.bound;

-- name: silence_alert
UPDATE alerts
   SET silenced_until = ?
 WHERE id = ?;

-- ---- messages ----

-- Messages for Kafka and webhooks are counted separately. The first parameter selects those for Kafka.
-- name: count_alert_messages
SELECT COUNT(*) FROM (SELECT 1 FROM messages m FORCE INDEX (due) WHERE m.kind = 'alert' AND (m.target = 'kafka') = ? LIMIT ?) m;

-- Counts the messages about the topics of an owner. Messages without a topic are those of the installation, which
-- counts as an owner.
-- name: count_alert_messages_of_owner
SELECT COUNT(*) FROM (
SELECT 1
  FROM messages m FORCE INDEX (due)
  LEFT JOIN topics t ON t.name = m.topic
 WHERE m.kind = 'alert'
   AND (m.target = 'kafka') = ?
   AND COALESCE(t.owner, 0) = COALESCE((SELECT o.owner FROM topics o WHERE o.name = ?), 0)
 LIMIT ?) m;

-- name: insert_alert_message
INSERT INTO messages (kind, sender, alert, type, target, topic, alert_kind, value, bound, began_at, made_at)
VALUES ('alert',0,?,?,?,?,?,?,?,?,?);

-- The previous judge has died. Makes the messages due that it was sending for the first time: no process is sending
-- them now.
-- name: free_alert_messages
UPDATE messages FORCE INDEX (due)
   SET next_at = 0
 WHERE kind = 'alert'
   AND tries > 0
   AND error IS NULL;
