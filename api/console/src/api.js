// Requests to the REST API of this origin, and to no other server. Owns the token (in session storage, until the tab is closed), and
// whether the API can be reached.
import {read, write} from './json.js';

const KEY = 'duetime.token';
const PATIENCE_MS = 15000; // for reads; changes have no time limit

// A refusal by the API: its problem document.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `the API answered ${status}`);
    this.status = status;
    this.body = body;
  }

  // Human-readable lines: the detail, and each member that is wrong.
  get lines() {
    const faults = this.body.errors || [];
    return faults.length ? faults.map((fault) => `${fault.pointer || 'body'}: ${fault.reason}`) : [this.message];
  }
}

// No answer: the API or the network is down.
export class Unreachable extends Error {
  get lines() {
    return [this.message];
  }
}

const listeners = new Set();
const state = {token: sessionStorage.getItem(KEY), wanted: false, downSince: null};

function change(members) {
  if (Object.entries(members).every(([name, value]) => state[name] === value)) return;
  Object.assign(state, members);
  for (const listener of listeners) listener({...state});
}

export const session = {
  get: () => ({...state}),
  subscribe(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  signIn(token) {
    sessionStorage.setItem(KEY, token);
    change({token, wanted: false});
  },
  signOut() {
    sessionStorage.removeItem(KEY);
    change({token: null, wanted: true});
  },
};

// Aborts when the caller's signal does, or when a read takes too long.
function signalOf(method, signal) {
  const late = method === 'GET' ? [AbortSignal.timeout(PATIENCE_MS)] : [];
  return AbortSignal.any([...late, ...(signal ? [signal] : [])]);
}

async function send(method, path, body, {signal, ifMatch}) {
  const headers = state.token ? {authorization: `Bearer ${state.token}`} : {};
  if (body !== undefined) headers['content-type'] = 'application/json';
  if (ifMatch !== undefined) headers['if-match'] = `"${ifMatch}"`;
  try {
    return await fetch(path, {method, headers, signal: signalOf(method, signal), body: body === undefined ? undefined : write(body), cache: 'no-store'});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    change({downSince: state.downSince || Date.now()});
    throw new Unreachable('the API does not answer');
  }
}

async function readAnswer(answer, exact) {
  try {
    return exact ? read(await answer.text()) : await answer.json();
  } catch {
    return {};
  }
}

// The answer's JSON. Throws a Problem, or Unreachable; `accept`: statuses that are not problems. ifMatch: the version to change.
// exact: keeps numbers as they are written (json.js), for answers with a payload.
export async function ask(method, path, body, {signal, accept = [], ifMatch, exact = false} = {}) {
  const asked = state.token;
  const answer = await send(method, path, body, {signal, ifMatch});
  change({downSince: null});
  const told = await readAnswer(answer, exact);
  if (answer.ok || accept.includes(answer.status)) return told;
  if (answer.status === 401 && asked === state.token) change({wanted: true});
  throw new Problem(answer.status, told);
}

export const get = (path, options) => ask('GET', path, undefined, options);
export const post = (path, body) => ask('POST', path, body);

// A path with its query; empty members are left out.
export function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}
