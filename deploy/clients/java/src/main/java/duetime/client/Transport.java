package duetime.client;

import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLHandshakeException;

/**
 * HTTP to one API over kept connections. Owns connections, the token and what an exchange that failed means; refuses to know what is
 * asked. An answer that is no success, and an exchange that fails, are thrown as a {@link DuetimeException}.
 */
final class Transport {
  private static final long FIRST_PAUSE_MS = 50;
  private static final long LONGEST_PAUSE_MS = 2_000;
  private static final long GRACE_MS = 50; // in which the request's own time ends it, whose exception tells more

  private final String url;
  private final String token;
  private final HttpClient http;

  Transport(URI url, String token, SSLContext tls) {
    this.url = url.toString().replaceAll("/+$", "");
    this.token = token;
    boolean negotiates = "https".equalsIgnoreCase(url.getScheme()); // in the clear it would ask for an upgrade, which the API ignores
    HttpClient.Version version = negotiates ? HttpClient.Version.HTTP_2 : HttpClient.Version.HTTP_1_1;
    HttpClient.Builder builder = HttpClient.newBuilder().version(version).connectTimeout(Duration.ofSeconds(10));
    this.http = (tls == null ? builder : builder.sslContext(tls)).build();
  }

  /** One exchange: the text of a 2xx answer. An interrupt gives it up. */
  String exchange(String method, String path, String type, String body, String ifMatch, Duration timeout) {
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path)).timeout(timeout.compareTo(Duration.ofMillis(1)) > 0 ? timeout : Duration.ofMillis(1));
    request.method(method, body.isEmpty() ? BodyPublishers.noBody() : BodyPublishers.ofString(body, StandardCharsets.UTF_8));
    if (!body.isEmpty()) {
      request.header("Content-Type", type);
    }
    if (token != null) {
      request.header("Authorization", "Bearer " + token);
    }
    if (ifMatch != null) {
      request.header("If-Match", ifMatch);
    }
    return textOf(answerTo(request.build(), timeout));
  }

  /** The time of an HttpRequest ends with the answer's head; here the body comes in it as well. */
  private HttpResponse<String> answerTo(HttpRequest request, Duration timeout) {
    CompletableFuture<HttpResponse<String>> answer = http.sendAsync(request, BodyHandlers.ofString(StandardCharsets.UTF_8));
    try {
      return answer.get(Math.max(1, timeout.toMillis()) + GRACE_MS, TimeUnit.MILLISECONDS);
    } catch (ExecutionException e) {
      throw failureOf(e.getCause());
    } catch (TimeoutException e) {
      answer.cancel(true);
      throw new DuetimeException.OutcomeUnknown("the answer did not come to its end in time", e);
    } catch (InterruptedException e) {
      answer.cancel(true);
      Thread.currentThread().interrupt();
      throw new DuetimeException.OutcomeUnknown("interrupted", e);
    }
  }

  private static DuetimeException failureOf(Throwable cause) {
    return isOfConnecting(cause) ? new DuetimeException.Unavailable("no connection: " + cause, cause) : new DuetimeException.OutcomeUnknown("no answer: " + cause, cause);
  }

  /** Whether it failed before anything was sent; a request whose time is up meanwhile hides that among its causes. */
  private static boolean isOfConnecting(Throwable failure) {
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      if (cause instanceof ConnectException || cause instanceof HttpConnectTimeoutException || cause instanceof SSLHandshakeException) {
        return true;
      }
    }
    return false;
  }

  private static String textOf(HttpResponse<String> response) {
    int status = response.statusCode();
    if (status >= 200 && status < 300) {
      return response.body();
    }
    Duration retryAfter = response.headers().firstValue("Retry-After").map(Transport::seconds).orElse(Duration.ZERO);
    throw DuetimeException.of(status, problemOf(response.body()), retryAfter);
  }

  private static Duration seconds(String text) {
    return text.matches("\\d{1,9}") ? Duration.ofSeconds(Long.parseLong(text)) : Duration.ZERO;
  }

  private static Map<String, Object> problemOf(String text) {
    try {
      return Json.parseAnswer(text);
    } catch (IllegalArgumentException e) {
      return Map.of("detail", text.substring(0, Math.min(200, text.length())));
    }
  }

  /**
   * Reads the outcome of each of so many lines from the answer to their batch: a value, or a {@link DuetimeException}. A batch that the server ended
   * early has fewer: the last one is a problem, and holds for the rest. When that is 413, the lines before it were made: what is left comes in a
   * request of its own.
   */
  static List<Object> linesOf(String text, int count) {
    List<Object> told = new ArrayList<>(count);
    text.lines().filter(line -> !line.isEmpty()).limit(count).forEach(line -> told.add(lineOf(line)));
    if (told.size() < count) {
      Object rest = restOf(told);
      told.addAll(Collections.nCopies(count - told.size(), rest));
    }
    return told;
  }

  /** Takes the problem from the end of what was told. */
  private static DuetimeException restOf(List<Object> told) {
    if (told.isEmpty() || !(told.get(told.size() - 1) instanceof DuetimeException)) {
      return new DuetimeException.OutcomeUnknown("no result", null);
    }
    DuetimeException last = (DuetimeException) told.remove(told.size() - 1);
    boolean fits = last.status() == 413 && !told.isEmpty();
    return fits ? new DuetimeException.Unavailable(last.getMessage(), 413, last.problem(), Duration.ZERO, null) : last;
  }

  private static Object lineOf(String line) {
    Map<String, Object> value = problemOf(line);
    int status = value.get("status") instanceof Number number ? number.intValue() : 0;
    if (status >= 200 && status < 300) {
      return value;
    }
    return status > 0 ? DuetimeException.of(status, value, Duration.ZERO) : new DuetimeException.OutcomeUnknown("no line of an answer: " + line, null);
  }

  /** Until the next try: doubled each time, and drawn, so that many clients do not come at one instant; the server's wish at least. */
  static Duration pauseOf(int tries, Duration retryAfter) {
    long most = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << Math.min(tries, 10));
    Duration drawn = Duration.ofMillis(ThreadLocalRandom.current().nextLong(most / 2, most + 1));
    return retryAfter.compareTo(drawn) > 0 ? retryAfter : drawn;
  }
}
