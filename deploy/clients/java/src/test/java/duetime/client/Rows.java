package duetime.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Does what it is told, a call a line, and says what came of it: the table of tests that all clients have in common. */
final class Rows {
  private static final BufferedReader LINES = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

  private final Duetime duetime;

  private Rows(Duetime duetime) {
    this.duetime = duetime;
  }

  public static void main(String[] words) throws IOException, InterruptedException {
    String authority = System.getenv().getOrDefault("DUETIME_CA_FILE", "");
    Duetime.Builder builder = Duetime.builder(System.getenv("DUETIME_URL")).token(System.getenv("DUETIME_TOKEN")).caFile(authority.isEmpty() ? null : authority);
    try (Duetime duetime = builder.timeout(Duration.ofMillis(Long.parseLong(System.getenv().getOrDefault("DUETIME_TIMEOUT", "30000")))).build()) {
      Rows rows = new Rows(duetime);
      for (String line = LINES.readLine(); line != null; line = LINES.readLine()) {
        System.out.println(Json.write(rows.told(Json.object(Json.parse(line)))));
      }
    }
  }

  private Map<String, Object> told(Map<String, Object> asked) throws IOException, InterruptedException {
    try {
      return answer(asked, (String) asked.get("topic"), (String) asked.get("id"));
    } catch (DuetimeException e) {
      return Map.of("error", e.getClass().getSimpleName());
    }
  }

  private Map<String, Object> answer(Map<String, Object> asked, String topic, String id) throws IOException, InterruptedException {
    return switch ((String) asked.get("call")) {
      case "create" -> {
        NewJob job = NewJob.of(topic).delay(Duration.ofHours(1));
        yield Map.of("id", duetime.create(asked.get("key") instanceof String key ? job.key(key) : job).id());
      }
      case "get" -> Map.of("id", duetime.get(id).id());
      case "report" -> Map.of("outcome", duetime.report(Report.succeeded(id, 1)).name().toLowerCase(Locale.ROOT));
      case "give_up" -> giveUp(topic);
      case "big" -> big(topic);
      default -> throw new IllegalArgumentException("there is no such call");
    };
  }

  /** An interrupt gives a pop up. */
  private Map<String, Object> giveUp(String topic) throws IOException, InterruptedException {
    CompletableFuture<Boolean> ended = new CompletableFuture<>();
    Thread popping = new Thread(() -> {
      try {
        duetime.pop(List.of(topic), 1, Duration.ofSeconds(20), Duration.ofMinutes(1));
        ended.complete(false);
      } catch (DuetimeException.OutcomeUnknown e) {
        ended.complete(true);
      }
    });
    popping.start();
    LINES.readLine();
    popping.interrupt();
    return Map.of("gave_up", ended.join());
  }

  private Map<String, Object> big(String topic) {
    List<Number> payload = List.of((1L << 53) + 1, Long.MAX_VALUE, Long.MIN_VALUE, BigInteger.TWO.pow(64).add(BigInteger.ONE));
    String id = duetime.create(NewJob.of(topic).delay(Duration.ofHours(1)).payload(payload)).id();
    return Map.of("id", id, "digits", Json.array(duetime.get(id).payload()).stream().map(String::valueOf).toList());
  }
}
