package bench;

import java.util.Arrays;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongUnaryOperator;

/**
 * The load: Load PEER intake CLIENTS SECONDS [RATE] | lateness RATE SECONDS WARM-SECONDS | burst JOBS. Prints one JSON line. Jobs are written one
 * at a time by as many threads (64 where nothing is said), before the first of them is due; how long that takes is tried beforehand. What
 * is due before SINCE warms up and does not count: the first seconds of a stream, a smaller burst before the one.
 */
public final class Load {
  private static final int CLIENTS = 64;
  private static final long HOUR = 3600000;
  private static final long SPARE_MS = 3000;
  private static final long BURST_AFTER_MS = 5000;
  private static final long PATIENCE_MS = 60000;
  /** Of jobs; two loads at once meet nowhere. */
  private static final AtomicLong numbers = new AtomicLong(ThreadLocalRandom.current().nextLong(1_000_000_000_000_000L, 9_000_000_000_000_000L));

  private Load() {}

  public static void main(String[] words) throws Exception {
    try (Peer peer = peer(words[0])) {
      switch (words[1]) {
        case "intake" -> intake(peer, Integer.parseInt(words[2]), Double.parseDouble(words[3]), words.length > 4 ? Double.parseDouble(words[4]) : 0);
        case "lateness" -> lateness(peer, Integer.parseInt(words[2]), Integer.parseInt(words[3]), Integer.parseInt(words[4]));
        case "burst" -> burst(peer, Integer.parseInt(words[2]));
        default -> throw new IllegalArgumentException(words[1]);
      }
      System.out.flush();
      Runtime.getRuntime().halt(0); // what is due in an hour is not waited for
    }
  }

  private static Peer peer(String name) throws Exception {
    return switch (name) {
      case "quartz" -> new QuartzPeer();
      case "duetime" -> new DuetimePeer();
      default -> new DbSchedulerPeer();
    };
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
          Runtime.getRuntime().halt(1);
        }
      });
      threads[i].start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
  }

  /** For so long, after two seconds to warm up; so many a second at most, or as fast as it goes. */
  private static void intake(Peer peer, int clients, double seconds, double rate) throws Exception {
    long warm = writeFor(peer, clients, 2, rate);
    long before = System.nanoTime();
    long jobs = writeFor(peer, clients, seconds, rate);
    double took = (System.nanoTime() - before) / 1e9;
    System.out.printf("{\"jobs\":%d,\"rate\":%.1f,\"all\":%d}%n", jobs, jobs / took, warm + jobs);
  }

  private static long writeFor(Peer peer, int clients, double seconds, double rate) throws Exception {
    AtomicLong jobs = new AtomicLong(), begun = new AtomicLong();
    long start = System.nanoTime(), end = start + (long) (seconds * 1e9);
    inParallel(clients, () -> {
      while (System.nanoTime() < end) {
        if (rate > 0) {
          LockSupport.parkNanos(start + (long) (begun.getAndIncrement() * 1e9 / rate) - System.nanoTime());
        }
        peer.schedule(numbers.incrementAndGet(), System.currentTimeMillis() + HOUR);
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

  /** An instant by which so many jobs are surely written. */
  private static long start(Peer peer, int jobs) throws Exception {
    long written = writeFor(peer, CLIENTS, 1.5, 0);
    return System.currentTimeMillis() + SPARE_MS + (long) (jobs * 1.5 * 1500 / Math.max(1, written));
  }

  private static final class Executions {
    final long since;
    final long[] late;
    final AtomicInteger n = new AtomicInteger();
    volatile long last;

    Executions(int jobs, long since) {
      late = new long[jobs];
      this.since = since;
    }

    void add(long due) {
      long now = System.currentTimeMillis();
      if (due < since) {
        return;
      }
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

    void print() {
      int count = Math.min(n.get(), late.length);
      long[] sorted = Arrays.copyOf(late, count);
      Arrays.sort(sorted);
      System.out.printf("{\"jobs\":%d,\"executed\":%d,\"early\":%d,\"p50\":%d,\"p99\":%d,\"rate\":%.1f}%n", late.length, n.get(),
          Arrays.stream(sorted).filter(ms -> ms < 0).count(), count == 0 ? 0 : sorted[count / 2], count == 0 ? 0 : sorted[count * 99 / 100],
          count / Math.max(0.001, (last - since) / 1e3));
    }
  }

  private static void run(Peer peer, int warm, Executions executions, long from, long untilMs, LongUnaryOperator due) throws Exception {
    write(peer, warm + executions.late.length, due);
    if (System.currentTimeMillis() > from) {
      System.err.println("the jobs were not written before they were due");
      Runtime.getRuntime().halt(3);
    }
    peer.work(executions::add);
    executions.await(untilMs);
    executions.print();
  }

  private static void lateness(Peer peer, int rate, int seconds, int warm) throws Exception {
    long from = start(peer, rate * (warm + seconds));
    Executions executions = new Executions(rate * seconds, from + warm * 1000L);
    run(peer, rate * warm, executions, from, executions.since + PATIENCE_MS, i -> from + i * 1000 / rate);
  }

  private static void burst(Peer peer, int jobs) throws Exception {
    int warm = jobs / 5;
    long from = start(peer, warm + jobs);
    Executions executions = new Executions(jobs, from + BURST_AFTER_MS);
    run(peer, warm, executions, from, executions.since + PATIENCE_MS, i -> i < warm ? from : executions.since);
  }
}
