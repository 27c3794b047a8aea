// On the API at DUETIME_URL, through a door that loses, refuses and answers.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import * as client from "../src/index.js";
import { answerOf, openDoor } from "./door.js";

const far = { delay: "P3D" };
let door;
let duetime;
let topic;

before(async () => {
  door = await openDoor(process.env.DUETIME_URL);
  duetime = new client.Duetime({ url: door.url, token: process.env.DUETIME_TOKEN });
});

beforeEach(() => {
  topic = `node-${randomUUID().slice(0, 8)}`;
});

after(async () => {
  await duetime.close();
  await door.close();
});

async function pullTopic() {
  const headers = { "content-type": "application/json", authorization: `Bearer ${process.env.DUETIME_TOKEN ?? ""}` };
  const made = await fetch(`${process.env.DUETIME_URL}/v1/topics/${topic}`, { method: "PUT", headers, body: '{"delivery":"pull"}' });
  assert.equal(made.status, 201);
}

test("a thousand creates at once leave in a few requests on two connections, each with its own answer", async () => {
  const before = { ...door };
  const made = await Promise.all(Array.from({ length: 1000 }, (_, n) => duetime.create({ topic, ...far, payload: { n } })));
  assert.equal(new Set(made.map(({ id }) => id)).size, 1000);
  assert.ok(door.requests - before.requests <= 4 && door.connections - before.connections <= 2);
  for (const n of [0, 500, 999]) assert.deepEqual((await duetime.get(made[n].id)).payload, { n });
});

test("a job is made, read, changed and cancelled", async () => {
  const { id, created } = await duetime.create({ topic, key: "k/1", ...far });
  assert.ok(created);
  assert.deepEqual(await duetime.create({ topic, key: "k/1", ...far }), { id, created: false });
  assert.equal((await duetime.getByKey(topic, "k/1")).id, id);
  const changed = await duetime.change(id, { payload: [1], run_at: new Date("2030-01-01T00:00:00Z") });
  assert.equal(changed.run_at, "2030-01-01T00:00:00.000Z");
  await assert.rejects(duetime.change(id, { payload: 2 }, { version: 1 }), client.ConflictError);
  assert.deepEqual((await duetime.change(id, { payload: 3 }, { version: changed.version })).payload, 3);
  assert.equal((await duetime.cancel(id)).state, "cancelled");
});

test("refusals are errors of their own kinds", async () => {
  const { id } = await duetime.create({ topic, key: "k", ...far });
  const kinds = [
    [() => duetime.create({ topic, key: "k", delay: 1 }), client.KeyConflictError, (problem) => problem.id === id],
    [() => duetime.create({ topic, ...far, nonsense: 1 }), client.InvalidError, (problem) => problem.errors[0].pointer === "/nonsense"],
    [() => duetime.get("1"), client.NotFoundError],
    [() => duetime.report({ job_id: "1", attempt: 1, status: "succeeded" }), client.NotFoundError],
    [() => duetime.pop(topic), client.ConflictError],
    [() => new client.Duetime({ url: "http://127.0.0.1:9", timeout: 2_000 }).get("1"), client.UnavailableError],
  ];
  for (const [asked, kind, holds = () => true] of kinds)
    await assert.rejects(asked(), (error) => error.constructor === kind && holds(error.problem));
  await duetime.cancel(id);
  await assert.rejects(
    duetime.change(id, far),
    (error) => error.constructor === client.TooLateError && error.problem.state === "cancelled",
  );
});

test("a payload of bytes arrives as bytes", async () => {
  const { id } = await duetime.create({ topic, ...far, payload: Buffer.from([0, 255]), content_type: "image/x" });
  assert.equal((await duetime.get(id)).payload_base64, "AP8=");
});

test("a create whose answer is lost is asked for again by its key, and makes one job", async () => {
  door.lose = 1;
  const made = await Promise.all(Array.from({ length: 20 }, (_, n) => duetime.create({ topic, key: `k${n}`, ...far })));
  assert.equal(door.lose, 0);
  assert.ok(made.some(({ created }) => !created));
  assert.equal(new Set(made.map(({ id }) => id)).size, 20);
});

test("without a key nobody knows whether it was made; a client that makes keys asks again", async () => {
  door.lose = 1;
  await assert.rejects(duetime.create({ topic, ...far }), client.OutcomeUnknownError);
  const keeper = new client.Duetime({ url: door.url, token: process.env.DUETIME_TOKEN, makeKeys: true });
  door.lose = 1;
  const [one, two] = await Promise.all([keeper.create({ topic, ...far }), keeper.create({ topic, ...far })]);
  const keys = [(await keeper.get(one.id)).key, (await keeper.get(two.id)).key];
  assert.ok(keys[0] < keys[1]);
  await keeper.close();
});

test("while the server is away or busy calls wait for it", async () => {
  door.answers = [answerOf(429, "too-many-requests", "Retry-After: 1\r\n"), answerOf(503, "unavailable")];
  const began = Date.now();
  await duetime.create({ topic, ...far });
  assert.ok(Date.now() - began >= 999 && door.answers.length === 0);
  await door.close();
  const waiting = duetime.create({ topic, key: "k", ...far }); // the kept connection may be found closed only when it is used
  await sleep(100);
  await door.listen(door.port);
  assert.ok((await waiting).created);
});

test("an answer that a proxy has lost, and a server that is away then, are an unknown outcome", async () => {
  const { id } = await duetime.create({ topic, key: "k", ...far });
  door.answers = [answerOf(502, "bad-gateway")];
  assert.equal((await duetime.create({ topic, key: "k", ...far })).id, id);
  const change = (delay) => duetime.change(id, { delay }, { timeout: 1_000 });
  door.answers = [answerOf(504, "gateway-timeout")];
  const changing = assert.rejects(change("P4D"), client.OutcomeUnknownError);
  while (door.answers.length > 0) await sleep(1);
  await sleep(20); // the answer has come
  await door.close();
  await changing;
  await assert.rejects(change("P4D"), client.UnavailableError);
  await door.listen(door.port);
});

test("a redirect is a refusal", async () => {
  door.answers = [answerOf(301, ""), answerOf(301, "")];
  await assert.rejects(duetime.create({ topic, ...far }), { status: 301 });
  await assert.rejects(duetime.get("1"), { status: 301 });
});

test("an answer that does not come to its end is an unknown outcome at the deadline", async () => {
  door.answers = ["HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"];
  await assert.rejects(duetime.pop(topic, { timeout: 3_000 }), client.OutcomeUnknownError);
});

test("closing awaits what was asked, and gives up pops", async () => {
  await pullTopic();
  const closed = new client.Duetime({ url: door.url, token: process.env.DUETIME_TOKEN });
  const { id } = await closed.create({ topic, ...far });
  const popping = assert.rejects(closed.pop(topic, { wait: "PT20S" }), client.OutcomeUnknownError);
  await sleep(50);
  const [state] = await Promise.all([closed.change(id, { delay: "P4D" }, { version: 1 }).then((job) => job.version), closed.close()]);
  assert.equal(state, 2);
  await popping;
});

test("a signal ends the pause before the next try as well", async () => {
  door.answers = [answerOf(503, "unavailable", "Retry-After: 20\r\n")];
  const giveUp = new AbortController();
  const began = Date.now();
  setTimeout(() => giveUp.abort(), 100);
  await assert.rejects(duetime.pop(topic, { timeout: 60_000, signal: giveUp.signal }), { name: "AbortError" });
  assert.ok(Date.now() - began < 15_000);
});

test("a pop waits for a due job, and what is reported is applied once", async () => {
  await pullTopic();
  const popping = duetime.pop(topic, { max: 5, wait: "PT20S", ttr: "PT1M" });
  const { id } = await duetime.create({ topic, delay: 0, payload: "x" });
  const [job] = await popping;
  assert.deepEqual([job.id, job.attempt, job.payload], [id, 1, "x"]);
  const report = { job_id: id, attempt: 1, status: "succeeded" };
  assert.deepEqual([await duetime.report(report), await duetime.report(report)], ["applied", "duplicate"]);
  await assert.rejects(duetime.cancel(id), client.TooLateError);
});

test("a pop that waits is given up by its signal", async () => {
  await pullTopic();
  const giveUp = new AbortController();
  const popping = duetime.pop(topic, { wait: "PT20S", signal: giveUp.signal });
  setTimeout(() => giveUp.abort(), 20);
  await assert.rejects(popping, { name: "AbortError" });
});
