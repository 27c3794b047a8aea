// The load on BullMQ, one process of several: node bullmq.js PORT intake CLIENTS SECONDS [RATE] | stream RATE SECONDS WARM-SECONDS | burst JOBS |
// work SINCE-MS UNTIL-MS. Prints one JSON line. stream and burst write the jobs before the first of them is due (how long that takes is
// tried beforehand); what is due before "since" warms up and does not count. work ends when it was told "end" on its standard input, or
// at UNTIL-MS; it prints {"executed":n} now and then, so that several processes can be counted together.
import { Queue, Worker } from "bullmq";

const [port, mode, ...words] = process.argv.slice(2);
const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
const text = "x".repeat(187);
const NAME = "bench";
const HOUR = 3600000;
const CONCURRENCY = 100;
const CHUNK = 500;
const SPARE_MS = 4000;
const BURST_AFTER_MS = 5000;

// Done when it is written: the process ends by exit(), which does not wait for a pipe.
const print = (value) => new Promise((done) => process.stdout.write(JSON.stringify(value) + "\n", done));

async function until(ms) {
  if (ms > Date.now()) await new Promise((done) => setTimeout(done, ms - Date.now()));
}

function queue() {
  return new Queue(NAME, { connection, defaultJobOptions: { removeOnComplete: true, removeOnFail: true } });
}

// The delay counts from the job's timestamp: it is given, so that a job is due exactly then.
function options(due, now) {
  return { timestamp: now, delay: Math.max(0, due - now) };
}

// Each client waits for its answer before it asks again. They share one connection in one process: with a connection each, or with two
// to four processes, it is a third slower on two cores.
async function intake(clients, seconds, rate) {
  const q = queue();
  await q.waitUntilReady();
  const clientsUntil = async (end) => {
    const start = Date.now();
    let jobs = 0, begun = 0;
    await Promise.all(Array.from({ length: clients }, async () => {
      for (let now = Date.now(); now < end; now = Date.now()) {
        if (rate) await until(start + (begun++ * 1000) / rate);
        await q.add("job", { text, due: now + HOUR }, options(now + HOUR, now));
        jobs++;
      }
    }));
    return jobs;
  };
  await clientsUntil(Date.now() + 2000);
  const began = Date.now(), jobs = await clientsUntil(began + seconds * 1000);
  await print({ jobs, rate: jobs / ((Date.now() - began) / 1000) });
}

async function write(q, jobs, due) {
  for (let first = 0; first < jobs; first += CHUNK) {
    const now = Date.now();
    await q.addBulk(Array.from({ length: Math.min(CHUNK, jobs - first) }, (_, i) => {
      const at = due(first + i);
      return { name: "job", data: { text, due: at }, opts: options(at, now) };
    }));
  }
}

// An instant by which so many jobs are surely written.
async function start(q, jobs) {
  const began = Date.now();
  await write(q, 4 * CHUNK, () => began + HOUR);
  return Date.now() + SPARE_MS + Math.ceil(((Date.now() - began) * jobs * 1.5) / (4 * CHUNK));
}

async function stream(rate, seconds, warm) {
  const q = queue(), jobs = rate * (warm + seconds), from = await start(q, jobs);
  await write(q, jobs, (i) => from + Math.floor((i * 1000) / rate));
  await print({ jobs: rate * seconds, since: from + warm * 1000, in_time: Date.now() < from });
}

async function burst(jobs) {
  const q = queue(), warm = Math.floor(jobs / 5), from = await start(q, warm + jobs), since = from + BURST_AFTER_MS;
  await write(q, warm + jobs, (i) => (i < warm ? from : since));
  await print({ jobs, since, in_time: Date.now() < from });
}

async function work(since, until) {
  const late = [];
  let last = since;
  const worker = new Worker(NAME, async (job) => {
    if (job.data.due < since) return;
    last = Date.now();
    late.push(last - job.data.due);
  }, { connection, concurrency: CONCURRENCY, removeOnComplete: { count: 0 }, removeOnFail: { count: 0 } });
  await worker.waitUntilReady();
  const told = setInterval(() => print({ executed: late.length }), 100);
  await new Promise((done) => {
    process.stdin.on("data", done);
    setTimeout(done, until - Date.now());
  });
  clearInterval(told);
  await print({ executed: late.length, early: late.filter((ms) => ms < 0).length, last, late });
}

await { intake, stream, burst, work }[mode](...words.map(Number));
process.exit(0);
