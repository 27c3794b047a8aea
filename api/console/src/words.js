// What words of the API mean for whoever is on call.
import {duration} from './format.js';

export const WAITING = {
  time: 'its time',
  paused: 'its topic, which is paused',
  limit: 'room within a limit: its topic’s max_in_flight or rate_limit, or a place among callbacks',
  leader: 'the leader of its shard: there is none, or it has yet to pick the job up',
  kafka: 'Kafka',
  redis: 'Redis',
  pop: 'a worker: it is due, and nobody has popped it',
  ack: 'a report on its attempt',
};

const TOLERATED_MS = 2000; // the clock of whoever looks may be off, and a page is some seconds old

// How long a scheduled job is late, in whole seconds as milliseconds; 0: it is not.
export function lateBy(job, now) {
  if (job.state !== 'scheduled' || !job.next_at) return 0;
  const late = now - new Date(job.next_at);
  return late > TOLERATED_MS ? Math.floor(late / 1000) * 1000 : 0;
}

export function reason(job, now) {
  const late = lateBy(job, now);
  if (!job.waiting_for) return null;
  return late ? `late ${duration(late)}, waits for ${WAITING[job.waiting_for] || job.waiting_for}` : `waits for ${WAITING[job.waiting_for] || job.waiting_for}`;
}

// What can be done, as a sentence; a command stays as it is typed.
export const advice = (text) => (/^(duetime|systemctl|redis-cli|kafka|CALL|SET)/.test(text) ? text : text[0].toUpperCase() + text.slice(1));

const DID = {cancel: 'cancelled', change: 'changed', run_now: 'made due now', redrive: 'redriven', replace: 'replaced', pause: 'paused', resume: 'resumed',
  delete: 'deleted', stop: 'stopped', silence: 'silenced', reschedule: 'moved'};

export const didOf = (event) => DID[event.action] || event.action.replaceAll('_', ' ');

// [member, before, after] of what an event changed, as text.
export function changesOf({before, after}) {
  const text = (of, name) => JSON.stringify(of?.[name] ?? null);
  return Object.keys(after || {}).map((name) => [name, text(before, name), text(after, name)]).filter(([, was, is]) => was !== is);
}
