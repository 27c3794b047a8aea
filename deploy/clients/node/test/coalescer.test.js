import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { Coalescer } from "../src/coalescer.js";
import { OutcomeUnknownError, UnavailableError } from "../src/errors.js";

const LIMITS = { linger: 0, connections: 2, batchJobs: 100, batchBytes: 10_000, pendingJobs: 1_000, pendingBytes: 1_000_000 };
const fakes = [];
const CALL = { again: true, timeout: 10_000 };

/** A server whose answers are given by hand: `batches` are what it was sent. */
function fake(limits = {}) {
  const batches = [];
  const send = (text) => {
    const values = text.trim().split("\n").map(JSON.parse);
    return new Promise((resolve, reject) => {
      const lines = (of) => values.map((value) => `${JSON.stringify(of(value))}\n`).join("");
      const answer = (of = (value) => ({ status: 201, id: `${value}` })) => resolve(lines(of));
      batches.push({ values, answer, answerText: resolve, fail: reject });
    });
  };
  fakes.push({ batches, coalescer: new Coalescer(send, { ...LIMITS, ...limits }) });
  return fakes.at(-1);
}

// What a test leaves without an answer gets one, so that nothing holds up the end.
after(async () => {
  for (const { batches, coalescer } of fakes) {
    let over = false;
    coalescer.drained().then(() => {
      over = true;
    });
    await until(() => {
      for (const batch of batches) batch.answer();
      return over;
    });
  }
});

const values = (batches) => batches.map((batch) => batch.values);

/** So many calls with the values from `first`. */
function calls(coalescer, count, first = 0, how = CALL) {
  return Array.from({ length: count }, (_, i) => coalescer.add(first + i, how));
}

async function until(condition) {
  while (!condition()) await sleep(1);
}

test("calls of one turn go together, and each has its own answer", async () => {
  const { batches, coalescer } = fake();
  const made = calls(coalescer, 3);
  await turn();
  assert.deepEqual(values(batches), [[0, 1, 2]]);
  batches[0].answer((value) => (value === 1 ? { status: 422, type: "/problems/invalid" } : { status: 201, id: `${value}` }));
  assert.deepEqual(
    (await Promise.allSettled(made)).map((one) => one.value?.id ?? one.reason.name),
    ["0", "InvalidError", "2"],
  );
});

test("what comes while all connections are busy goes as one batch when one is free", async () => {
  const { batches, coalescer } = fake();
  for (let i = 0; i < 4; i++) {
    coalescer.add(i, CALL);
    await turn();
  }
  assert.deepEqual(values(batches), [[0], [1]]);
  batches[0].answer();
  await until(() => batches.length === 3);
  assert.deepEqual(batches[2].values, [2, 3]);
});

test("with a linger a call waits for others, but not when a batch is full", async () => {
  const { batches, coalescer } = fake({ linger: 500, batchJobs: 3 });
  calls(coalescer, 1);
  await turn();
  calls(coalescer, 1, 1);
  await until(() => batches.length === 1);
  assert.deepEqual(batches[0].values, [0, 1]);
  calls(coalescer, 3, 2);
  await turn();
  assert.deepEqual(batches[1].values, [2, 3, 4]);
});

test("a batch is bounded by count and by bytes, and what is longer goes alone", async () => {
  const { batches, coalescer } = fake({ batchJobs: 2, batchBytes: 20, connections: 9 });
  for (const value of [1, 2, 3, "x".repeat(40), "y".repeat(10), "z".repeat(10)]) coalescer.add(value, CALL);
  await turn();
  assert.deepEqual(
    batches.map((batch) => batch.values.length),
    [2, 1, 1, 1, 1],
  );
});

for (const [name, limits] of Object.entries({ count: { pendingJobs: 2 }, bytes: { pendingBytes: 4 } }))
  test(`beyond the bound of ${name} calls wait in their order, and are not written as text`, async () => {
    const { batches, coalescer } = fake({ ...limits, connections: 9 });
    let written = 0;
    const value = (n) => ({ toJSON: () => ++written && n });
    const made = [0, 1, 2, 3, 4].map((n) => coalescer.add(value(n), CALL));
    await turn();
    assert.deepEqual(values(batches), [[0, 1]]);
    assert.equal(written, 2);
    for (let i = 0; i < 3; i++) {
      await until(() => batches.length > i);
      batches[i].answer();
    }
    assert.deepEqual(values(batches), [[0, 1], [2, 3], [4]]);
    await Promise.all(made);
    await coalescer.drained();
  });

test("what is unavailable comes again, first and in its order, when the server will have it", async () => {
  const { batches, coalescer } = fake({ connections: 1 });
  const made = calls(coalescer, 2);
  await turn();
  calls(coalescer, 1, 2);
  const began = Date.now();
  batches[0].fail(Object.assign(new UnavailableError("busy"), { retryAfter: 100 }));
  await until(() => batches.length === 2);
  assert.ok(Date.now() - began >= 99);
  assert.deepEqual(batches[1].values, [0, 1, 2]);
  const answered = Date.now();
  batches[1].answer((value) =>
    value === 1 ? { status: 429, type: "/problems/quota-exceeded", retry_after: "PT0.1S" } : { status: 201, id: "x" },
  );
  await until(() => batches.length === 3);
  assert.ok(Date.now() - answered >= 99);
  assert.deepEqual(batches[2].values, [1]);
  batches[2].answer();
  assert.deepEqual(
    (await Promise.all(made)).map(({ id }) => id),
    ["x", "1"],
  );
});

test("what nobody knows the outcome of comes again only where that does no harm", async () => {
  const { batches, coalescer } = fake();
  const [keyed, other] = [coalescer.add(0, CALL), coalescer.add(1, { ...CALL, again: false })];
  await turn();
  batches[0].fail(new OutcomeUnknownError("cut"));
  await assert.rejects(other, OutcomeUnknownError);
  await until(() => batches.length === 2);
  assert.deepEqual(batches[1].values, [0]);
  batches[1].answer((value) => ({ status: 200, id: `${value}` }));
  assert.equal((await keyed).status, 200);
});

test("at its deadline a call that was not sent is unavailable, and one that was is unknown", async () => {
  const { batches, coalescer } = fake({ connections: 1, pendingJobs: 2 });
  const made = calls(coalescer, 1, 0, { ...CALL, timeout: 600 });
  await turn();
  made.push(...calls(coalescer, 2, 1, { ...CALL, timeout: 100 })); // one in the queue, one that waits for room
  const names = (await Promise.allSettled(made)).map((one) => one.reason?.name);
  assert.deepEqual(names, ["OutcomeUnknownError", "UnavailableError", "UnavailableError"]);
  batches[0].answer();
  await coalescer.drained();
  calls(coalescer, 2, 3); // there is room again
  await until(() => batches.length === 2);
  assert.deepEqual(batches[1].values, [3, 4]);
});

test("a value that is no JSON fails alone", async () => {
  const { batches, coalescer } = fake();
  const circular = {};
  circular.self = circular;
  const [bad, good] = [coalescer.add(circular, CALL), coalescer.add(2, CALL)];
  await assert.rejects(bad, TypeError);
  await turn();
  batches[0].answer();
  assert.equal((await good).id, "2");
});

test("of an answer with too few lines those that have none are unknown", async () => {
  const { batches, coalescer } = fake();
  const made = calls(coalescer, 3, 0, { ...CALL, again: false });
  await turn();
  batches[0].answer((value) => (value < 2 ? (value ? undefined : { status: 201, id: "0" }) : undefined));
  assert.deepEqual(
    (await Promise.allSettled(made)).map((one) => one.reason?.name),
    [undefined, "OutcomeUnknownError", "OutcomeUnknownError"],
  );
});

for (const status of [413, 503])
  test(`of a batch that the server ended with ${status} the rest goes again`, async () => {
    const { batches, coalescer } = fake();
    const made = calls(coalescer, 3, 0, { ...CALL, again: false });
    await turn();
    batches[0].answerText(`{"status":201,"id":"0"}\n{"status":${status},"type":"/problems/ended"}\n`);
    await until(() => batches.length === 2);
    assert.deepEqual(batches[1].values, [1, 2]);
    batches[1].answer();
    assert.deepEqual(
      (await Promise.all(made)).map(({ id }) => id),
      ["0", "1", "2"],
    );
  });

test("a batch that is refused as a whole as too large does not go again", async () => {
  const { batches, coalescer } = fake();
  const made = calls(coalescer, 2);
  await turn();
  batches[0].answerText('{"status":413,"type":"/problems/too-large"}\n');
  for (const { reason } of await Promise.allSettled(made)) assert.equal(reason.name, "InvalidError");
});
