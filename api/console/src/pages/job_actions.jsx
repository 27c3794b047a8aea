// The actions on one job: cancel, change, run now, redrive, report. Each asks for confirmation once.
import {ask, post} from '../api.js';
import {moment, readTime} from '../format.js';
import {pretty, read} from '../json.js';
import {zone} from '../zone.js';
import {question} from '../ui/dialog.jsx';

const named = (job) => (job.key ? `${job.key} (${job.id})` : job.id);

function cancel(job, done) {
  const sent = job.state === 'dispatched';
  question({
    title: sent ? 'Cancel its retries?' : 'Cancel 1 job?',
    body: sent ? `Attempt ${job.attempt} of ${named(job)} continues, but no retry follows.` : `${named(job)} of ${job.topic} is never dispatched.`,
    yes: sent ? 'Cancel retries' : 'Cancel the job', danger: true,
    act: async () => {
      await post(`/v1/jobs/${job.id}/cancel${sent ? '?retries=true' : ''}`);
      done();
      return sent ? 'No retry follows.' : 'The job is cancelled.';
    },
  });
}

function simple(job, done, {verb, title, body, told}) {
  question({title, body, yes: title.replace('?', ''), act: async () => {
    await post(`/v1/jobs/${job.id}/${verb}`);
    done();
    return told;
  }});
}

// The members that the user changed.
export function patchOf(job, values) {
  const patch = {};
  if (values.run_at.trim() !== moment(job.run_at)) {
    const at = readTime(values.run_at);
    if (!at) throw new Error(`Runs at: write now, +1h, or 2026-11-26 09:00 (${zone()})`);
    patch.run_at = at;
  }
  if (values.payload !== undefined && values.payload !== pretty(job.payload ?? null)) patch.payload = read(values.payload);
  if (values.retry.trim() !== job.retry.join(', ')) patch.retry = values.retry.split(',').map((text) => text.trim()).filter(Boolean);
  if (values.ack_timeout.trim() !== job.ack_timeout) patch.ack_timeout = values.ack_timeout.trim();
  return patch;
}

function change(job, done) {
  const binary = job.payload_base64 !== undefined;
  question({
    title: `Change ${named(job)}`, yes: 'Change', no: 'Back',
    fields: [
      {name: 'run_at', label: `Runs at (${zone()})`, value: moment(job.run_at), hint: 'Or now, +10m, +1d.', autofocus: true},
      {name: 'retry', label: 'Retries after', value: job.retry.join(', '), hint: 'Delays between attempts, such as 15s, 3m, 1h. Empty: none.'},
      {name: 'ack_timeout', label: 'Report timeout', value: job.ack_timeout},
      ...(binary ? [] : [{name: 'payload', label: 'Payload (JSON)', type: 'text-lines', value: pretty(job.payload ?? null)}]),
    ],
    act: async (values) => {
      await ask('PATCH', `/v1/jobs/${job.id}`, patchOf(job, values), {ifMatch: job.version});
      done();
      return 'The job is changed.';
    },
  });
}

function report(job, done) {
  question({
    title: `Report on attempt ${job.attempt}`, yes: 'Report',
    fields: [
      {name: 'status', label: 'Status', value: 'succeeded', choices: ['succeeded', 'failed', 'gave_up', 'snoozed', 'extended']},
      {name: 'code', label: 'Error code', hint: 'For failed and gave_up.'},
      {name: 'message', label: 'Error message'},
      {name: 'retry_after', label: 'Retry after', placeholder: 'PT5M', hint: 'For snoozed, failed and extended.'},
    ],
    act: async ({status, code, message, retry_after}) => {
      const error = code || message ? {error: {code: code || null, message: message || null}} : {};
      const told = await post(`/v1/jobs/${job.id}/results`, {attempt: job.attempt, status, ...error, ...(retry_after ? {retry_after} : {})});
      done();
      return `The report is ${told.outcome}.`;
    },
  });
}

// The actions that the job's state and the token allow.
export function actionsOf(job, may, done) {
  const scheduled = job.state === 'scheduled';
  const sent = job.state === 'dispatched';
  return [
    may('write') && scheduled && {name: 'Run now', act: () => simple(job, done, {verb: 'run-now', title: 'Run it now?', body: `${named(job)} becomes due now.`, told: 'The job is due now.'})},
    may('write') && scheduled && {name: 'Change', act: () => change(job, done)},
    may('report') && sent && {name: 'Report', act: () => report(job, done)},
    may('write') && job.state === 'dead' && {name: 'Redrive', act: () => simple(job, done, {verb: 'redrive', title: 'Redrive 1 job?', body: `${named(job)} becomes due now, and its retries start again.`, told: 'The job is scheduled again.'})},
    may('write') && (scheduled || (sent && !job.retries_cancelled)) && {name: sent ? 'Cancel retries' : 'Cancel', danger: true, act: () => cancel(job, done)},
  ].filter(Boolean);
}
