package bench;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.util.function.LongConsumer;

/** A scheduler as the load sees it: takes a job for a time, and says when it executes one. */
interface Peer extends AutoCloseable {
  String TEXT = "x".repeat(200);
  int THREADS = 100;

  /** Returns when the job is durable. Called by many threads. */
  void schedule(long number, long dueMs) throws Exception;

  /** From now on due jobs are executed: `executed` is called with the due time of each, at the start of its execution. */
  void work(LongConsumer executed) throws Exception;

  @Override
  void close() throws Exception;

  static String url() {
    return System.getenv("PEER_URL");
  }

  static HikariDataSource pool(int size) {
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl(url());
    config.setUsername(System.getenv("PEER_USER"));
    config.setPassword(System.getenv("PEER_PASSWORD"));
    config.setMaximumPoolSize(size);
    return new HikariDataSource(config);
  }
}
