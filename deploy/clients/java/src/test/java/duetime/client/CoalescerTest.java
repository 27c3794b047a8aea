package duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Against a sender whose answers are given by hand. */
@Timeout(60)
class CoalescerTest {
  private static final Duration LONG = Duration.ofSeconds(20);

  /** A batch under way. */
  private record Batch(List<String> lines, CompletableFuture<String> text) {
    void answer(UnaryOperator<String> of) {
      StringBuilder made = new StringBuilder();
      lines.forEach(line -> made.append(of.apply(line)).append('\n'));
      text.complete(made.toString());
    }

    void answer() {
      answer(CoalescerTest::made);
    }
  }

  private final BlockingQueue<Batch> batches = new LinkedBlockingQueue<>();
  private final Queue<Batch> all = new ConcurrentLinkedQueue<>();
  private final List<CompletableFuture<?>> calls = new ArrayList<>();
  private volatile boolean over;
  private Coalescer coalescer;

  private static String made(String line) {
    return "{\"status\":201,\"id\":\"" + line + "\"}";
  }

  private static Limits limits(int connections, int batchJobs, int batchBytes, int pendingJobs) {
    return new Limits(Duration.ZERO, connections, batchJobs, batchBytes, pendingJobs, 1_000_000);
  }

  private void start(Limits limits) {
    coalescer = new Coalescer("test", this::send, limits);
  }

  private String send(String text, Duration timeout) {
    Batch batch = new Batch(List.of(text.split("\n")), new CompletableFuture<>());
    batches.add(batch);
    all.add(batch);
    if (over) {
      batch.answer();
    }
    try {
      return batch.text().join();
    } catch (CompletionException e) {
      throw (DuetimeException) e.getCause();
    }
  }

  private CompletableFuture<Map<String, Object>> call(String line) {
    return call(line, true, LONG);
  }

  private CompletableFuture<Map<String, Object>> call(String line, boolean again, Duration timeout) {
    CompletableFuture<Map<String, Object>> made = coalescer.submit(line, again, timeout);
    calls.add(made);
    return made;
  }

  private Batch next() throws InterruptedException {
    Batch batch = batches.poll(20, TimeUnit.SECONDS);
    assertTrue(batch != null, "a batch was expected");
    return batch;
  }

  private static DuetimeException failureOf(CompletableFuture<?> call) {
    return assertInstanceOf(DuetimeException.class, assertThrows(CompletionException.class, call::join).getCause());
  }

  @AfterEach
  void end() {
    over = true;
    all.forEach(Batch::answer);
    if (coalescer != null) {
      coalescer.close();
    }
  }

  @Test
  void whatComesWhileAllConnectionsAreBusyGoesTogetherAndEachHasItsOwnAnswer() throws Exception {
    start(limits(1, 100, 10_000, 1_000));
    call("a");
    Batch first = next();
    assertEquals(List.of("a"), first.lines());
    var others = List.of(call("b"), call("c"), call("d"));
    first.answer();
    Batch second = next();
    assertEquals(List.of("b", "c", "d"), second.lines());
    second.answer(line -> line.equals("c") ? "{\"status\":422,\"type\":\"/problems/invalid\"}" : made(line));
    assertEquals("b", others.get(0).join().get("id"));
    assertInstanceOf(DuetimeException.Invalid.class, failureOf(others.get(1)));
    assertEquals("d", others.get(2).join().get("id"));
  }

  @Test
  void withALingerACallWaitsForOthersButNotWhenABatchIsFull() throws Exception {
    start(new Limits(Duration.ofMillis(500), 1, 3, 10_000, 1_000, 1_000_000));
    call("a");
    call("b");
    Batch first = next();
    assertEquals(List.of("a", "b"), first.lines());
    first.answer();
    long began = System.nanoTime();
    List.of("c", "d", "e").forEach(this::call);
    assertEquals(List.of("c", "d", "e"), next().lines());
    assertTrue(System.nanoTime() - began < LONG.toNanos());
  }

  @Test
  void aBatchIsBoundedByCountAndByBytesAndWhatIsLongerGoesAlone() throws Exception {
    start(limits(1, 2, 20, 1_000));
    call("first");
    Batch first = next();
    List.of("1", "2", "3", "x".repeat(40), "y".repeat(12), "z".repeat(12)).forEach(this::call);
    first.answer();
    List<Integer> sizes = new ArrayList<>();
    for (int i = 0; i < 5; i++) {
      Batch batch = next();
      sizes.add(batch.lines().size());
      batch.answer();
    }
    assertEquals(List.of(2, 1, 1, 1, 1), sizes);
  }

  @Test
  void beyondTheBoundACallWaitsForRoomAndIsUnavailableWhenThereIsNone() throws Exception {
    start(limits(1, 100, 10_000, 2));
    call("a");
    Batch first = next();
    call("b");
    assertThrows(DuetimeException.Unavailable.class, () -> coalescer.submit("c", true, Duration.ofMillis(50)));
    AtomicReference<CompletableFuture<Map<String, Object>>> waiting = new AtomicReference<>();
    Thread caller = new Thread(() -> waiting.set(call("d")));
    caller.start();
    first.answer();
    Batch second = next();
    assertEquals("b", second.lines().get(0));
    second.answer();
    caller.join();
    if (second.lines().size() == 1) {
      next().answer();
    }
    assertEquals("d", waiting.get().join().get("id"));
  }

  @Test
  void whatIsUnavailableComesAgainFirstAndInItsOrderWhenTheServerWillHaveIt() throws Exception {
    start(limits(1, 2, 10_000, 1_000));
    call("a");
    next().answer();
    var calls = List.of(call("b"), call("c"), call("d"));
    Batch first = next();
    long began = System.nanoTime();
    first.text().completeExceptionally(new DuetimeException.Unavailable("busy", 503, Map.of(), Duration.ofMillis(200), null));
    Batch again = next();
    assertTrue(System.nanoTime() - began >= 199_000_000);
    List<String> came = new ArrayList<>(again.lines());
    long answered = System.nanoTime();
    again.answer(line -> line.equals("b") ? "{\"status\":429,\"type\":\"/problems/quota-exceeded\",\"retry_after\":\"PT0.2S\"}" : made(line));
    while (calls.stream().anyMatch(call -> !call.isDone())) {
      Batch batch = batches.poll(10, TimeUnit.MILLISECONDS);
      if (batch != null) {
        came.addAll(batch.lines());
        batch.answer();
      }
    }
    assertTrue(System.nanoTime() - answered >= 199_000_000);
    assertEquals("b", came.get(0));
    assertEquals(2, came.stream().filter("b"::equals).count());
    assertEquals(List.of("b", "c", "d"), calls.stream().map(call -> call.join().get("id")).toList());
  }

  @Test
  void whatNobodyKnowsTheOutcomeOfComesAgainOnlyWhereThatDoesNoHarm() throws Exception {
    start(limits(1, 100, 10_000, 1_000));
    call("a");
    Batch first = next();
    var keyed = call("keyed");
    var other = call("other", false, LONG);
    first.answer();
    next().text().completeExceptionally(new DuetimeException.OutcomeUnknown("cut", null));
    assertInstanceOf(DuetimeException.OutcomeUnknown.class, failureOf(other));
    Batch again = next();
    assertEquals(List.of("keyed"), again.lines());
    again.answer();
    assertEquals("keyed", keyed.join().get("id"));
  }

  @Test
  void atItsDeadlineACallThatWasNotSentIsUnavailableAndOneThatWasIsUnknown() throws Exception {
    start(limits(1, 100, 10_000, 2));
    var sent = call("sent", true, Duration.ofMillis(800));
    Batch first = next();
    var queued = call("queued", true, Duration.ofMillis(100));
    assertInstanceOf(DuetimeException.Unavailable.class, failureOf(queued));
    assertInstanceOf(DuetimeException.OutcomeUnknown.class, failureOf(sent));
    first.answer();
    var later = call("later"); // there is room again
    next().answer();
    assertEquals("later", later.join().get("id"));
  }

  @Test
  void aThreadThatAsksIsAnsweredInItsOwnThreadOrAtItsDeadline() throws Exception {
    start(limits(2, 100, 10_000, 1_000));
    assertThrows(DuetimeException.OutcomeUnknown.class, () -> coalescer.ask("a", true, Duration.ofMillis(100)));
    CompletableFuture<Map<String, Object>> asked = CompletableFuture.supplyAsync(() -> coalescer.ask("b", true, LONG));
    next();
    next().answer();
    assertEquals("b", asked.join().get("id"));
  }

  @Test
  void ofAnAnswerWithTooFewLinesThoseThatHaveNoneAreUnknown() throws Exception {
    start(limits(1, 100, 10_000, 1_000));
    call("a");
    Batch first = next();
    var others = List.of(call("b", false, LONG), call("c", false, LONG), call("d", false, LONG));
    first.answer();
    next().answer(line -> line.equals("b") ? made(line) : line.equals("c") ? "nonsense" : "");
    assertEquals("b", others.get(0).join().get("id"));
    assertInstanceOf(DuetimeException.OutcomeUnknown.class, failureOf(others.get(1)));
    assertInstanceOf(DuetimeException.OutcomeUnknown.class, failureOf(others.get(2)));
  }

  @Test
  void ofABatchThatTheServerEndedEarlyTheRestGoesAgain() throws Exception {
    start(limits(1, 100, 10_000, 1_000));
    for (int status : List.of(413, 503)) {
      call("a");
      Batch first = next();
      var others = List.of(call("b", false, LONG), call("c", false, LONG), call("d", false, LONG));
      first.answer();
      next().text().complete(made("b") + "\n{\"status\":" + status + ",\"type\":\"/problems/ended\"}\n");
      Batch again = next();
      assertEquals(List.of("c", "d"), again.lines());
      again.answer();
      assertEquals(List.of("b", "c", "d"), others.stream().map(call -> call.join().get("id")).toList());
    }
  }
}
