package duetime.examples;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A graceful end: on SIGTERM or Ctrl-C `stop` is called, and the process waits for its work before it ends, with exit code 0. */
final class Ending {
  private static final CountDownLatch DONE = new CountDownLatch(1);

  private Ending() {}

  static void onSignal(Runnable stop) {
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      stop.run();
      try {
        boolean inTime = DONE.await(30, TimeUnit.SECONDS);
        Runtime.getRuntime().halt(inTime ? 0 : 1);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }));
  }

  /** The work is over. */
  static void done() {
    DONE.countDown();
  }
}
