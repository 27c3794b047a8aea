// A consumer of Kafka: node consumer.js TOPIC. It reads committed messages, works, reports, and only then commits its offsets: whatever dies in
// between comes again, and is known by its attempt (orders.js).
import { setTimeout as sleep } from "node:timers/promises";
import { Kafka, logLevel, Partitioners } from "kafkajs";
import { attend, Effects } from "./orders.js";

const topic = process.argv[2];
const kafka = new Kafka({
  brokers: process.env.DUETIME_KAFKA.split(","),
  logLevel: logLevel.WARN,
  retry: { retries: 1000, maxRetryTime: 1000 },
});
const consumer = kafka.consumer({
  groupId: `orders-${topic}`,
  readUncommitted: false,
  allowAutoTopicCreation: false,
  sessionTimeout: 6_000, // so long after a kill -9 its partitions wait for the next consumer
  heartbeatInterval: 1_000,
  metadataMaxAge: 5_000,
});
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
const effects = new Effects();

async function attendBatch({ batch, heartbeat }) {
  const reports = [];
  for (const { headers, value } of batch.messages) {
    const report = await attend(effects, headers.ce_jobid.toString(), Number(headers.ce_attempt), JSON.parse(value));
    if (report) reports.push({ key: report.job_id, value: JSON.stringify(report) });
    await heartbeat();
  }
  await producer.send({ topic: "duetime.results", messages: reports });
}

/** The topic is made when its first job is due. */
async function subscribe() {
  try {
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
  } catch (error) {
    if (error.type !== "UNKNOWN_TOPIC_OR_PARTITION") throw error;
    await sleep(500);
    await subscribe();
  }
}

for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => consumer.disconnect().then(() => producer.disconnect()));
await producer.connect();
await consumer.connect();
await subscribe();
await consumer.run({ eachBatch: attendBatch });
