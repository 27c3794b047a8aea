// The errors that a caller tells apart. Each has `status` and `problem` (RFC 9457) where the server said something.

export class DuetimeError extends Error {
  constructor(message, { status = 0, problem = {}, cause } = {}) {
    super(message, { cause });
    this.name = this.constructor.name;
    this.status = status;
    this.problem = problem;
  }
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

const BY_SLUG = { "key-conflict": KeyConflictError, "too-late": TooLateError, "outcome-unknown": OutcomeUnknownError };
const BY_STATUS = {
  400: InvalidError,
  401: ForbiddenError,
  403: ForbiddenError,
  404: NotFoundError,
  408: UnavailableError,
  409: ConflictError,
  412: ConflictError,
  413: InvalidError,
  415: InvalidError,
  422: InvalidError,
  429: UnavailableError,
  502: OutcomeUnknownError,
  503: UnavailableError,
  504: OutcomeUnknownError,
};

/** Milliseconds of a duration as the server writes it: "PT1M0.5S"; 0 of anything else. */
function milliseconds(duration) {
  const [, days = 0, hours = 0, minutes = 0, seconds = 0] = /^P(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?$/.exec(duration) ?? [];
  return (((Number(days) * 24 + Number(hours)) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000;
}

/** The error that a problem document stands for; `retryAfter` (ms) is when it is worth while to come again. */
export function errorOf(status, problem) {
  const slug = String(problem.type ?? "")
    .split("/")
    .pop();
  const kind = BY_SLUG[slug] ?? BY_STATUS[status] ?? DuetimeError;
  const first = problem.errors?.[0];
  const detail = first ? `${first.pointer} ${first.reason}` : (problem.detail ?? problem.title ?? "no reason given");
  return Object.assign(new kind(`${status} ${slug || "error"}: ${detail}`, { status, problem }), {
    retryAfter: milliseconds(problem.retry_after),
  });
}
