// Members of requests and answers have the names of the REST API (api/openapi.yaml). Times are RFC 3339 texts or Dates; durations are ISO 8601
// ("PT30M"), short ("15s", "3m", "1h", "2d") or milliseconds.

export type Duration = string | number;
export type State = "scheduled" | "dispatched" | "succeeded" | "dead" | "cancelled";

interface JobMembers {
  /** Any JSON value; a Uint8Array is sent as bytes (base64). Integers that a number cannot hold are bigints, here and in answers. */
  payload?: unknown;
  payload_base64?: string;
  content_type?: string;
  partition_key?: string | null;
  retry?: Duration[] | null;
  ack_timeout?: Duration | null;
  headers?: Record<string, string> | null;
  callback_url?: string | null;
}

/** When: one of the two, and `delay: 0` is now. */
type Due = { run_at: string | Date; delay?: never } | { delay: Duration; run_at?: never };

export type NewJob = JobMembers & Due & { topic: string; key?: string };
export type JobChanges = JobMembers & { run_at?: string | Date; delay?: Duration };

export interface Job {
  id: string;
  topic: string;
  key?: string;
  state: State;
  run_at: string;
  next_at: string;
  attempt: number;
  max_attempts: number;
  retry: string[];
  ack_timeout: string;
  payload?: unknown;
  payload_base64?: string;
  content_type?: string;
  partition_key?: string;
  headers?: Record<string, string>;
  failures?: number;
  last_error?: { code?: string; message?: string; at: string };
  waiting_for?: string | null;
  created_at: string;
  updated_at: string;
  version: number;
}

export interface PoppedJob extends Job {
  /** Report by then, or report `extended`. */
  deadline: string;
}

export interface Result {
  job_id: string;
  attempt: number;
  status: "succeeded" | "failed" | "snoozed" | "gave_up" | "extended";
  error?: { code?: string; message?: string };
  retry_after?: Duration;
  finished_at?: string | Date;
}

export interface CallOptions {
  /** Milliseconds for the call with all its tries. */
  timeout?: number;
}

/** Options of a call that is not sent in batches: its signal gives it up. */
export interface SingleCallOptions extends CallOptions {
  signal?: AbortSignal;
}

export interface Options {
  /** https://HOST, http://HOST, or unix:/PATH of the API's socket; default http://127.0.0.1:8080. */
  url?: string;
  token?: string;
  /** For https with an authority of your own: the file (PEM) with its certificate. */
  caFile?: string;
  /** For https: `ca`, `cert`, `key` … as Node's tls.connect takes them. */
  tls?: Record<string, unknown>;
  /** Milliseconds for each call, unless it says otherwise (30,000). */
  timeout?: number;
  /** Milliseconds that a call waits for others to go with (0: it goes at once, with whoever waits already). */
  linger?: number;
  /** Batches under way at a time, of creates and of reports (2). */
  connections?: number;
  /** The most calls (1,000) and bytes (1 MiB) of a batch. */
  batchJobs?: number;
  batchBytes?: number;
  /** The most calls (10,000) and bytes (64 MiB) that are taken and not answered; further calls wait. */
  pendingJobs?: number;
  pendingBytes?: number;
  /** Give a key to each job without one, so that it can be asked for again when the outcome of a create is unknown (false). */
  makeKeys?: boolean;
}

export class Duetime {
  constructor(options?: Options);
  /** Makes a job; `created` is false when its key named it already. Calls that wait at the same time go in one request. */
  create(job: NewJob, options?: CallOptions): Promise<{ id: string; created: boolean }>;
  get(id: string, options?: SingleCallOptions): Promise<Job>;
  getByKey(topic: string, key: string, options?: SingleCallOptions): Promise<Job>;
  /** Changes a scheduled job; with `version` only when that is still its version. */
  change(id: string, changes: JobChanges, options?: SingleCallOptions & { version?: number }): Promise<Job>;
  /** Cancels a job; with `retries` a dispatched one is cancelled from further attempts. */
  cancel(id: string, options?: SingleCallOptions & { retries?: boolean }): Promise<Job>;
  /** Reports what became of an attempt. Calls that wait at the same time go in one request. */
  report(result: Result, options?: CallOptions): Promise<"applied" | "duplicate" | "stale">;
  /** Due jobs of topics whose delivery is pull; waits up to `wait` (a minute at most) for the first. */
  pop(topics: string | string[], options?: SingleCallOptions & { max?: number; wait?: Duration; ttr?: Duration }): Promise<PoppedJob[]>;
  /** Takes no more calls, awaits those that are pending, and closes the connections. */
  close(): Promise<void>;
}

export class DuetimeError extends Error {
  /** HTTP's status; 0 when there was no answer. */
  status: number;
  /** The problem document (RFC 9457). */
  problem: {
    type?: string;
    title?: string;
    detail?: string;
    id?: string;
    state?: State;
    attempt?: number;
    errors?: { pointer: string; reason: string }[];
  };
}
/** The server refuses the request as it is: `problem.errors` points at each member that is wrong. */
export class InvalidError extends DuetimeError {}
/** The token is missing or unknown, or lacks the scope. */
export class ForbiddenError extends DuetimeError {}
/** There is no such job or topic. */
export class NotFoundError extends DuetimeError {}
/** The key names a job that another request made: `problem.id`. */
export class KeyConflictError extends DuetimeError {}
/** The job is dispatched or finished: `problem.state`, `problem.attempt`. */
export class TooLateError extends DuetimeError {}
/** Any other refusal for the state that something is in: a topic that is not pull, a version that is no longer the latest. */
export class ConflictError extends DuetimeError {}
/** The deadline passed, or the client was closed, and the server is known to have done nothing. */
export class UnavailableError extends DuetimeError {}
/** The request may have been carried out, or not. `problem.id`, where it is there, is the job to ask for. */
export class OutcomeUnknownError extends DuetimeError {}
