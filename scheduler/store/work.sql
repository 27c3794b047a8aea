-- Leases for work that only one process should do at a time (store/leases.h).

-- MySQL assigns the columns from left to right: the first assignment decides who has the lease, and the second depends
-- on the result. A lease that ends far in the future counts as expired, because the server's clock may have been set
-- back.
-- name: take_work_lease
INSERT INTO work_leases (work, holder, until_at)
VALUES (?, ?, CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) + ?)
ON DUPLICATE KEY UPDATE
  holder = IF(until_at <= CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) OR until_at > VALUES(until_at) + 120000, VALUES(holder), holder),
  until_at = IF(holder = VALUES(holder), VALUES(until_at), until_at);

-- name: select_work_lease
SELECT COUNT(*) FROM work_leases WHERE work = ? AND holder = ?;

-- name: release_work_lease
DELETE FROM work_leases WHERE work = ? AND holder = ?;
