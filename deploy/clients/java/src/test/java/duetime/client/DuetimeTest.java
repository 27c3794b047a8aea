package duetime.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** On the API at DUETIME_URL, through a door that loses, refuses and answers. */
@Timeout(60)
class DuetimeTest {
  private static final Duration FAR = Duration.ofDays(3);
  private final String topic = "java-" + UUID.randomUUID().toString().substring(0, 8);
  private Door door;
  private Duetime duetime;

  @BeforeEach
  void open() throws Exception {
    door = new Door(System.getenv("DUETIME_URL"));
    duetime = builder().build();
  }

  @AfterEach
  void close() throws Exception {
    duetime.close();
    door.close();
  }

  private Duetime.Builder builder() {
    return Duetime.builder(door.url()).token(System.getenv("DUETIME_TOKEN"));
  }

  private NewJob job() {
    return NewJob.of(topic).delay(FAR);
  }

  private void pullTopic() throws Exception {
    HttpRequest.Builder put = HttpRequest.newBuilder(URI.create(System.getenv("DUETIME_URL") + "/v1/topics/" + topic));
    put.header("Content-Type", "application/json").header("Authorization", "Bearer " + System.getenv("DUETIME_TOKEN"));
    put.PUT(HttpRequest.BodyPublishers.ofString("{\"delivery\":\"pull\"}"));
    assertEquals(201, HttpClient.newHttpClient().send(put.build(), BodyHandlers.ofString()).statusCode());
  }

  @Test
  void aThousandCreatesAtOnceLeaveInAFewRequestsOnTwoConnectionsEachWithItsOwnAnswer() throws Exception {
    List<CompletableFuture<Duetime.Created>> made = new ArrayList<>();
    for (int n = 0; n < 1000; n++) {
      made.add(duetime.createAsync(job().payload(Map.of("n", n))));
    }
    Set<String> ids = new HashSet<>();
    made.forEach(one -> ids.add(one.join().id()));
    assertEquals(1000, ids.size());
    assertTrue(door.requests.get() < 100 && door.connections.get() <= 2, door.requests + " requests, " + door.connections + " connections");
    for (int n : List.of(0, 500, 999)) {
      assertEquals("{\"n\":" + n + "}", duetime.get(made.get(n).join().id()).payloadJson());
    }
  }

  @Test
  void sixtyFourThreadsThatEachWaitForTheirAnswerShareRequests() throws Exception {
    List<Thread> threads = new ArrayList<>();
    Set<String> ids = ConcurrentHashMap.newKeySet();
    for (int i = 0; i < 64; i++) {
      threads.add(new Thread(() -> {
        for (int n = 0; n < 10; n++) {
          ids.add(duetime.create(job()).id());
        }
      }));
    }
    threads.forEach(Thread::start);
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals(640, ids.size());
    assertTrue(door.requests.get() < 320, door.requests + " requests");
  }

  @Test
  void aJobIsMadeReadChangedAndCancelled() {
    Duetime.Created made = duetime.create(job().key("k/1"));
    assertTrue(made.created());
    assertEquals(new Duetime.Created(made.id(), false), duetime.create(job().key("k/1")));
    assertEquals(made.id(), duetime.getByKey(topic, "k/1").id());
    Instant time = Instant.parse("2030-01-01T00:00:00Z");
    Job changed = duetime.change(made.id(), new JobChanges().payload(List.of(1)).runAt(time));
    assertEquals(time, changed.runAt());
    assertThrows(DuetimeException.Conflict.class, () -> duetime.change(made.id(), new JobChanges().payload(2), 1));
    assertEquals(3L, duetime.change(made.id(), new JobChanges().payload(3), changed.version()).payload());
    assertEquals("cancelled", duetime.cancel(made.id()).state());
    assertEquals("cancelled", duetime.cancelRetries(made.id()).state());
  }

  @Test
  void refusalsAreExceptionsOfTheirOwnKinds() {
    String id = duetime.create(job().key("k")).id();
    var conflict = assertThrows(DuetimeException.KeyConflict.class, () -> duetime.create(NewJob.of(topic).key("k").delay(Duration.ZERO)));
    assertEquals(id, conflict.jobId());
    var invalid = assertThrows(DuetimeException.Invalid.class, () -> duetime.create(NewJob.of(topic)));
    assertEquals(422, invalid.status());
    assertThrows(DuetimeException.NotFound.class, () -> duetime.get("1"));
    assertThrows(DuetimeException.NotFound.class, () -> duetime.report(Report.succeeded("1", 1)));
    assertThrows(DuetimeException.Conflict.class, () -> duetime.pop(List.of(topic), 1, Duration.ZERO, Duration.ofMinutes(1)));
    duetime.cancel(id);
    var late = assertThrows(DuetimeException.TooLate.class, () -> duetime.change(id, new JobChanges().delay(FAR)));
    assertEquals("cancelled", late.problem().get("state"));
    try (Duetime away = Duetime.builder("http://127.0.0.1:9").timeout(Duration.ofSeconds(2)).build()) {
      assertThrows(DuetimeException.Unavailable.class, () -> away.get("1"));
      assertThrows(DuetimeException.Unavailable.class, () -> away.create(job()));
    }
  }

  @Test
  void aPayloadArrivesByteForByte() {
    String text = "{\"n\": 1.00}";
    assertEquals(text, duetime.get(duetime.create(job().payloadJson(text)).id()).payloadJson());
    byte[] bytes = {0, -1};
    assertArrayEquals(bytes, duetime.get(duetime.create(job().payloadBytes(bytes, "image/x")).id()).payloadBytes());
  }

  @Test
  void aCreateWhoseAnswerIsLostIsAskedForAgainByItsKeyAndMakesOneJob() {
    door.lose.set(1);
    Duetime.Created made = duetime.create(job().key("k"));
    assertEquals(0, door.lose.get());
    assertFalse(made.created());
    assertEquals(made.id(), duetime.getByKey(topic, "k").id());
  }

  @Test
  void withoutAKeyNobodyKnowsWhetherItWasMadeAndAClientThatMakesKeysAsksAgain() {
    door.lose.set(1);
    assertThrows(DuetimeException.OutcomeUnknown.class, () -> duetime.create(job()));
    try (Duetime keeper = builder().makeKeys().build()) {
      door.lose.set(1);
      String one = keeper.get(keeper.create(job()).id()).key();
      String two = keeper.get(keeper.create(job()).id()).key();
      assertTrue(one.compareTo(two) < 0);
    }
  }

  @Test
  void whileTheServerIsAwayOrBusyCallsWaitForIt() throws Exception {
    door.answers.add(Door.answerOf(429, "too-many-requests", "Retry-After: 1\r\n"));
    door.answers.add(Door.answerOf(503, "unavailable", ""));
    long began = System.nanoTime();
    duetime.create(job());
    assertTrue(System.nanoTime() - began >= 999_000_000L && door.answers.isEmpty());
    int port = door.port();
    door.close();
    CompletableFuture<Duetime.Created> waiting = duetime.createAsync(job().key("k"));
    Thread.sleep(100);
    door.listen(port);
    assertTrue(waiting.join().created());
  }

  @Test
  void anAnswerThatAProxyHasLostAndAServerThatIsAwayThenAreAnUnknownOutcome() throws Exception {
    String id = duetime.create(job().key("k")).id();
    door.answers.add(Door.answerOf(502, "bad-gateway", ""));
    assertEquals(id, duetime.create(job().key("k")).id());
    int port = door.port();
    try (Duetime hasty = builder().timeout(Duration.ofSeconds(2)).build()) {
      hasty.get(id);
      door.answers.add(Door.answerOf(504, "gateway-timeout", ""));
      var changing = CompletableFuture.supplyAsync(() -> hasty.change(id, new JobChanges().delay(Duration.ofDays(4))));
      while (!door.answers.isEmpty()) {
        Thread.sleep(1);
      }
      Thread.sleep(20);
      door.close();
      var failure = assertThrows(CompletionException.class, changing::join);
      assertInstanceOf(DuetimeException.OutcomeUnknown.class, failure.getCause());
      assertThrows(DuetimeException.Unavailable.class, () -> hasty.get(id));
    }
    door.listen(port);
  }

  @Test
  void aRedirectIsARefusal() {
    door.answers.addAll(List.of(Door.answerOf(301, "moved", ""), Door.answerOf(301, "moved", "")));
    assertEquals(301, assertThrows(DuetimeException.class, () -> duetime.create(job())).status());
    assertEquals(301, assertThrows(DuetimeException.class, () -> duetime.get("1")).status());
  }

  @Test
  void anAnswerThatDoesNotComeToItsEndIsAnUnknownOutcomeAtTheDeadline() {
    String half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{";
    try (Duetime hasty = builder().timeout(Duration.ofSeconds(3)).build()) {
      door.answers.add(half);
      assertThrows(DuetimeException.OutcomeUnknown.class, () -> hasty.pop(List.of(topic), 1, Duration.ZERO, Duration.ofMinutes(1)));
      door.answers.add(half);
      assertThrows(DuetimeException.OutcomeUnknown.class, () -> hasty.create(job()));
    } // which waits for the end of its requests
  }

  @Test
  void aPopWaitsForADueJobAndWhatIsReportedIsAppliedOnce() throws Exception {
    pullTopic();
    var popping = CompletableFuture.supplyAsync(() -> duetime.pop(List.of(topic), 5, Duration.ofSeconds(20), Duration.ofMinutes(1)));
    String id = duetime.create(NewJob.of(topic).delay(Duration.ZERO).payload("x")).id();
    Job popped = popping.join().get(0);
    assertEquals(List.of(id, 1, "x"), List.of(popped.id(), popped.attempt(), popped.payload()));
    assertTrue(popped.deadline().isAfter(Instant.now()));
    assertEquals(Report.Outcome.APPLIED, duetime.report(Report.succeeded(id, 1)));
    assertEquals(Report.Outcome.DUPLICATE, duetime.report(Report.succeeded(id, 1)));
    assertThrows(DuetimeException.TooLate.class, () -> duetime.cancel(id));
  }
}
