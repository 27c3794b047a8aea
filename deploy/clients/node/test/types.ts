// Compiled and never run: what index.d.ts must allow, and what it must refuse.
import { Duetime, type NewJob, TooLateError } from "../src/index.js";

export async function allowed(): Promise<string | undefined> {
  const duetime = new Duetime({ url: "http://127.0.0.1:8080", linger: 1 });
  const { id, created } = await duetime.create({ topic: "t", delay: "PT1M", payload: { order: 42 }, retry: ["15s", 3000] });
  await duetime.change(id, { run_at: new Date(), retry: null }, { version: 1 });
  await duetime.cancel(id, { retries: true }).catch((error: unknown) => error instanceof TooLateError && error.problem.attempt);
  for (const job of await duetime.pop(["t"], { max: 10, wait: "PT5S", ttr: 1000 }))
    await duetime.report({ job_id: job.id, attempt: job.attempt, status: "snoozed", retry_after: "1m" });
  return created ? (await duetime.get(id)).last_error?.code : undefined;
}

// @ts-expect-error: a job has a time
export const timeless: NewJob = { topic: "t" };
// @ts-expect-error: and one only
export const twice: NewJob = { topic: "t", delay: 1, run_at: new Date() };
