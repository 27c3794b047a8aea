// HTTP to one API over kept connections. Owns connections, the token and what an exchange that failed means; refuses to know
// what is asked. An answer that is no success, and an exchange that fails, end as an error of errors.js with `retryAfter` (ms).
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import tls from "node:tls";
import { errorOf, OutcomeUnknownError, UnavailableError } from "./errors.js";
import { parse } from "./json.js";

const IDLE_MS = 20_000; // well below what the server allows, so that a kept connection is not closed just as it is used
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

/** Milliseconds until the next try: doubled each time, and drawn, so that many clients do not come at one instant. */
export function pauseOf(tries) {
  const most = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tries, 10));
  return most / 2 + Math.random() * (most / 2);
}

export function retryable(error) {
  return error instanceof UnavailableError || error instanceof OutcomeUnknownError;
}

export class Transport {
  #url;
  #path;
  #socketPath;
  #proxy;
  #library;
  #agents = [];
  #ready;
  #headers;

  constructor(url, token, tls = {}, caFile = undefined) {
    const { protocol, pathname } = new URL(url);
    this.#socketPath = protocol === "unix:" ? pathname : undefined;
    this.#url = new URL(this.#socketPath ? "http://localhost" : url);
    this.#path = this.#url.pathname.replace(/\/+$/, "");
    this.#proxy = this.#socketPath ? undefined : proxyOf(this.#url);
    this.#library = this.#url.protocol === "https:" ? https : http;
    this.#ready = this.#library === https ? "secureConnect" : "connect";
    this.#headers = token ? { authorization: `Bearer ${token}` } : {};
    this.tls = caFile ? { ca: readFileSync(caFile), ...tls } : tls;
  }

  /** A group of at most so many connections. */
  agent(connections) {
    const made = new this.#library.Agent({ keepAlive: true, maxSockets: connections, timeout: IDLE_MS, ...this.tls });
    if (this.#proxy && this.#library === https) made.createConnection = (options, done) => tunnel(this.#proxy, options, done);
    this.#agents.push(made);
    return made;
  }

  close() {
    for (const agent of this.#agents) agent.destroy();
  }

  /** The URL to ask; where that is a proxy's, it is told the API's. */
  #target(path, options) {
    const target = new URL(this.#path + path, this.#url);
    if (!this.#proxy || this.#library === https) return target;
    options.path = target.href;
    Object.assign(options.headers, { host: target.host }, authorizationOf(this.#proxy));
    return new URL(this.#proxy.origin);
  }

  /** One exchange: the text of a 2xx answer. `signal` gives it up. */
  exchange(agent, method, path, body = "", { type = "application/json", headers = {}, signal } = {}) {
    const sent = { ...this.#headers, ...headers };
    if (body) Object.assign(sent, { "content-type": type, "content-length": Buffer.byteLength(body) });
    return new Promise((resolve, reject) => {
      let begun = false; // on a connection that stood: from then on nobody knows what the server has got
      const options = { agent, method, headers: sent, signal, socketPath: this.#socketPath };
      const request = this.#library.request(this.#target(path, options), options, (response) => receive(response).then(resolve, reject));
      request.on("socket", (socket) => {
        if (socket.connecting) socket.once(this.#ready, () => (begun = true));
        else begun = true;
      });
      request.on("error", (cause) => reject(failure(cause, begun)));
      request.end(body || undefined);
    });
  }
}

/** What a proxy is told besides the request. */
function authorizationOf({ username, password }) {
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return username ? { "proxy-authorization": `Basic ${Buffer.from(pair).toString("base64")}` } : {};
}

/** The proxy that the environment names for the URL, as curl reads it: https_proxy, http_proxy, no_proxy. */
function proxyOf({ protocol, hostname, port }) {
  const name = `${protocol.slice(0, -1)}_proxy`;
  const upper = protocol === "http:" && process.env.REQUEST_METHOD ? undefined : process.env[name.toUpperCase()]; // a CGI's caller sets it
  const proxy = process.env[name] ?? upper;
  const host = hostOf({ hostname });
  const direct = (process.env.no_proxy ?? process.env.NO_PROXY ?? "").split(/[\s,]+/).filter(Boolean);
  const matches = (one) => one === "*" || [host, `${host}:${port}`].some((at) => at === one || at.endsWith(one.replace(/^\*?\.?/, ".")));
  if (!proxy || direct.some(matches)) return undefined;
  return new URL(proxy.includes("://") ? proxy : `http://${proxy}`);
}

/** A connection to options.host by TLS, within one that the proxy makes. */
function tunnel(proxy, options, done) {
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;
  const headers = authorizationOf(proxy);
  const request = http.request({
    host: hostOf(proxy),
    port: proxy.port || 80,
    method: "CONNECT",
    path: `${host}:${options.port}`,
    headers,
    agent: false,
  });
  request.on("error", done);
  request.on("connect", (response, socket) => {
    if (response.statusCode === 200) {
      const secured = tls.connect({ ...options, socket }, () => done(null, secured)).on("error", done);
    } else {
      socket.destroy();
      done(new Error(`the proxy answers with ${response.statusCode}`));
    }
  });
  request.end();
}

function hostOf({ hostname }) {
  return hostname.replace(/^\[|\]$/g, "");
}

function failure(cause, begun) {
  const kind = begun ? OutcomeUnknownError : UnavailableError;
  return new kind(`no answer: ${cause.message}`, { cause });
}

async function receive(response) {
  const parts = [];
  try {
    for await (const part of response) parts.push(part);
  } catch (cause) {
    throw failure(cause, true);
  }
  const text = Buffer.concat(parts).toString();
  if (response.statusCode >= 200 && response.statusCode < 300) return text;
  const error = errorOf(response.statusCode, problemOf(text));
  const seconds = Number(response.headers["retry-after"]);
  if (seconds > 0) error.retryAfter = Math.max(error.retryAfter, seconds * 1000);
  throw error;
}

function problemOf(text) {
  try {
    return Object(parse(text));
  } catch {
    return { detail: text.slice(0, 200) };
  }
}

/** A line of a batch's answer: its value, or an error. */
function lineOf(text) {
  const value = problemOf(text);
  if (value.status >= 200 && value.status < 300) return value;
  return value.status ? errorOf(value.status, value) : new OutcomeUnknownError(`no line of an answer: ${text.slice(0, 200)}`);
}

/**
 * Reads the outcome of each of `count` lines from the answer to their batch. A batch that the server ended early has fewer: the last one is a
 * problem, and holds for the rest. When that is 413, the lines before it were made: what is left comes in a request of its own.
 */
export function linesOf(text, count) {
  const told = text
    .split("\n", count + 1)
    .filter(Boolean)
    .map(lineOf);
  if (told.length >= count) return told;
  let last = new OutcomeUnknownError("no result");
  if (told.at(-1) instanceof Error) last = told.pop();
  if (last.status === 413 && told.length > 0) last = new UnavailableError(last.message, { status: 413, problem: last.problem });
  return [...told, ...Array(count - told.length).fill(last)];
}
