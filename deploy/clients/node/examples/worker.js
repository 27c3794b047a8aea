// A worker that pops: node worker.js TOPIC. The server lets it wait for due jobs; it has TTR_MS for each attempt and asks for more while it works;
// on SIGTERM it ends what it has begun, reports it, and takes nothing more.
import { setTimeout as sleep } from "node:timers/promises";
import { Duetime } from "../src/index.js";
import { attend, Effects } from "./orders.js";

const HANDS = 20;
const TTR_MS = 3_000; // a worker that dies costs its jobs so much time

const topic = process.argv[2];
const duetime = new Duetime({ url: process.env.DUETIME_URL, token: process.env.DUETIME_TOKEN, caFile: process.env.DUETIME_CA_FILE });
const effects = new Effects();
const busy = new Map();
let ending = false;

async function take(job) {
  const report = await attend(effects, job.id, job.attempt, job.payload);
  if (report) await duetime.report(report);
}

function start(job) {
  const done = take(job)
    .catch((error) => console.error(`job ${job.id}: ${error.message}`)) // its deadline passes, and the next attempt follows
    .finally(() => busy.delete(job));
  busy.set(job, done);
}

async function pop() {
  try {
    return await duetime.pop(topic, { max: HANDS - busy.size, wait: "PT5S", ttr: TTR_MS });
  } catch (error) {
    console.error(`nothing popped: ${error.message}`);
    await sleep(1_000);
    return [];
  }
}

const extending = setInterval(() => {
  for (const job of busy.keys()) duetime.report({ job_id: job.id, attempt: job.attempt, status: "extended" }).catch(() => {});
}, TTR_MS / 3);

for (const signal of ["SIGTERM", "SIGINT"])
  process.once(signal, () => {
    ending = true;
  });
while (!ending) {
  if (busy.size === HANDS) await Promise.race(busy.values());
  else for (const job of await pop()) start(job);
}
await Promise.all(busy.values());
clearInterval(extending);
await duetime.close();
