-- Leaders elected without ZooKeeper: members of the election, and the shards that they lead.

CREATE TABLE IF NOT EXISTS election_members (
  id BIGINT NOT NULL PRIMARY KEY COMMENT 'a random number that the dispatcher gave itself when it joined',
  name VARBINARY(100) NOT NULL COMMENT 'host:pid',
  timeout_ms BIGINT NOT NULL COMMENT 'zookeeper.session_timeout of the dispatcher: so long after renewed_at the member may be ended',
  joined_at BIGINT NOT NULL COMMENT 'who joined first leads one shard more when shards do not divide evenly',
  renewed_at BIGINT NOT NULL COMMENT 'written by the dispatcher every 0.3 timeouts: this one statement renews all of its leases',
  renewals BIGINT NOT NULL DEFAULT 0 COMMENT 'how often; others watch whether it stands still',
  leaving BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'it takes no more shards, and gives back what it has',
  ended BOOLEAN NOT NULL DEFAULT FALSE COMMENT 'it left, or another one ended it after its timeout; never false again: a dispatcher that comes back joins anew'
) ENGINE=InnoDB COMMENT='dispatchers that elect leaders by leases (zookeeper.servers is empty). Rows that ended are removed by who joins a minute later';

CREATE TABLE IF NOT EXISTS leases (
  shard INT NOT NULL PRIMARY KEY,
  member BIGINT NOT NULL COMMENT 'whose lease it is, as long as that member has not ended',
  KEY by_member (member)
) ENGINE=InnoDB COMMENT='one row a shard that is led: who should lead it. What is written is guarded by shards.epoch, not by this';
