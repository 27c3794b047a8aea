// The timeline of a job: its creation, each attempt with its lateness and error, changes, and what follows.
import {duration, plural} from '../format.js';
import {href} from '../router.js';
import {Time} from '../ui/parts.jsx';
import {changesOf, didOf} from '../words.js';

const TONES = {succeeded: 'ok', failed: 'bad', timed_out: 'bad', gave_up: 'bad', undeliverable: 'bad', lost: 'warn', snoozed: '', dispatched: 'now'};
const WORDS = {timed_out: 'no report came in time', gave_up: 'the consumer gave up', undeliverable: 'could not be delivered',
  lost: 'lost, because its process died', dispatched: 'in progress', snoozed: 'snoozed'};

function Attempt({attempt}) {
  const took = attempt.duration_ms ?? (attempt.finished_at && attempt.dispatched_at ? new Date(attempt.finished_at) - new Date(attempt.dispatched_at) : null);
  return (
    <li class={TONES[attempt.status] ?? ''}>
      <div><strong>Attempt {attempt.attempt}</strong> {WORDS[attempt.status] || attempt.status}{attempt.http_status ? `, HTTP ${attempt.http_status}` : ''}</div>
      <div class="quiet">
        sent <Time at={attempt.dispatched_at} full plain />
        {attempt.lateness_ms !== null && <>, <span class={attempt.lateness_ms > 1000 ? 'late' : ''}>{duration(attempt.lateness_ms)} late</span></>}
        {took !== null && <>, ended after {duration(took)}</>}
      </div>
      {attempt.error && <div class="error"><code>{attempt.error.code}</code> {attempt.error.message}</div>}
    </li>
  );
}

function next(job) {
  if (job.state === 'scheduled') return <li class="ahead"><div><strong>Attempt {job.attempt + 1}</strong> is due</div><div class="quiet"><Time at={job.next_at} full /></div></li>;
  if (job.state === 'dispatched') return <li class="ahead"><div>Waits for a report until</div><div class="quiet"><Time at={job.next_at} full /></div></li>;
  return <li class={{succeeded: 'ok', dead: 'bad'}[job.state] || ''}><div><strong>{job.state}</strong></div><div class="quiet"><Time at={job.finished_at || job.updated_at} full /></div></li>;
}

function Change({event}) {
  return (
    <li>
      <div><strong>{didOf(event)}</strong>{event.actor !== '-' && <> by {event.actor}</>}
        {event.operation_id && <> with <a href={href(['operations', event.operation_id])}>operation {event.operation_id}</a></>}</div>
      <div class="quiet"><Time at={event.at} full /></div>
      {changesOf(event).map(([name, before, after]) => <div key={name} class="quiet">{name}: {before} → {after}</div>)}
    </li>
  );
}

// Attempts and changes, in order of time.
function inOrder(attempts, events) {
  const entries = [
    ...attempts.map((attempt) => ({at: attempt.dispatched_at || attempt.due_at || '', shown: <Attempt key={`a${attempt.attempt}`} attempt={attempt} />})),
    ...events.map((event) => ({at: event.at, shown: <Change key={`e${event.id}`} event={event} />})),
  ];
  return entries.sort((a, b) => (a.at < b.at ? -1 : 1)).map(({shown}) => shown);
}

export function Timeline({job, attempts, events, more}) {
  return (
    <ol class="timeline">
      <li><div><strong>Created</strong></div><div class="quiet"><Time at={job.created_at} full /></div></li>
      {inOrder(attempts, events)}
      {more && <li><div class="quiet">Only {plural(attempts.length, 'attempt')} shown; for all: <code>duetime jobs attempts {job.id}</code></div></li>}
      {job.last_error && !attempts.some((attempt) => attempt.error) && <li class="bad"><div class="error"><code>{job.last_error.code}</code> {job.last_error.message}</div></li>}
      {next(job)}
    </ol>
  );
}
