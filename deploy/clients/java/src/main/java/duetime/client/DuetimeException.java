package duetime.client;

import java.time.Duration;
import java.time.format.DateTimeParseException;
import java.util.Map;

/** What a call throws; its subclasses are what a caller tells apart. */
public class DuetimeException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final int status;
  private final transient Map<String, Object> problem;
  final transient Duration retryAfter;

  DuetimeException(String message, int status, Map<String, Object> problem, Duration retryAfter, Throwable cause) {
    super(message, cause);
    this.status = status;
    this.problem = problem;
    this.retryAfter = retryAfter;
  }

  /** HTTP's status; 0 when there was no answer. */
  public int status() {
    return status;
  }

  /** The problem document (RFC 9457): type, title, detail, errors …; empty when there was no answer. */
  public Map<String, Object> problem() {
    return problem == null ? Map.of() : problem;
  }

  /** The job that the problem is about, or null. */
  public String jobId() {
    return (String) problem().get("id");
  }

  /** Whether asking again can help. */
  boolean mayPass() {
    return this instanceof Unavailable || this instanceof OutcomeUnknown;
  }

  /** The server refuses the request as it is: "errors" of the problem points at each member that is wrong. */
  public static final class Invalid extends DuetimeException {
    private static final long serialVersionUID = 1;

    Invalid(String message, int status, Map<String, Object> problem) {
      super(message, status, problem, Duration.ZERO, null);
    }
  }

  /** The token is missing or unknown, or lacks the scope. */
  public static final class Forbidden extends DuetimeException {
    private static final long serialVersionUID = 1;

    Forbidden(String message, int status, Map<String, Object> problem) {
      super(message, status, problem, Duration.ZERO, null);
    }
  }

  /** There is no such job or topic. */
  public static final class NotFound extends DuetimeException {
    private static final long serialVersionUID = 1;

    NotFound(String message, int status, Map<String, Object> problem) {
      super(message, status, problem, Duration.ZERO, null);
    }
  }

  /** A different request created a job with this key: {@link #jobId()}. */
  public static final class KeyConflict extends DuetimeException {
    private static final long serialVersionUID = 1;

    KeyConflict(String message, int status, Map<String, Object> problem) {
      super(message, status, problem, Duration.ZERO, null);
    }
  }

  /** The job is dispatched or finished: "state" and "attempt" of the problem. */
  public static final class TooLate extends DuetimeException {
    private static final long serialVersionUID = 1;

    TooLate(String message, int status, Map<String, Object> problem) {
      super(message, status, problem, Duration.ZERO, null);
    }
  }

  /** Any other refusal for the state that something is in: a topic that is not pull, a version that is no longer the latest. */
  public static final class Conflict extends DuetimeException {
    private static final long serialVersionUID = 1;

    Conflict(String message, int status, Map<String, Object> problem) {
      super(message, status, problem, Duration.ZERO, null);
    }
  }

  /** The deadline passed, or the client was closed, and nothing happened. */
  public static final class Unavailable extends DuetimeException {
    private static final long serialVersionUID = 1;

    Unavailable(String message, int status, Map<String, Object> problem, Duration retryAfter, Throwable cause) {
      super(message, status, problem, retryAfter, cause);
    }

    Unavailable(String message, Throwable cause) {
      this(message, 0, Map.of(), Duration.ZERO, cause);
    }
  }

  /** The request may have been carried out, or not; {@link #jobId()}, where it is there, is the job to ask for. */
  public static final class OutcomeUnknown extends DuetimeException {
    private static final long serialVersionUID = 1;

    OutcomeUnknown(String message, int status, Map<String, Object> problem, Duration retryAfter, Throwable cause) {
      super(message, status, problem, retryAfter, cause);
    }

    OutcomeUnknown(String message, Throwable cause) {
      this(message, 0, Map.of(), Duration.ZERO, cause);
    }
  }

  /** What a problem document stands for; it may say itself when it is worth while to come again. */
  static DuetimeException of(int status, Map<String, Object> problem, Duration header) {
    Duration retryAfter = problem.get("retry_after") instanceof String text ? longer(header, text) : header;
    String type = String.valueOf(problem.getOrDefault("type", "error"));
    String slug = type.substring(type.lastIndexOf('/') + 1);
    String message = status + " " + slug + ": " + reason(problem);
    return switch (slug) {
      case "key-conflict" -> new KeyConflict(message, status, problem);
      case "too-late" -> new TooLate(message, status, problem);
      case "outcome-unknown" -> new OutcomeUnknown(message, status, problem, retryAfter, null);
      default -> byStatus(message, status, problem, retryAfter);
    };
  }

  private static Duration longer(Duration header, String text) {
    try {
      Duration told = Duration.parse(text);
      return told.compareTo(header) > 0 ? told : header;
    } catch (DateTimeParseException e) {
      return header;
    }
  }

  private static DuetimeException byStatus(String message, int status, Map<String, Object> problem, Duration retryAfter) {
    return switch (status) {
      case 400, 413, 415, 422 -> new Invalid(message, status, problem);
      case 401, 403 -> new Forbidden(message, status, problem);
      case 404 -> new NotFound(message, status, problem);
      case 409, 412 -> new Conflict(message, status, problem);
      case 408, 429, 503 -> new Unavailable(message, status, problem, retryAfter, null);
      case 502, 504 -> new OutcomeUnknown(message, status, problem, retryAfter, null);
      default -> new DuetimeException(message, status, problem, Duration.ZERO, null);
    };
  }

  private static String reason(Map<String, Object> problem) {
    for (Object error : Json.array(problem.get("errors"))) {
      Map<String, Object> members = Json.object(error);
      return members.get("pointer") + " " + members.get("reason");
    }
    return String.valueOf(problem.getOrDefault("detail", problem.getOrDefault("title", "no reason given")));
  }
}
