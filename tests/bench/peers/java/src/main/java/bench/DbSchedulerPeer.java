package bench;

import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.jdbc.MySQL8JdbcCustomization;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.util.function.LongConsumer;

/** db-scheduler: looks every 10 ms, rows locked and fetched in one go where the dialect can. An instance's name carries its due time. */
final class DbSchedulerPeer implements Peer {
  private static final String TABLE =
      "CREATE TABLE IF NOT EXISTS scheduled_tasks (task_name VARCHAR(100) NOT NULL, task_instance VARCHAR(100) NOT NULL, "
          + "task_data BLOB, execution_time TIMESTAMP(6) NOT NULL, picked BOOLEAN NOT NULL, picked_by VARCHAR(50), "
          + "last_success TIMESTAMP(6) NULL, last_failure TIMESTAMP(6) NULL, consecutive_failures INT, "
          + "last_heartbeat TIMESTAMP(6) NULL, version BIGINT NOT NULL, priority SMALLINT, "
          + "PRIMARY KEY (task_name, task_instance), INDEX by_time (execution_time), INDEX by_heartbeat (last_heartbeat))";

  private final HikariDataSource pool = Peer.pool(THREADS + 10);
  private volatile LongConsumer executed = due -> {};
  private final OneTimeTask<String> task =
      Tasks.oneTime("bench", String.class)
          .execute((instance, context) -> executed.accept(Long.parseLong(instance.getId().split(":")[1])));
  private final SchedulerClient client;
  private Scheduler scheduler;

  DbSchedulerPeer() throws Exception {
    try (Connection connection = pool.getConnection(); Statement statement = connection.createStatement()) {
      statement.execute(TABLE);
    }
    client = SchedulerClient.Builder.create(pool, task).jdbcCustomization(new MySQL8JdbcCustomization(true)).build();
  }

  @Override
  public void schedule(long number, long dueMs) {
    client.scheduleIfNotExists(task.instance(number + ":" + dueMs, TEXT), Instant.ofEpochMilli(dueMs));
  }

  @Override
  public void work(LongConsumer then) {
    executed = then;
    scheduler =
        Scheduler.create(pool, task)
            .jdbcCustomization(new MySQL8JdbcCustomization(true))
            .threads(THREADS)
            .pollingInterval(Duration.ofMillis(10))
            .pollUsingLockAndFetch(1.0, 4.0)
            .build();
    scheduler.start();
  }

  @Override
  public void close() {
    if (scheduler != null) {
      scheduler.stop();
    }
    pool.close();
  }
}
