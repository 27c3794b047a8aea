// Does what it is told, a call a line, and says what came of it: the table of tests that all clients have in common.
import cluster from "node:cluster";
import { createInterface } from "node:readline";
import { Duetime, DuetimeError } from "../src/index.js";

const {
  DUETIME_URL: url,
  DUETIME_TOKEN: token,
  DUETIME_CA_FILE: caFile,
  DUETIME_TIMEOUT = "30000",
  DUETIME_MAKE_KEYS: makeKeys,
} = process.env;
const duetime = new Duetime({
  url,
  token,
  caFile: caFile || undefined,
  timeout: Number(DUETIME_TIMEOUT),
  makeKeys: makeKeys !== undefined,
});

/** What was another's, and what was made. */
async function work({ topic, worker, calls }) {
  const wrong = [];
  const made = [];
  for (let n = 0; n < calls; n++) {
    const { id } = await duetime.create({ topic, payload: [worker, n], delay: "PT1H" });
    const job = await duetime.get(id);
    if (job.id !== id || `${job.payload}` !== `${[worker, n]}`) wrong.push([id, job.id]);
    made.push(id);
  }
  return { wrong, made };
}

async function workers({ topic, count, calls }) {
  const answers = Array.from({ length: count }, (_, worker) => {
    const child = cluster.fork({ WORK: JSON.stringify({ topic, worker, calls }) });
    return new Promise((resolve) => child.on("message", resolve));
  });
  const told = await Promise.all(answers);
  return { wrong: told.flatMap(({ wrong }) => wrong), made: told.flatMap(({ made }) => made) };
}

async function giveUp({ topic }) {
  const controller = new AbortController();
  const popping = duetime.pop(topic, { wait: "PT20S", signal: controller.signal });
  await lines.next();
  controller.abort();
  return popping.catch((error) => ({ gave_up: error.name === "AbortError" }));
}

async function big({ topic }) {
  const payload = [2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 64n + 1n];
  const { id } = await duetime.create({ topic, payload, delay: "PT1H" });
  return { id, digits: (await duetime.get(id)).payload.map(String) };
}

const calls = {
  create: async ({ topic, key }) => ({ id: (await duetime.create({ topic, key: key ?? undefined, delay: "PT1H" })).id }),
  get: async ({ id }) => ({ id: (await duetime.get(id)).id }),
  report: async ({ id }) => ({ outcome: await duetime.report({ job_id: id, attempt: 1, status: "succeeded" }) }),
  workers,
  give_up: giveUp,
  big,
};

let lines;
if (cluster.isPrimary) {
  lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  for await (const line of lines) {
    const { call, ...asked } = JSON.parse(line);
    const told = await calls[call](asked).catch((error) => {
      if (error instanceof DuetimeError) return { error: error.name };
      throw error;
    });
    console.log(JSON.stringify(told));
  }
  await duetime.close();
} else {
  process.send(await work(JSON.parse(process.env.WORK)));
  await duetime.close();
  process.disconnect();
}
