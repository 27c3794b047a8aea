package bench;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongUnaryOperator;

/**
 * The load: Load PEER intake CLIENTS SECONDS | lateness RATE SECONDS LEAD | burst JOBS LEAD. Prints one JSON line. Jobs are
 * written by CLIENTS threads (64) one at a time; LEAD seconds are given to the writing before the first job is due.
 */
public final class Load {
  private static final int CLIENTS = 64;
  private static final AtomicLong numbers = new AtomicLong(System.currentTimeMillis() * 1000);

  private Load() {}

  public static void main(String[] words) throws Exception {
    try (Peer peer = words[0].equals("quartz") ? new QuartzPeer() : new DbSchedulerPeer()) {
      switch (words[1]) {
        case "intake" -> intake(peer, Integer.parseInt(words[2]), Double.parseDouble(words[3]));
        case "lateness" -> lateness(peer, Integer.parseInt(words[2]), Integer.parseInt(words[3]), Integer.parseInt(words[4]));
        case "burst" -> burst(peer, Integer.parseInt(words[2]), Integer.parseInt(words[3]));
        default -> throw new IllegalArgumentException(words[1]);
      }
    }
    System.exit(0);
  }

  private interface Client {
    void run() throws Exception;
  }

  private static void inParallel(int clients, Client client) throws InterruptedException {
    Thread[] threads = new Thread[clients];
    for (int i = 0; i < clients; i++) {
      threads[i] = new Thread(() -> {
        try {
          client.run();
        } catch (Exception e) {
          e.printStackTrace();
          System.exit(1);
        }
      });
      threads[i].start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
  }

  /** For so long, after a second to warm up. */
  private static void intake(Peer peer, int clients, double seconds) throws Exception {
    writeFor(peer, clients, 2);
    long before = System.nanoTime();
    long jobs = writeFor(peer, clients, seconds);
    double took = (System.nanoTime() - before) / 1e9;
    System.out.printf("{\"jobs\":%d,\"rate\":%.1f}%n", jobs, jobs / took);
  }

  private static long writeFor(Peer peer, int clients, double seconds) throws Exception {
    AtomicLong jobs = new AtomicLong();
    long end = System.nanoTime() + (long) (seconds * 1e9);
    inParallel(clients, () -> {
      while (System.nanoTime() < end) {
        peer.schedule(numbers.incrementAndGet(), System.currentTimeMillis() + 3600000);
        jobs.incrementAndGet();
      }
    });
    return jobs.get();
  }

  private static void write(Peer peer, int jobs, LongUnaryOperator due) throws Exception {
    AtomicInteger next = new AtomicInteger();
    inParallel(CLIENTS, () -> {
      for (int i = next.getAndIncrement(); i < jobs; i = next.getAndIncrement()) {
        peer.schedule(numbers.incrementAndGet(), due.applyAsLong(i));
      }
    });
  }

  private static final class Executions {
    final long[] late;
    final AtomicInteger n = new AtomicInteger();
    volatile long last;

    Executions(int jobs) {
      late = new long[jobs];
    }

    void add(long due) {
      long now = System.currentTimeMillis();
      int i = n.getAndIncrement();
      if (i < late.length) {
        late[i] = now - due;
        last = now;
      }
    }

    void await(long untilMs) throws InterruptedException {
      while (n.get() < late.length && System.currentTimeMillis() < untilMs) {
        Thread.sleep(5);
      }
    }

    void print(long from) {
      int count = Math.min(n.get(), late.length);
      long[] sorted = Arrays.copyOf(late, count);
      Arrays.sort(sorted);
      System.out.printf("{\"jobs\":%d,\"executed\":%d,\"early\":%d,\"p50\":%d,\"p99\":%d,\"rate\":%.1f}%n", late.length, n.get(),
          Arrays.stream(sorted).filter(ms -> ms < 0).count(), count == 0 ? 0 : sorted[count / 2], count == 0 ? 0 : sorted[count * 99 / 100],
          count / Math.max(0.001, (last - from) / 1e3));
    }
  }

  private static long start(int lead, long written) {
    if (System.currentTimeMillis() > written) {
      System.err.printf("%d s were too short to write the jobs%n", lead);
      System.exit(3);
    }
    return written;
  }

  private static void lateness(Peer peer, int rate, int seconds, int lead) throws Exception {
    long from = System.currentTimeMillis() + lead * 1000L;
    Executions executions = new Executions(rate * seconds);
    write(peer, rate * seconds, i -> from + i * 1000 / rate);
    start(lead, from);
    peer.work(executions::add);
    executions.await(from + seconds * 4000L);
    executions.print(from);
  }

  private static void burst(Peer peer, int jobs, int lead) throws Exception {
    long from = System.currentTimeMillis() + lead * 1000L;
    Executions executions = new Executions(jobs);
    write(peer, jobs, i -> from);
    start(lead, from);
    peer.work(executions::add);
    executions.await(from + 90000L);
    executions.print(from);
  }
}
