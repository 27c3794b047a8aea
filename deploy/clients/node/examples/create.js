// Makes jobs: node create.js TOPIC FIRST COUNT. They are asked for at once, leave in a few requests, and each has its own answer. The key makes
// it safe to ask again: the second run gives the same ids. Some are made to fail a time or two, some are impossible.
import { Duetime } from "../src/index.js";

const [topic, first, count] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];

function order(n) {
  const payload = { n };
  if (n % 10 === 3) payload.fails = 1;
  if (n % 50 === 7) payload.fails = 2;
  if (n % 100 === 9) payload.impossible = true;
  return { topic, key: `order-${n}`, delay: (n % 100) * 10, payload, retry: ["1s", "1s", "1s", "1s", "1s"] };
}

const duetime = new Duetime({ url: process.env.DUETIME_URL, token: process.env.DUETIME_TOKEN, caFile: process.env.DUETIME_CA_FILE });
const made = await Promise.all(Array.from({ length: count }, (_, i) => duetime.create(order(first + i))));
for (const { id } of made) console.log(id);
await duetime.close();
