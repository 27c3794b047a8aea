// A client of duetime's REST API. index.d.ts describes every call; errors.js has what they throw.
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Coalescer } from "./coalescer.js";
import { OutcomeUnknownError, UnavailableError } from "./errors.js";
import { parse, stringify } from "./json.js";
import { pauseOf, retryable, Transport } from "./transport.js";

export * from "./errors.js";

const NDJSON = { type: "application/x-ndjson" };
const LONGEST_WAIT_MS = 60_000; // of a pop
const DEFAULTS = {
  url: "http://127.0.0.1:8080",
  timeout: 30_000,
  linger: 0,
  connections: 2,
  batchJobs: 1_000,
  batchBytes: 1 << 20,
  pendingJobs: 10_000,
  pendingBytes: 64 << 20,
  makeKeys: false,
};

export class Duetime {
  #options;
  #transport;
  #creates;
  #reports;
  #single;
  #pops;
  #prefix = `${Date.now().toString(36)}-${randomBytes(6).toString("hex")}-`;
  #keys = 0;
  #asking = new Set(); // single calls, but for pops
  #closed = false;

  constructor(options = {}) {
    this.#options = { ...DEFAULTS, ...options };
    const { url, token, tls, caFile, connections } = this.#options;
    this.#transport = new Transport(url, token, tls, caFile);
    this.#creates = this.#coalescer("/v1/jobs:batch");
    this.#reports = this.#coalescer("/v1/results");
    this.#single = this.#transport.agent(connections);
    this.#pops = this.#transport.agent(Number.POSITIVE_INFINITY); // a pop that waits has a connection to itself
  }

  #coalescer(path) {
    const agent = this.#transport.agent(this.#options.connections);
    return new Coalescer((text, signal) => this.#transport.exchange(agent, "POST", path, text, { ...NDJSON, signal }), this.#options);
  }

  async create(job, { timeout = this.#options.timeout } = {}) {
    this.#mustBeOpen();
    const sent = this.#keyed(withBytes(job));
    const line = await this.#creates.add(sent, { again: sent.key !== undefined, timeout });
    return { id: line.id, created: line.status === 201 };
  }

  async report(result, { timeout = this.#options.timeout } = {}) {
    this.#mustBeOpen();
    return (await this.#reports.add(result, { again: true, timeout })).outcome;
  }

  get(id, options) {
    return this.#awaited(this.#ask("GET", `/v1/jobs/${part(id)}`, undefined, options));
  }

  getByKey(topic, key, options) {
    return this.#awaited(this.#ask("GET", `/v1/topics/${part(topic)}/jobs/${part(key)}`, undefined, options));
  }

  change(id, changes, { version, ...options } = {}) {
    const headers = version === undefined ? {} : { "if-match": `"${version}"` };
    return this.#awaited(
      this.#ask("PATCH", `/v1/jobs/${part(id)}`, withBytes(changes), { ...options, headers, again: version === undefined }),
    );
  }

  cancel(id, { retries = false, ...options } = {}) {
    return this.#awaited(this.#ask("POST", `/v1/jobs/${part(id)}/cancel${retries ? "?retries=true" : ""}`, undefined, options));
  }

  async pop(topics, { max, wait, ttr, timeout = this.#options.timeout, signal } = {}) {
    const body = { topics: [topics].flat(), max, wait, ttr };
    const how = { agent: this.#pops, again: false, timeout: timeout + (wait ? LONGEST_WAIT_MS : 0), signal };
    return (await this.#ask("POST", "/v1/pop", body, how)).jobs;
  }

  async close() {
    this.#closed = true;
    await Promise.all([this.#creates.drained(), this.#reports.drained(), Promise.allSettled(this.#asking)]);
    this.#transport.close();
  }

  #mustBeOpen() {
    if (this.#closed) throw new UnavailableError("the client is closed");
  }

  /** A call that close() awaits. */
  #awaited(call) {
    const over = () => this.#asking.delete(call);
    this.#asking.add(call);
    call.then(over, over);
    return call;
  }

  /** Keys of one client ascend, which is what the server's index of keys likes best. */
  #keyed(job) {
    if (!this.#options.makeKeys || job.key !== undefined) return job;
    return { ...job, key: this.#prefix + (this.#keys++).toString(36).padStart(9, "0") };
  }

  /** One request, again until its deadline as long as that does no harm. */
  async #ask(method, path, body, { agent = this.#single, again = true, timeout = this.#options.timeout, headers, signal } = {}) {
    this.#mustBeOpen();
    const end = performance.now() + timeout;
    const text = body === undefined ? "" : stringify(body);
    let doubt = null; // a try that may have been carried out
    for (let tries = 0; ; tries++) {
      try {
        return parse(
          await this.#bounded(end, signal, (given) => this.#transport.exchange(agent, method, path, text, { headers, signal: given })),
        );
      } catch (error) {
        const pause = Math.max(error.retryAfter ?? 0, pauseOf(tries));
        const harmless = again ? retryable(error) : error instanceof UnavailableError && !this.#closed;
        if (!harmless) throw error;
        if (error instanceof OutcomeUnknownError) doubt = error;
        if (performance.now() + pause > end) throw doubt ?? error;
        await pauseFor(pause, signal);
      }
    }
  }

  /** What is not done at `end`, or when the caller's signal says so, is given up. */
  async #bounded(end, signal, exchange) {
    signal?.throwIfAborted();
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(), Math.max(0, end - performance.now()));
    const given = () => controller.abort();
    signal?.addEventListener("abort", given);
    try {
      return await exchange(controller.signal);
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", given);
    }
  }
}

async function pauseFor(ms, signal) {
  await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted());
}

function part(text) {
  return encodeURIComponent(text);
}

/** A payload of bytes is sent as base64. */
function withBytes(job) {
  if (!(job.payload instanceof Uint8Array)) return job;
  const { payload, ...rest } = job;
  return { ...rest, payload_base64: Buffer.from(payload).toString("base64") };
}
