package duetime.examples;

import duetime.client.Duetime;
import duetime.client.DuetimeException;
import duetime.client.Job;
import duetime.client.Report;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * A worker that pops: Worker TOPIC. The server lets it wait for due jobs; it has TTR for each attempt and asks for more while it works; on SIGTERM
 * it ends what it has begun, reports it, and takes nothing more.
 */
final class Worker {
  private static final int HANDS = 20;
  private static final Duration WAIT = Duration.ofSeconds(5);
  private static final Duration TTR = Duration.ofSeconds(3); // a worker that dies costs its jobs so much time

  private final Duetime duetime =
      Duetime.builder(System.getenv("DUETIME_URL")).token(System.getenv("DUETIME_TOKEN")).caFile(System.getenv("DUETIME_CA_FILE")).build();
  private final Orders orders = new Orders();
  private final Set<Job> busy = ConcurrentHashMap.newKeySet();
  private final Semaphore free = new Semaphore(HANDS);
  private final ExecutorService hands = Executors.newFixedThreadPool(HANDS);
  private volatile boolean ending;

  private Worker() throws Exception {}

  private void attend(Job job) {
    try {
      orders.attend(job.id(), job.attempt(), job.payloadJson()).ifPresent(duetime::report);
    } catch (Exception e) {
      System.err.println("job " + job.id() + ": " + e); // its deadline passes, and the next attempt follows
    } finally {
      busy.remove(job);
      free.release();
    }
  }

  private List<Job> pop(String topic, int max) throws InterruptedException {
    try {
      return duetime.pop(List.of(topic), max, WAIT, TTR);
    } catch (DuetimeException e) {
      System.err.println("nothing popped: " + e.getMessage());
      Thread.sleep(1_000);
      return List.of();
    }
  }

  private void extend() {
    try {
      busy.forEach(job -> duetime.reportAsync(Report.extended(job.id(), job.attempt())));
    } catch (DuetimeException e) {
      System.err.println("not extended: " + e.getMessage()); // what is thrown here would end the extending for good
    }
  }

  private void run(String topic) throws InterruptedException {
    var extending = Executors.newSingleThreadScheduledExecutor();
    extending.scheduleAtFixedRate(this::extend, TTR.toMillis() / 3, TTR.toMillis() / 3, TimeUnit.MILLISECONDS);
    while (!ending) {
      free.acquire();
      int wanted = 1 + free.drainPermits();
      List<Job> jobs = pop(topic, wanted);
      free.release(wanted - jobs.size());
      busy.addAll(jobs);
      jobs.forEach(job -> hands.execute(() -> attend(job)));
    }
    free.acquire(HANDS);
    extending.shutdown();
    hands.shutdown();
    duetime.close();
  }

  public static void main(String[] words) throws Exception {
    Worker worker = new Worker();
    Ending.onSignal(() -> worker.ending = true);
    worker.run(words[0]);
    Ending.done();
  }
}
