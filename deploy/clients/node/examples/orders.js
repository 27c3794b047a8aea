// What the consumer and the worker have in common: the work, and the record of what was done, by which a repeated message, a repeated
// attempt and an attempt that was overtaken are known.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

class Impossible extends Error {}

/** The place for your own work: it throws when it fails. */
async function work(order, attempt) {
  await sleep(2);
  if (order.impossible) throw new Impossible(`order ${order.n} cannot be closed`);
  if (attempt <= (order.fails ?? 0)) throw new Error(`attempt ${attempt} at order ${order.n} fails`);
}

/** A line "JOB ATTEMPT STATUS" for each attempt that was worked on. In your application it is a row, written in the work's own transaction. */
export class Effects {
  #path;
  #last = new Map();

  constructor(path = process.env.DUETIME_EFFECTS ?? "effects.log") {
    this.#path = path;
    const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n").filter(Boolean) : [];
    for (const [job, attempt, status] of lines.map((line) => line.split(" "))) this.#last.set(job, { attempt: Number(attempt), status });
  }

  /** The status to report without working, "stale" for an attempt that a later one has overtaken, or undefined: work. */
  known(job, attempt) {
    const last = this.#last.get(job);
    if (!last) return undefined;
    if (last.attempt > attempt) return "stale";
    const final = last.status === "succeeded" || last.status === "gave_up";
    return final || last.attempt === attempt ? last.status : undefined;
  }

  record(job, attempt, status) {
    appendFileSync(this.#path, `${job} ${attempt} ${status}\n`);
    this.#last.set(job, { attempt, status });
  }
}

/** Works on an attempt, unless it is known. The report, or null when there is nothing to say. */
export async function attend(effects, job, attempt, order) {
  const known = effects.known(job, attempt);
  if (known === "stale") return null;
  if (known) return { job_id: job, attempt, status: known };
  const report = { job_id: job, attempt, status: "succeeded" };
  try {
    await work(order, attempt);
  } catch (error) {
    report.status = error instanceof Impossible ? "gave_up" : "failed";
    report.error = { code: error.constructor.name, message: error.message };
  }
  effects.record(job, attempt, report.status);
  return report;
}
