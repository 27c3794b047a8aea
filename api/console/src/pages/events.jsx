// The audit log: each change that a caller requested, the latest first. An operation is one event; those of its jobs are folded below it.
import {withQuery} from '../api.js';
import {plural} from '../format.js';
import {useLive} from '../live.js';
import {href} from '../router.js';
import {Filters} from '../ui/filters.jsx';
import {Empty, Loading, Time, Title, Trouble, useNow} from '../ui/parts.jsx';
import {Pages, Table} from '../ui/table.jsx';
import {changesOf, didOf} from '../words.js';
import {withTimes} from './jobs.jsx';

const FIELDS = [
  {name: 'topic', label: 'Topic', placeholder: 'orders.close'},
  {name: 'actor', label: 'Actor', placeholder: 'name of a token'},
  {name: 'from', label: 'From', kind: 'time', placeholder: '-1d'},
  {name: 'to', label: 'Before', kind: 'time', placeholder: 'now'},
];

function Subject({event}) {
  const operation = operationOf(event);
  if (operation) return <a href={href(['operations', operation])}>operation {operation}</a>;
  if (event.job_id) return <a href={href(['jobs', event.job_id])}>job {event.job_id}</a>;
  if (event.subject) return event.subject;
  return event.topic ? <a href={href(['topics', event.topic])}>{event.topic}</a> : <span class="quiet">–</span>;
}

// The operation that an event belongs to: it started or stopped it, or is one of its jobs' events.
const operationOf = ({operation_id, action, subject}) => operation_id ?? (action.startsWith('operation_') ? subject : null);

// [{operation, event, jobs}]: events of one operation that follow each other are one entry, with the events of its jobs. The list is in
// reverse order of time, so the last event of an operation is its start.
function entriesOf(events) {
  const entries = [];
  for (const event of events) {
    const operation = operationOf(event);
    if (!operation || entries.at(-1)?.operation !== operation) entries.push({operation, event, jobs: []});
    const entry = entries.at(-1);
    if (event.job_id && operation) entry.jobs.push(event);
    else entry.event = event;
  }
  return entries;
}

function Jobs({of}) {
  return (
    <details>
      <summary>{plural(of.length, 'job')}</summary>
      {of.map((event) => <div key={event.id}><a href={href(['jobs', event.job_id])}>job {event.job_id}</a> <Changes event={event} /></div>)}
    </details>
  );
}

const Changes = ({event}) => changesOf(event).map(([name, before, after]) => <div key={name} class="quiet">{name}: {before} → {after}</div>);

export function Events({query}) {
  const fixed = withTimes(query, useNow(5000));
  const {topic, actor, from, to, cursor} = fixed;
  const list = useLive(withQuery('/v1/events', {topic, actor, from, to, cursor, limit: 200}), 5000, {key: JSON.stringify(query), list: 'events'});
  const events = list.data?.events || [];
  return (
    <>
      <Title>Audit log</Title>
      <Filters path="events" query={query} fields={FIELDS} />
      <Trouble problem={list.problem} shown={list.data} what="events" />
      <Loading of={list} />
      {events.length > 0 && (
        <Table label="Events" rows={entriesOf(events)} keyOf={({event}) => event.id} columns={[
          {name: 'When', kind: 'short', of: ({event}) => <Time at={event.at} full />},
          {name: 'Actor', of: ({event}) => (event.actor === '-' ? <span class="quiet">no token</span> : event.actor)},
          {name: 'Action', kind: 'short', of: ({event}) => (event.after?.kind ? `${didOf(event)}: ${event.after.kind}` : didOf(event))},
          {name: 'Topic', kind: 'name', of: ({event}) => event.topic || <span class="quiet">–</span>},
          {name: 'Object', kind: 'name', of: ({event}) => <Subject event={event} />},
          {name: 'Change', of: ({event, jobs}) => (jobs.length ? <Jobs of={jobs} /> : <Changes event={event} />)},
        ]} />
      )}
      {list.data && !events.length && <Empty>{list.data.next_cursor ? 'None on this page; see the next page.' : 'No events.'}</Empty>}
      {list.data && <Pages path="events" query={fixed} next={list.data.next_cursor} />}
    </>
  );
}
