// Jobs by filter, a page at a time.
import {withQuery} from '../api.js';
import {useMay} from '../caller.js';
import {count, duration, readTime} from '../format.js';
import {useLive} from '../live.js';
import {href} from '../router.js';
import {Filters} from '../ui/filters.jsx';
import {Empty, Loading, State, Time, Title, Trouble, useNow} from '../ui/parts.jsx';
import {operate} from '../ui/sets.jsx';
import {Pages, Table} from '../ui/table.jsx';
import {WAITING, lateBy} from '../words.js';

const STATES = ['scheduled', 'dispatched', 'succeeded', 'dead', 'cancelled'];
const FIELDS = [
  {name: 'topic', label: 'Topic', placeholder: 'orders.close'},
  {name: 'state', label: 'State', choices: STATES},
  {name: 'key_prefix', label: 'Key begins with', placeholder: 'order-'},
  {name: 'due_from', label: 'Due from', kind: 'time', placeholder: 'now'},
  {name: 'due_to', label: 'Due before', kind: 'time', placeholder: '+1h'},
  {name: 'key', label: 'Key', placeholder: 'order-42', more: true},
  {name: 'run_from', label: 'Runs from', kind: 'time', placeholder: '-1h', more: true},
  {name: 'run_to', label: 'Runs before', kind: 'time', placeholder: 'now', more: true},
  {name: 'created_from', label: 'Created from', kind: 'time', placeholder: '-1h', more: true},
  {name: 'created_to', label: 'Created before', kind: 'time', placeholder: 'now', more: true},
  {name: 'finished_from', label: 'Finished from', kind: 'time', placeholder: '-1h', more: true},
  {name: 'finished_to', label: 'Finished before', kind: 'time', placeholder: 'now', more: true},
  {name: 'failed_from', label: 'Failed from', kind: 'time', placeholder: '-1d', more: true},
  {name: 'failed_to', label: 'Failed before', kind: 'time', placeholder: 'now', more: true},
  {name: 'error_code', label: 'Error code', placeholder: 'http_503', more: true},
  {name: 'error_text', label: 'Error contains', placeholder: 'within a topic and a day', more: true},
];

const TIMES = ['from', 'to', ...FIELDS.filter((field) => field.kind === 'time').map((field) => field.name)];

// The query with absolute times. "now" and "-1h" move with the clock, but the next page of a list keeps the times of its first page.
export function withTimes(query, now) {
  const times = TIMES.filter((name) => query[name]).map((name) => [name, readTime(query[name], now) ?? query[name]]);
  return {...query, ...Object.fromEntries(times)};
}

function pathOf(query) {
  const given = FIELDS.map(({name}) => [name, query[name]]).filter(([, value]) => value);
  return withQuery('/v1/jobs', {...Object.fromEntries(given), cursor: query.cursor, limit: 50});
}

function Waits({job}) {
  const late = lateBy(job, useNow());
  if (!job.waiting_for) return job.last_error ? <span class="quiet">{job.last_error.code || job.last_error.message}</span> : <span class="quiet">–</span>;
  return <span title={WAITING[job.waiting_for]}>{late > 0 && <strong class="late">late {duration(late)}: </strong>}{job.waiting_for}</span>;
}

export function JobTable({jobs, label}) {
  return (
    <Table label={label} rows={jobs} keyOf={(job) => job.id} linkOf={(job) => href(['jobs', job.id])} columns={[
      {name: 'Job', of: (job) => <>{job.key || <span class="mono">{job.id}</span>}{job.key && <span class="quiet mono"> {job.id}</span>}</>},
      {name: 'Topic', of: (job) => job.topic},
      {name: 'State', of: (job) => <State state={job.state} />},
      {name: 'Next', of: (job) => <Time at={job.next_at || job.finished_at} />},
      {name: 'Attempts', kind: 'number', of: (job) => `${count(job.attempt)} of ${count(job.max_attempts)}`},
      {name: 'Waits for', of: (job) => <Waits job={job} />},
    ]} />
  );
}

// The filters that an operation accepts. With any other filter the list would show fewer jobs than the operation changes.
const OF_SETS = ['topic', 'key_prefix', 'run_from', 'run_to', 'created_from', 'created_to', 'failed_from', 'failed_to', 'error_code'];

// The actions on all jobs of the filter. They need a topic, and a state that the action applies to.
function Sets({query, done}) {
  const given = FIELDS.map(({name}) => [name, query[name]]).filter(([name, value]) => value && name !== 'state');
  if (!useMay()('write') || !query.topic || given.some(([name]) => !OF_SETS.includes(name))) return null;
  const {state} = query;
  const filter = Object.fromEntries(given);
  const verbs = {scheduled: [['Run now…', 'run-now'], ['Move…', 'reschedule'], ['Cancel…', 'cancel']], dead: [['Redrive…', 'redrive']]}[state || 'scheduled'] || [];
  return verbs.map(([name, verb]) => <button key={verb} type="button" class={verb === 'cancel' ? 'danger' : ''} onClick={() => operate(verb, filter, done)}>{name}</button>);
}

export function Jobs({query}) {
  const fixed = withTimes(query, useNow(5000));
  const list = useLive(pathOf(fixed), 3000, {key: JSON.stringify(query), list: 'jobs'});
  const jobs = list.data?.jobs || [];
  return (
    <>
      <Title actions={<Sets query={fixed} done={list.refresh} />}>Jobs</Title>
      <Filters path="jobs" query={query} fields={FIELDS} />
      <Trouble problem={list.problem} shown={list.data} what="jobs" />
      <Loading of={list} />
      {jobs.length > 0 && <JobTable jobs={jobs} label="Jobs" />}
      {list.data && !jobs.length && <Empty>{list.data.next_cursor ? 'None on this page; see the next page.' : 'No job matches.'}</Empty>}
      {list.data && <Pages path="jobs" query={fixed} next={list.data.next_cursor} />}
    </>
  );
}
