package duetime.examples;

import duetime.client.Json;
import duetime.client.Report;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * What the consumer and the worker have in common: the work, and the record of what was done, by which a repeated message, a repeated attempt
 * and an attempt that was overtaken are known. The record is a line "JOB ATTEMPT STATUS" for each attempt that was worked on; in your
 * application it is a row that is written in the work's own transaction.
 */
final class Orders {
  private static final class Impossible extends Exception {
    private static final long serialVersionUID = 1;

    Impossible(String message) {
      super(message);
    }
  }

  private record Last(int attempt, String status) {
    boolean isFinal() {
      return status.equals("succeeded") || status.equals("gave_up");
    }
  }

  private final Path effects = Path.of(System.getenv().getOrDefault("DUETIME_EFFECTS", "effects.log"));
  private final Map<String, Last> last = new HashMap<>();

  Orders() throws IOException {
    for (String line : Files.exists(effects) ? Files.readAllLines(effects) : java.util.List.<String>of()) {
      String[] words = line.split(" ");
      last.put(words[0], new Last(Integer.parseInt(words[1]), words[2]));
    }
  }

  /** The place for your own work: it throws when it fails. */
  private static void work(Map<?, ?> order, int attempt) throws Exception {
    Thread.sleep(2);
    if (order.get("impossible") != null) {
      throw new Impossible("order " + order.get("n") + " cannot be closed");
    }
    if (order.get("fails") instanceof Number fails && attempt <= fails.intValue()) {
      throw new IllegalStateException("attempt " + attempt + " at order " + order.get("n") + " fails");
    }
  }

  /** Works on an attempt, unless it is known. The report, if there is anything to say. */
  Optional<Report> attend(String job, int attempt, String payload) throws IOException {
    Last known;
    synchronized (this) {
      known = last.get(job);
    }
    if (known != null && known.attempt() > attempt) {
      return Optional.empty(); // a later attempt has overtaken it
    }
    if (known != null && (known.isFinal() || known.attempt() == attempt)) {
      return Optional.of(reportOf(job, attempt, known.status(), null));
    }
    return Optional.of(workOn(job, attempt, payload));
  }

  private Report workOn(String job, int attempt, String payload) throws IOException {
    String status = "succeeded";
    Exception failure = null;
    try {
      work((Map<?, ?>) Json.parse(payload), attempt);
    } catch (Exception e) {
      status = e instanceof Impossible ? "gave_up" : "failed";
      failure = e;
    }
    record(job, attempt, status);
    return reportOf(job, attempt, status, failure);
  }

  private synchronized void record(String job, int attempt, String status) throws IOException {
    Files.writeString(effects, job + " " + attempt + " " + status + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    last.put(job, new Last(attempt, status));
  }

  private static Report reportOf(String job, int attempt, String status, Exception failure) {
    String code = failure == null ? "known" : failure.getClass().getSimpleName();
    String message = failure == null ? "reported again" : failure.getMessage();
    return switch (status) {
      case "succeeded" -> Report.succeeded(job, attempt);
      case "gave_up" -> Report.gaveUp(job, attempt, code, message);
      default -> Report.failed(job, attempt, code, message);
    };
  }
}
