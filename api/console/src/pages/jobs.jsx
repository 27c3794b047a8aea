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
  {name: 'run_from', label: 'Runs from', kind: 'time', placeholder: '-1h'},
  {name: 'run_to', label: 'Runs before', kind: 'time', placeholder: 'now'},
];

const TIMES = ['run_from', 'run_to'];

// The query with its times as the API wants them. "now" and "-1h" go on with the time; the next page of a list has them as they were.
export function withTimes(query, now) {
  const times = TIMES.filter((name) => query[name]).map((name) => [name, readTime(query[name], now) ?? query[name]]);
  return {...query, ...Object.fromEntries(times)};
}

function pathOf({topic, state, key_prefix, cursor, run_from, run_to}) {
  return withQuery('/v1/jobs', {topic, state, key_prefix, cursor, run_from, run_to, limit: 50});
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

// What can be done with all jobs of the filter. It needs a topic, and a state that the verb can act on.
function Sets({query, done}) {
  if (!useMay()('write') || !query.topic) return null;
  const {topic, state, key_prefix, run_from, run_to} = query;
  const given = {topic, key_prefix, run_from, run_to};
  const filter = Object.fromEntries(Object.entries(given).filter(([, value]) => value));
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
      {list.data && !jobs.length && <Empty>{list.data.next_cursor ? 'None so far; the list goes on.' : 'No job matches.'}</Empty>}
      {list.data && <Pages path="jobs" query={fixed} next={list.data.next_cursor} />}
    </>
  );
}
