/*
 * Processes of the simulated installation, and the election as they see it.
 *
 * One election stands for both of the product's, ZooKeeper's sessions and leases in MySQL: elector.h promises the same of
 * either, and this one breaks the promise in every way that either can. Sessions end while their process works on, a
 * process learns of it late, and two are told at once that they lead one shard, for seconds (zookeeper_two_leaders): as
 * after a MySQL whose clock jumped, or which came back without the last leases, or in an installation of which one half
 * has ZooKeeper. So whatever a lease does wrong, the fence was tried against it. The names say ZooKeeper for short.
 */
#pragma once

#include "base/config.h"
#include "simulator/world.h"

#define LOCK_TIMEOUT_US     (1 * SEC)
#define IDLE_TRANSACTION_US (2 * SEC)
#define IO_TIMEOUT_US       (1 * SEC)
#define TRANSACTION_US      (2 * SEC)   /* Kafka's transaction timeout */
#define SESSION_US          (1 * SEC)   /* ZooKeeper's session timeout */
#define LEASE_US            (1500 * MS) /* of what a process has in its hands: zookeeper.session_timeout */

bool process_is_dispatcher(const struct proc *proc);
bool process_is_api(const struct proc *proc);
/* kill -9, and a new one soon. Does not return when the caller is a fiber of it. */
void process_crash(struct proc *proc);
/* It was stopped: its session expires unless it comes back in time. */
void zookeeper_noticed_silence(struct proc *proc);

/* ---- the installation ---- */
void processes_begin(const struct dt_config *config, unsigned dispatchers);
struct proc *process_dispatcher(unsigned i); /* the present one in that place; NULL while there is none */
unsigned process_dispatchers(void);
/* Everything that lies is put right: one leader a shard, all that should run runs. */
void processes_heal(void);
/* A shard is given to another process while the old leader is not told, for so long. */
void zookeeper_two_leaders(unsigned shard, int64_t us);
void zookeeper_expire(struct proc *proc);
void process_terminate(struct proc *proc); /* SIGTERM */
