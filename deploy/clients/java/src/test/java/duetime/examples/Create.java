package duetime.examples;

import duetime.client.Duetime;
import duetime.client.NewJob;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * Makes jobs: Create TOPIC FIRST COUNT. They are asked for at once, leave in a few requests, and each has its own answer. The key makes it safe to
 * ask again: the second run gives the same ids. Some are made to fail a time or two, some are impossible.
 */
final class Create {
  private Create() {}

  private static NewJob order(String topic, int n) {
    Map<String, Object> payload = new LinkedHashMap<>(Map.of("n", n));
    if (n % 10 == 3) {
      payload.put("fails", 1);
    }
    if (n % 50 == 7) {
      payload.put("fails", 2);
    }
    if (n % 100 == 9) {
      payload.put("impossible", true);
    }
    List<Duration> retry = Collections.nCopies(5, Duration.ofSeconds(1));
    return NewJob.of(topic).key("order-" + n).delay(Duration.ofMillis(n % 100 * 10)).payload(payload).retry(retry);
  }

  public static void main(String[] words) {
    int first = Integer.parseInt(words[1]);
    int count = Integer.parseInt(words[2]);
    try (Duetime duetime = Duetime.builder(System.getenv("DUETIME_URL")).token(System.getenv("DUETIME_TOKEN")).caFile(System.getenv("DUETIME_CA_FILE")).build()) {
      List<CompletableFuture<Duetime.Created>> made = new ArrayList<>();
      for (int n = first; n < first + count; n++) {
        made.add(duetime.createAsync(order(words[0], n)));
      }
      made.forEach(one -> System.out.println(one.join().id()));
    }
  }
}
