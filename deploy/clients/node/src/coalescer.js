// Puts calls that wait at the same time into one request: lines of NDJSON, each caller awaiting its own line of the answer.
//
//   add() ── room? ──▶ queue ── a connection is free (after linger) ──▶ a batch under way ──▶ settled
//              └─▶ waits for room, in its order       ▲                        │
//                                                     └── comes again ◀────────┘ unavailable; outcome unknown, and it has a key
//
// Invariants: at most `connections` batches are under way; at most `pendingJobs` calls and about `pendingBytes` bytes are held as text,
// the others wait with the caller's own object; a call settles once, at its deadline at the latest.
import { OutcomeUnknownError, UnavailableError } from "./errors.js";
import { stringify } from "./json.js";
import { linesOf, pauseOf, retryable } from "./transport.js";

export class Coalescer {
  #send;
  #limits;
  #queue = [];
  #waiting = [];
  #held = { jobs: 0, bytes: 0 };
  #underWay = 0;
  #timer = null;
  #immediate = null;
  #pausedUntil = 0;
  #failures = 0;
  #idle = [];

  /** `send(text, signal)` gives the text of the answer, a line for each line. `limits`: see index.d.ts. */
  constructor(send, limits) {
    this.#send = send;
    this.#limits = limits;
  }

  /** The answer to one value. `again`: it may be sent anew when nobody knows whether it was carried out. */
  add(value, { again, timeout }) {
    return new Promise((resolve, reject) => {
      const call = { value, again, resolve, reject, line: null, bytes: 0, sent: false, failure: null, unknown: null, settled: false };
      call.deadline = performance.now() + timeout;
      call.timer = setTimeout(() => this.#expire(call), timeout);
      this.#waiting.push(call);
      if (this.#waiting.length === 1) this.#admitWaiting();
    });
  }

  /** Resolves when nothing is pending. */
  async drained() {
    if (this.#held.jobs + this.#waiting.length > 0) await new Promise((done) => this.#idle.push(done));
  }

  #hasRoom() {
    return this.#held.jobs < this.#limits.pendingJobs && this.#held.bytes < this.#limits.pendingBytes;
  }

  /** Those who wait for room, as many as there is room for. */
  #admitWaiting() {
    let n = 0;
    while (n < this.#waiting.length && this.#hasRoom()) this.#admit(this.#waiting[n++]);
    this.#waiting.splice(0, n);
    if (this.#queue.length > 0) this.#flushSoon(this.#queue.length < this.#limits.batchJobs ? this.#limits.linger : 0);
    if (this.#held.jobs + this.#waiting.length === 0) for (const done of this.#idle.splice(0)) done();
  }

  #admit(call) {
    if (call.settled) return;
    try {
      call.line = `${stringify(call.value)}\n`;
    } catch (error) {
      this.#settle(call, error);
      return;
    }
    call.value = null;
    call.bytes = Buffer.byteLength(call.line);
    this.#held.jobs++;
    this.#held.bytes += call.bytes;
    this.#queue.push(call);
  }

  /** Without a wait it is after what else this turn of the event loop brings, so that callers who go on at the same time go together. */
  #flushSoon(ms) {
    const wait = Math.max(ms, this.#pausedUntil - performance.now());
    if (this.#immediate) return;
    if (wait > 0) {
      this.#timer ??= setTimeout(() => this.#flush(), wait);
      return;
    }
    clearTimeout(this.#timer);
    this.#immediate = setImmediate(() => this.#flush());
  }

  #flush() {
    this.#timer = this.#immediate = null;
    if (this.#pausedUntil > performance.now()) this.#flushSoon(0);
    else while (this.#underWay < this.#limits.connections && this.#queue.length > 0) this.#sendBatch(this.#nextBatch());
  }

  /** What fits, one call at least; without those whose deadline passed. */
  #nextBatch() {
    const { batchJobs, batchBytes } = this.#limits;
    let bytes = 0;
    let end = 0;
    while (end < Math.min(this.#queue.length, batchJobs) && (end === 0 || bytes + this.#queue[end].bytes <= batchBytes))
      bytes += this.#queue[end++].bytes;
    return this.#queue.splice(0, end).filter((call) => !call.settled);
  }

  async #sendBatch(batch) {
    if (batch.length === 0) return;
    this.#underWay++;
    for (const call of batch) call.sent = true;
    const abandon = new AbortController();
    const latest = batch.reduce((most, call) => Math.max(most, call.deadline), 0);
    const timer = setTimeout(() => abandon.abort(), latest - performance.now());
    try {
      const told = linesOf(await this.#send(batch.map((call) => call.line).join(""), abandon.signal), batch.length);
      this.#answered(batch, (i) => told[i]);
    } catch (error) {
      this.#answered(batch, () => error);
    }
    clearTimeout(timer);
    this.#underWay--;
    this.#admitWaiting();
  }

  #answered(batch, outcomeOf) {
    let retryAfter = 0;
    const again = batch.filter((call, i) => {
      const outcome = outcomeOf(i);
      retryAfter = Math.max(retryAfter, outcome.retryAfter ?? 0);
      return !this.#settledBy(call, outcome);
    });
    if (again.length > 0) this.#comeAgain(again, retryAfter);
    else this.#failures = 0;
  }

  /** Whether the call is settled by now; otherwise it is to be sent again. */
  #settledBy(call, outcome) {
    call.sent = false;
    if (outcome instanceof OutcomeUnknownError) call.unknown = outcome;
    if (retryable(outcome) && (call.again || !call.unknown)) call.failure = outcome;
    else this.#settle(call, outcome);
    return call.settled;
  }

  /** In front of all others and in their order, when the server will have them. */
  #comeAgain(calls, retryAfter) {
    this.#pausedUntil = performance.now() + Math.max(retryAfter, pauseOf(this.#failures++));
    this.#queue.unshift(...calls);
  }

  #expire(call) {
    this.#settle(call, expired(call));
    this.#admitWaiting();
  }

  #settle(call, outcome) {
    if (call.settled) return;
    call.settled = true;
    clearTimeout(call.timer);
    if (outcome instanceof Error) call.reject(outcome);
    else call.resolve(outcome);
    if (call.line === null) return;
    this.#held.jobs--;
    this.#held.bytes -= call.bytes;
  }
}

/** The error of a call whose deadline is over. */
function expired(call) {
  if (!call.sent && !call.unknown) return new UnavailableError("nothing was done before the deadline passed", { cause: call.failure });
  return new OutcomeUnknownError("the deadline passed before an answer came", { cause: call.failure, problem: call.unknown?.problem });
}
