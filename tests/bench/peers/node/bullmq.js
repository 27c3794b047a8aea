// The load on BullMQ, one process of several: node bullmq.js PORT intake CLIENTS SECONDS | write JOBS FROM-MS RATE (0: all at FROM-MS) |
// work JOBS FROM-MS SECONDS. Prints one JSON line. `work` ends when it was told "end" on its standard input, or after SECONDS;
// it prints {"executed":n} now and then, so that several processes can be counted together.
import { Queue, Worker } from "bullmq";

const [port, mode, ...words] = process.argv.slice(2);
const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
const text = "x".repeat(187);
const NAME = "bench";
const HOUR = 3600000;
const CONCURRENCY = 100;

const print = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const percentile = (sorted, share) => (sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] : 0);

function queue() {
  return new Queue(NAME, { connection, defaultJobOptions: { removeOnComplete: true, removeOnFail: true } });
}

const put = (q, due) => q.add("job", { text, due }, { delay: Math.max(0, due - Date.now()) });

// Each client waits for its answer before it asks again; clients have a connection each, as far apart as separate callers are.
async function intake(clients, seconds) {
  const queues = Array.from({ length: clients }, queue);
  await Promise.all(queues.map((q) => q.waitUntilReady()));
  const began = Date.now(), end = began + seconds * 1000;
  let jobs = 0;
  await Promise.all(queues.map(async (q) => {
    while (Date.now() < end) {
      await put(q, Date.now() + HOUR);
      jobs++;
    }
  }));
  print({ jobs, rate: jobs / ((Date.now() - began) / 1000) });
  await Promise.all(queues.map((q) => q.close()));
}

async function write(jobs, from, rate) {
  const q = queue();
  for (let first = 0; first < jobs; first += 500) {
    const now = Date.now();
    await q.addBulk(Array.from({ length: Math.min(500, jobs - first) }, (_, i) => {
      const due = from + (rate ? Math.floor(((first + i) * 1000) / rate) : 0);
      return { name: "job", data: { text, due }, opts: { delay: Math.max(0, due - now) } };
    }));
  }
  print({ jobs, in_time: Date.now() < from });
  await q.close();
}

async function work(from, seconds) {
  const late = [];
  let last = from;
  const worker = new Worker(NAME, async (job) => {
    last = Date.now();
    late.push(last - job.data.due);
  }, { connection, concurrency: CONCURRENCY, removeOnComplete: { count: 0 }, removeOnFail: { count: 0 } });
  await worker.waitUntilReady();
  const told = setInterval(() => print({ executed: late.length }), 50);
  await new Promise((done) => {
    process.stdin.on("data", done);
    setTimeout(done, Math.max(0, from - Date.now()) + seconds * 1000);
  });
  clearInterval(told);
  late.sort((a, b) => a - b);
  print({ executed: late.length, early: late.filter((ms) => ms < 0).length, last, late });
  process.exit(0);
}

const numbers = words.map(Number);
await { intake, write, work }[mode](...numbers);
process.exit(0);
