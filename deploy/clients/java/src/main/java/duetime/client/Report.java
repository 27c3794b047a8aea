package duetime.client;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/** What became of an attempt. */
public final class Report {
  /** What became of a report. */
  public enum Outcome {
    APPLIED,
    DUPLICATE,
    STALE
  }

  final Map<String, Object> members = new LinkedHashMap<>();

  private Report(String job, int attempt, String status) {
    members.put("job_id", job);
    members.put("attempt", attempt);
    members.put("status", status);
  }

  public static Report succeeded(String job, int attempt) {
    return new Report(job, attempt, "succeeded");
  }

  /** The next attempt follows by the retry schedule. */
  public static Report failed(String job, int attempt, String code, String message) {
    return new Report(job, attempt, "failed").error(code, message);
  }

  /** No attempt follows: the job is dead. */
  public static Report gaveUp(String job, int attempt, String code, String message) {
    return new Report(job, attempt, "gave_up").error(code, message);
  }

  /** The job comes again after this time, without having failed. */
  public static Report snoozed(String job, int attempt, Duration retryAfter) {
    return new Report(job, attempt, "snoozed").retryAfter(retryAfter);
  }

  /** The work goes on: its deadline starts anew. */
  public static Report extended(String job, int attempt) {
    return new Report(job, attempt, "extended");
  }

  /** Of a failure: the time until the next attempt, instead of the schedule's. */
  public Report retryAfter(Duration time) {
    members.put("retry_after", time.toMillis());
    return this;
  }

  private Report error(String code, String message) {
    Map<String, Object> error = new LinkedHashMap<>();
    error.put("code", code);
    error.put("message", String.valueOf(message));
    members.put("error", error);
    return this;
  }

  /** As JSON: the value of a message to the results topic. */
  @Override
  public String toString() {
    return Json.write(members);
  }
}
