// The API's words, explained for operators.
import {duration, moment} from './format.js';

export const WAITING = {
  time: 'its time',
  paused: 'its topic, which is paused',
  limit: 'room within a limit: its topic’s max_in_flight or rate_limit, or the limit of callbacks',
  leader: 'the leader of its shard: there is none, or it has not claimed the job yet',
  kafka: 'Kafka',
  redis: 'Redis',
  pop: 'a worker: it is due, and no worker has popped it',
  ack: 'a report on its attempt',
};

const TOLERATED_MS = 2000; // the browser's clock may be wrong, and a page is some seconds old

// How late a scheduled job is, in milliseconds, rounded down to seconds; 0: it is not late.
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

const COMMAND = /^(?:then |by hand: )?((?:duetime(?:-api)? |systemctl |redis-cli |kafka-[a-z-]+\.sh|timedatectl |echo |CALL |SET )[^,]*(?:\([^)]*\))?)(.*)$/;

// Advice as a sentence; a command is not capitalized.
export const advice = (text) => (COMMAND.test(text) || !text ? text : text[0].toUpperCase() + text.slice(1));

// The steps of an advice, in order: {command, rest} if it can be typed, otherwise {rest}.
export function stepsOf(text) {
  return text.split('; ').map((step) => {
    const found = COMMAND.exec(step);
    return found ? {command: found[1], rest: found[2]} : {rest: step};
  });
}

const DID = {cancel: 'cancelled', change: 'changed', run_now: 'run now', redrive: 'redriven', replace: 'replaced', pause: 'paused', resume: 'resumed',
  delete: 'deleted', stop: 'stopped', silence: 'silenced', reschedule: 'moved'};

export const didOf = (event) => DID[event.action] || event.action.replaceAll('_', ' ');

const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

// [member, before, after] of what an event changed, as text: times in the reader's zone, everything else as JSON.
export function changesOf({before, after}) {
  const text = (of, name) => (TIME.test(of?.[name]) ? moment(of[name]) : JSON.stringify(of?.[name] ?? null));
  return Object.keys(after || {}).map((name) => [name, text(before, name), text(after, name)]).filter(([, was, is]) => was !== is);
}
