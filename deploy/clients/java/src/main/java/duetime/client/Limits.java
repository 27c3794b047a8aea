package duetime.client;

import java.time.Duration;

/**
 * How calls are put together.
 *
 * @param linger how long a call waits for others to go with; zero: it goes at once, with whoever waits already
 * @param connections the batches under way at a time, of creates and of reports
 * @param batchJobs the most calls of a batch
 * @param batchBytes the most characters of a batch
 * @param pendingJobs the most calls that are taken and not answered; further calls wait
 * @param pendingBytes the most characters that are taken and not answered
 */
public record Limits(Duration linger, int connections, int batchJobs, int batchBytes, int pendingJobs, long pendingBytes) {
  public static final Limits DEFAULTS = new Limits(Duration.ZERO, 2, 1_000, 1 << 20, 10_000, 64 << 20);
}
