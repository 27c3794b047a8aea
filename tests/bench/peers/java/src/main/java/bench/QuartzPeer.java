package bench;

import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.Date;
import java.util.Properties;
import java.util.function.LongConsumer;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;

/** Quartz, clustered: one durable job, a trigger with the payload for each execution; batches and threads of 100. */
public final class QuartzPeer implements Peer {
  private static final String SCHEMA = "/org/quartz/impl/jdbcjobstore/tables_mysql_innodb.sql";
  private static volatile LongConsumer executed = due -> {};
  private final Scheduler scheduler;

  /** Made by Quartz, one an execution. */
  public static final class Execution implements Job {
    @Override
    public void execute(JobExecutionContext context) {
      executed.accept(context.getTrigger().getStartTime().getTime());
    }
  }

  QuartzPeer() throws Exception {
    makeTables();
    Properties settings = new Properties();
    String[][] pairs = {
      {"org.quartz.scheduler.instanceName", "bench"},
      {"org.quartz.scheduler.instanceId", "AUTO"},
      {"org.quartz.scheduler.skipUpdateCheck", "true"},
      {"org.quartz.scheduler.idleWaitTime", "1000"},
      {"org.quartz.scheduler.batchTriggerAcquisitionMaxCount", "100"},
      {"org.quartz.threadPool.class", "org.quartz.simpl.SimpleThreadPool"},
      {"org.quartz.threadPool.threadCount", "100"},
      {"org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX"},
      {"org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.StdJDBCDelegate"},
      {"org.quartz.jobStore.isClustered", "true"},
      {"org.quartz.jobStore.acquireTriggersWithinLock", "true"},
      {"org.quartz.jobStore.misfireThreshold", "3600000"},
      {"org.quartz.jobStore.dataSource", "db"},
      {"org.quartz.dataSource.db.provider", "hikaricp"},
      {"org.quartz.dataSource.db.driver", "org.mariadb.jdbc.Driver"},
      {"org.quartz.dataSource.db.URL", Peer.url()},
      {"org.quartz.dataSource.db.user", System.getenv("PEER_USER")},
      {"org.quartz.dataSource.db.password", System.getenv("PEER_PASSWORD")},
      {"org.quartz.dataSource.db.maxConnections", String.valueOf(THREADS + 10)},
    };
    for (String[] pair : pairs) {
      settings.setProperty(pair[0], pair[1]);
    }
    scheduler = new StdSchedulerFactory(settings).getScheduler();
    JobDetail job = JobBuilder.newJob(Execution.class).withIdentity("job").storeDurably().build();
    scheduler.addJob(job, true);
  }

  private static void makeTables() throws Exception {
    try (var pool = Peer.pool(1); Connection connection = pool.getConnection(); Statement statement = connection.createStatement();
        InputStream in = QuartzPeer.class.getResourceAsStream(SCHEMA)) {
      try (ResultSet found = statement.executeQuery("SHOW TABLES LIKE 'QRTZ_TRIGGERS'")) {
        if (found.next()) {
          return;
        }
      }
      String text = new String(in.readAllBytes(), StandardCharsets.UTF_8).replaceAll("(?m)^#.*$", "");
      for (String sql : text.split(";")) {
        if (!sql.isBlank() && !sql.strip().equalsIgnoreCase("commit")) {
          statement.execute(sql);
        }
      }
    }
  }

  @Override
  public void schedule(long number, long dueMs) throws Exception {
    scheduler.scheduleJob(
        TriggerBuilder.newTrigger().withIdentity(Long.toString(number)).forJob("job").usingJobData("text", TEXT).startAt(new Date(dueMs)).build());
  }

  @Override
  public void work(LongConsumer then) throws Exception {
    executed = then;
    scheduler.start();
  }

  @Override
  public void close() throws Exception {
    scheduler.shutdown(false);
  }
}
