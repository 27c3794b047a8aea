package duetime.client;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import javax.net.ssl.SSLContext;

/**
 * HTTP to one API over kept connections. Owns connections, the token and what an exchange that failed means; refuses to know what is
 * asked. An answer that is no success, and an exchange that fails, are thrown as a {@link DuetimeException}.
 */
final class Transport {
  private static final long FIRST_PAUSE_MS = 50;
  private static final long LONGEST_PAUSE_MS = 2_000;

  private final String url;
  private final String token;
  private final HttpClient http;

  Transport(URI url, String token, SSLContext tls) {
    this.url = url.toString().replaceAll("/+$", "");
    this.token = token;
    HttpClient.Builder builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(10));
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
    return textOf(send(request.build()));
  }

  private HttpResponse<String> send(HttpRequest request) {
    try {
      return http.send(request, BodyHandlers.ofString(StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw isOfConnecting(e) ? new DuetimeException.Unavailable("no connection: " + e, e) : new DuetimeException.OutcomeUnknown("no answer: " + e, e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new DuetimeException.OutcomeUnknown("interrupted", e);
    }
  }

  /** Whether it failed before anything was sent; a request whose time is up meanwhile hides that among its causes. */
  private static boolean isOfConnecting(Throwable failure) {
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      if (cause instanceof ConnectException || cause instanceof HttpConnectTimeoutException) {
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

  /** A line of a batch's answer; one that tells a problem is thrown. */
  static Map<String, Object> lineOf(String line) {
    Map<String, Object> value = problemOf(line);
    int status = value.get("status") instanceof Number number ? number.intValue() : 0;
    if (status >= 200 && status < 300) {
      return value;
    }
    throw status > 0 ? DuetimeException.of(status, value, Duration.ZERO) : new DuetimeException("no line of an answer: " + line, 0, Map.of(), Duration.ZERO, null);
  }

  /** Until the next try: doubled each time, and drawn, so that many clients do not come at one instant; the server's wish at least. */
  static Duration pauseOf(int tries, Duration retryAfter) {
    long most = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << Math.min(tries, 10));
    Duration drawn = Duration.ofMillis(ThreadLocalRandom.current().nextLong(most / 2, most + 1));
    return retryAfter.compareTo(drawn) > 0 ? retryAfter : drawn;
  }
}
