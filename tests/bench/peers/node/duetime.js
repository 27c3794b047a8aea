// Creates by our own client, as bullmq.js has them by BullMQ's: node duetime.js INDEX-JS URL TOPIC CLIENTS SECONDS. The jobs are due in an hour; each
// caller waits for its answer before it asks again; two seconds warm up. Prints {"jobs", "rate", "all"}; `all` has those of the warming, too.
const [index, url, topic, clients, seconds] = process.argv.slice(2);
const { Duetime } = await import(index);
const duetime = new Duetime({ url, token: process.env.DUETIME_TOKEN });
const text = "x".repeat(187);
const HOUR = 3600000;

async function clientsUntil(end) {
  let jobs = 0;
  await Promise.all(Array.from({ length: Number(clients) }, async () => {
    for (let now = Date.now(); now < end; now = Date.now()) {
      await duetime.create({ topic, delay: HOUR, payload: { text, due: now + HOUR } });
      jobs++;
    }
  }));
  return jobs;
}

const warm = await clientsUntil(Date.now() + 2000);
const began = Date.now(), jobs = await clientsUntil(began + Number(seconds) * 1000);
console.log(JSON.stringify({ jobs, rate: jobs / ((Date.now() - began) / 1000), all: warm + jobs }));
await duetime.close();
