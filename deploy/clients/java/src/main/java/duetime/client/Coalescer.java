package duetime.client;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Puts calls that wait at the same time into one request: lines of NDJSON, each caller awaiting its own line of the answer.
 *
 * <pre>
 *   add() ── waits for room ──▶ queue ── a sender is free (after linger) ──▶ a batch under way ──▶ settled
 *                                 ▲                                                │
 *                                 └── comes again ◀────────────────────────────────┘ unavailable; outcome unknown, and it has a key
 * </pre>
 *
 * <p>Invariants: as many threads as there are connections send, a batch each; at most `pendingJobs` calls and about `pendingBytes`
 * characters are held; a call settles once. Everything below `lock` is guarded by it, a call's own state included.
 */
final class Coalescer {
  /** Sends lines and gives the text of the answer, a line for each. */
  interface Sender {
    String send(String lines, Duration timeout);
  }

  private static final class Call {
    final String line;
    final boolean again;
    final long deadline;
    final CompletableFuture<Map<String, Object>> answer = new CompletableFuture<>();
    long queuedAt;
    boolean sent;
    DuetimeException failure;
    DuetimeException unknown;

    Call(String line, boolean again, long deadline) {
      this.line = line;
      this.again = again;
      this.deadline = deadline;
    }
  }

  private final Sender sender;
  private final Limits limits;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition work = lock.newCondition();
  private final Condition room = lock.newCondition();
  private final Deque<Call> queue = new ArrayDeque<>();
  private final List<Thread> threads = new ArrayList<>();
  private int heldJobs;
  private long heldBytes;
  private long pausedUntil = System.nanoTime();
  private int failures;
  private boolean closed;

  Coalescer(String name, Sender sender, Limits limits) {
    this.sender = sender;
    this.limits = limits;
    for (int i = 0; i < limits.connections(); i++) {
      Thread thread = new Thread(this::run, "duetime-" + name + "-" + i);
      thread.setDaemon(true);
      threads.add(thread);
      thread.start();
    }
  }

  /** The answer to one line, in the thread that asks for it. */
  Map<String, Object> ask(String line, boolean again, Duration timeout) {
    Call call = add(line, again, timeout);
    try {
      return call.answer.get(call.deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
    } catch (TimeoutException e) {
      throw expire(call);
    } catch (ExecutionException e) {
      throw e.getCause() instanceof DuetimeException known ? known : new IllegalStateException(e.getCause());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw expire(call);
    }
  }

  /** The answer to one line; this call waits as long as there is no room, and for nothing else. */
  CompletableFuture<Map<String, Object>> submit(String line, boolean again, Duration timeout) {
    Call call = add(line, again, timeout);
    CompletableFuture<Void> deadline = new CompletableFuture<Void>().orTimeout(call.deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
    deadline.exceptionally(passed -> {
      expire(call);
      return null;
    });
    call.answer.whenComplete((answer, failure) -> deadline.complete(null));
    return call.answer;
  }

  /** Takes no more calls; returns when none is pending. */
  void close() {
    lock.lock();
    try {
      closed = true;
      while (heldJobs > 0) {
        room.awaitUninterruptibly();
      }
    } finally {
      lock.unlock();
    }
    threads.forEach(Thread::interrupt);
  }

  private Call add(String line, boolean again, Duration timeout) {
    Call call = new Call(line, again, System.nanoTime() + timeout.toNanos());
    lock.lock();
    try {
      awaitRoom(call);
      heldJobs++;
      heldBytes += line.length();
      call.queuedAt = System.nanoTime();
      queue.addLast(call);
      work.signal();
    } finally {
      lock.unlock();
    }
    return call;
  }

  private void awaitRoom(Call call) {
    while (heldJobs >= limits.pendingJobs() || heldBytes >= limits.pendingBytes()) {
      try {
        if (room.awaitNanos(call.deadline - System.nanoTime()) <= 0) {
          throw new DuetimeException.Unavailable("there was no room before the deadline passed", null);
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new DuetimeException.Unavailable("interrupted", e);
      }
    }
    if (closed) {
      throw new DuetimeException.Unavailable("the client is closed", null);
    }
  }

  /** What a sender does until the client is closed. */
  private void run() {
    try {
      while (true) {
        List<Call> batch = take();
        sendBatch(batch);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt(); // closed: nothing is pending
    }
  }

  /** The next batch: what fits, one call at least. */
  private List<Call> take() throws InterruptedException {
    lock.lockInterruptibly();
    try {
      awaitWork();
      List<Call> batch = new ArrayList<>();
      for (long bytes = 0; !queue.isEmpty() && batch.size() < limits.batchJobs(); ) {
        bytes += queue.peekFirst().line.length();
        if (bytes > limits.batchBytes() && !batch.isEmpty()) {
          break;
        }
        queue.peekFirst().sent = true;
        batch.add(queue.pollFirst());
      }
      return batch;
    } finally {
      lock.unlock();
    }
  }

  /** Until there is a call that has waited for its linger, or a whole batch of them, and no pause. */
  private void awaitWork() throws InterruptedException {
    while (true) {
      if (queue.isEmpty()) {
        work.await();
        continue;
      }
      long now = System.nanoTime();
      long linger = queue.size() >= limits.batchJobs() ? 0 : queue.peekFirst().queuedAt + limits.linger().toNanos() - now;
      long wait = Math.max(linger, pausedUntil - now);
      if (wait <= 0) {
        return;
      }
      work.awaitNanos(wait);
    }
  }

  private void sendBatch(List<Call> batch) {
    StringBuilder text = new StringBuilder();
    long latest = batch.get(0).deadline;
    for (Call call : batch) {
      text.append(call.line).append('\n');
      latest = call.deadline - latest > 0 ? call.deadline : latest;
    }
    try {
      answered(batch, Transport.linesOf(sender.send(text.toString(), Duration.ofNanos(latest - System.nanoTime())), batch.size()));
    } catch (DuetimeException failure) {
      answered(batch, Collections.nCopies(batch.size(), failure));
    } catch (RuntimeException bug) {
      answered(batch, Collections.nCopies(batch.size(), new DuetimeException("not sent: " + bug, 0, Map.of(), Duration.ZERO, bug)));
    }
  }

  private void answered(List<Call> batch, List<? extends Object> outcomes) {
    List<Runnable> toTell = new ArrayList<>(batch.size());
    lock.lock();
    try {
      settle(batch, outcomes, toTell);
      room.signalAll();
    } finally {
      lock.unlock();
    }
    toTell.forEach(Runnable::run);
  }

  /** What is settled is told after the lock is let go; the rest goes to the front of the queue, in its order. */
  private void settle(List<Call> batch, List<? extends Object> outcomes, List<Runnable> toTell) {
    Duration retryAfter = Duration.ZERO;
    int again = 0;
    for (int i = batch.size() - 1; i >= 0; i--) {
      Call call = batch.get(i);
      if (outcomes.get(i) instanceof DuetimeException failure && comesAgain(call, failure)) {
        retryAfter = failure.retryAfter.compareTo(retryAfter) > 0 ? failure.retryAfter : retryAfter;
        queue.addFirst(call);
        again++;
        continue;
      }
      letGo(call);
      Object outcome = outcomes.get(i);
      toTell.add(() -> tell(call, outcome));
    }
    failures = again == 0 ? 0 : failures + 1;
    if (again > 0) {
      pausedUntil = System.nanoTime() + Transport.pauseOf(failures - 1, retryAfter).toNanos();
      work.signal();
    }
  }

  private boolean comesAgain(Call call, DuetimeException failure) {
    call.sent = false;
    call.failure = failure;
    if (failure instanceof DuetimeException.OutcomeUnknown) {
      call.unknown = failure;
    }
    return failure.mayPass() && (call.again || call.unknown == null) && !call.answer.isDone();
  }

  private void letGo(Call call) {
    heldJobs--;
    heldBytes -= call.line.length();
  }

  private static void tell(Call call, Object outcome) {
    if (outcome instanceof DuetimeException failure) {
      call.answer.completeExceptionally(failure);
    } else {
      call.answer.complete(Json.object(outcome));
    }
  }

  /** The deadline of a call is over. One that is under way stays held until its answer, or the end of its request. */
  private DuetimeException expire(Call call) {
    DuetimeException why;
    lock.lock();
    try {
      if (!call.sent && queue.remove(call)) {
        letGo(call);
        room.signalAll();
      }
      why = call.sent || call.unknown != null ? unknownOf(call) : new DuetimeException.Unavailable("nothing was done before the deadline passed", call.failure);
    } finally {
      lock.unlock();
    }
    call.answer.completeExceptionally(why);
    return why;
  }

  private static DuetimeException unknownOf(Call call) {
    Map<String, Object> problem = call.unknown == null ? Map.of() : call.unknown.problem();
    return new DuetimeException.OutcomeUnknown("the deadline passed before an answer came", 0, problem, Duration.ZERO, call.failure);
  }
}
