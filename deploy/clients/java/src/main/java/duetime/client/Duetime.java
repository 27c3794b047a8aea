package duetime.client;

import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import javax.net.ssl.SSLContext;

/**
 * A client of duetime's REST API, for as many threads as there are. Creates and reports that wait at the same time leave in one request.
 * Each call has a deadline for all that it takes, and throws a {@link DuetimeException}.
 */
public final class Duetime implements AutoCloseable {
  private static final String JSON = "application/json";
  private static final String NDJSON = "application/x-ndjson";
  private static final Duration LONGEST_WAIT = Duration.ofMinutes(1); // of a pop

  /** The answer to a create; `created` is false when its key named the job already. */
  public record Created(String id, boolean created) {}

  private final Transport transport;
  private final Duration timeout;
  private final boolean makeKeys;
  private final Coalescer creates;
  private final Coalescer reports;
  private final String prefix = Long.toString(System.currentTimeMillis(), 36) + "-" + Long.toHexString(new SecureRandom().nextLong()) + "-";
  private final AtomicLong keys = new AtomicLong();
  private volatile boolean closed;

  private Duetime(Builder builder) {
    transport = new Transport(builder.url, builder.token, builder.tls);
    timeout = builder.timeout;
    makeKeys = builder.makeKeys;
    creates = new Coalescer("creates", (text, time) -> transport.exchange("POST", "/v1/jobs:batch", NDJSON, text, null, time), builder.limits);
    reports = new Coalescer("reports", (text, time) -> transport.exchange("POST", "/v1/results", NDJSON, text, null, time), builder.limits);
  }

  public static Builder builder(String url) {
    return new Builder(URI.create(url));
  }

  /** What a client is made of. */
  public static final class Builder {
    private final URI url;
    private String token;
    private SSLContext tls;
    private Duration timeout = Duration.ofSeconds(30);
    private Limits limits = Limits.DEFAULTS;
    private boolean makeKeys;

    private Builder(URI url) {
      this.url = url;
    }

    /** A bearer token; null: none. */
    public Builder token(String token) {
      this.token = token;
      return this;
    }

    public Builder tls(SSLContext context) {
      this.tls = context;
      return this;
    }

    /** For https with an authority of your own: the file (PEM) with its certificates; null: those that Java trusts. */
    public Builder caFile(String file) {
      return file == null ? this : tls(Trust.in(Path.of(file)));
    }

    /** For each call, with all its tries (30 s). */
    public Builder timeout(Duration timeout) {
      this.timeout = timeout;
      return this;
    }

    public Builder limits(Limits limits) {
      this.limits = limits;
      return this;
    }

    /** Gives a key to each job without one, so that it can be asked for again when the outcome of a create is unknown. */
    public Builder makeKeys() {
      this.makeKeys = true;
      return this;
    }

    public Duetime build() {
      return new Duetime(this);
    }
  }

  public Created create(NewJob job) {
    Map<String, Object> members = keyed(job);
    return created(creates.ask(Json.write(members), members.containsKey("key"), timeout));
  }

  /** Waits for room only. What follows runs in the thread that sends unless it is told to run elsewhere. */
  public CompletableFuture<Created> createAsync(NewJob job) {
    Map<String, Object> members = keyed(job);
    return creates.submit(Json.write(members), members.containsKey("key"), timeout).thenApply(Duetime::created);
  }

  public Report.Outcome report(Report report) {
    return outcome(reports.ask(Json.write(report.members), true, timeout));
  }

  public CompletableFuture<Report.Outcome> reportAsync(Report report) {
    return reports.submit(Json.write(report.members), true, timeout).thenApply(Duetime::outcome);
  }

  public Job get(String id) {
    return new Job(ask("GET", "/v1/jobs/" + part(id), "", null, true, timeout));
  }

  public Job getByKey(String topic, String key) {
    return new Job(ask("GET", "/v1/topics/" + part(topic) + "/jobs/" + part(key), "", null, true, timeout));
  }

  /** Changes a scheduled job. */
  public Job change(String id, JobChanges changes) {
    return new Job(ask("PATCH", "/v1/jobs/" + part(id), Json.write(changes.members), null, true, timeout));
  }

  /** Changes a scheduled job if this is still its version. */
  public Job change(String id, JobChanges changes, long version) {
    return new Job(ask("PATCH", "/v1/jobs/" + part(id), Json.write(changes.members), "\"" + version + "\"", false, timeout));
  }

  public Job cancel(String id) {
    return new Job(ask("POST", "/v1/jobs/" + part(id) + "/cancel", "", null, true, timeout));
  }

  /** Cancels a job; a dispatched one is cancelled from further attempts. */
  public Job cancelRetries(String id) {
    return new Job(ask("POST", "/v1/jobs/" + part(id) + "/cancel?retries=true", "", null, true, timeout));
  }

  /**
   * Due jobs of topics whose delivery is pull, at most `max`; waits up to `wait` (a minute at most) for the first. Each must be reported
   * within `ttr`. An interrupt gives it up.
   */
  public List<Job> pop(List<String> topics, int max, Duration wait, Duration ttr) {
    Map<String, Object> body = new LinkedHashMap<>();
    body.put("topics", topics);
    body.put("max", max);
    body.put("wait", wait.toMillis());
    body.put("ttr", ttr.toMillis());
    Map<String, Object> answer = ask("POST", "/v1/pop", Json.write(body), null, false, timeout.plus(wait.isZero() ? wait : LONGEST_WAIT));
    List<Job> jobs = new ArrayList<>();
    Json.array(answer.get("jobs")).forEach(job -> jobs.add(new Job(Json.object(job))));
    return jobs;
  }

  /** Takes no more calls and returns when none is pending. */
  @Override
  public void close() {
    closed = true;
    creates.close();
    reports.close();
  }

  /** Keys of one client ascend, which is what the server's index of keys likes best. */
  private Map<String, Object> keyed(NewJob job) {
    if (!makeKeys || job.members.containsKey("key")) {
      return job.members;
    }
    Map<String, Object> members = new LinkedHashMap<>(job.members);
    members.put("key", prefix + String.format("%012d", keys.getAndIncrement()));
    return members;
  }

  private static Created created(Map<String, Object> line) {
    return new Created((String) line.get("id"), ((Number) line.get("status")).intValue() == 201);
  }

  private static Report.Outcome outcome(Map<String, Object> line) {
    return Report.Outcome.valueOf(((String) line.get("outcome")).toUpperCase(Locale.ROOT));
  }

  private static String part(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
  }

  /** One request, again until its deadline as long as that does no harm. */
  private Map<String, Object> ask(String method, String path, String body, String ifMatch, boolean again, Duration timeout) {
    long end = System.nanoTime() + timeout.toNanos();
    DuetimeException doubt = null; // a try that may have been carried out
    for (int tries = 0; ; tries++) {
      if (closed && (tries == 0 || !again)) {
        throw new DuetimeException.Unavailable("the client is closed", null);
      }
      try {
        return Json.parseAnswer(transport.exchange(method, path, JSON, body, ifMatch, Duration.ofNanos(end - System.nanoTime())));
      } catch (DuetimeException e) {
        boolean harmless = again ? e.mayPass() : e instanceof DuetimeException.Unavailable;
        doubt = e instanceof DuetimeException.OutcomeUnknown ? e : doubt;
        if (!harmless || !paused(Transport.pauseOf(tries, e.retryAfter), end)) {
          throw harmless && doubt != null ? doubt : e;
        }
      }
    }
  }

  /** False: it would last until the end, or an interrupt has come. */
  private static boolean paused(Duration pause, long end) {
    if (System.nanoTime() + pause.toNanos() - end > 0 || Thread.currentThread().isInterrupted()) {
      return false;
    }
    try {
      Thread.sleep(pause.toMillis());
      return true;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }
}
