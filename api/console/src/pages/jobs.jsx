// Jobs by filter, a page at a time.
import {withQuery} from '../api.js';
import {useMay} from '../caller.js';
import {count, duration, readTime} from '../format.js';
import {useLive} from '../live.js';
import {href} from '../router.js';
import {Filters} from '../ui/filters.jsx';
import {Empty, Loading, State, Time, Title, Trouble, useNow} from '../ui/parts.jsx';
import {operate} from '../ui/sets.jsx';
import {Selected, useSelection} from '../ui/select.jsx';
import {Pages, Table} from '../ui/table.jsx';
import {WAITING, lateBy} from '../words.js';

const STATES = ['scheduled', 'dispatched', 'succeeded', 'dead', 'cancelled'];
const FIELDS = [
  {name: 'topic', label: 'Topic', placeholder: 'orders.close'},
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

const EVER = '1970-01-01T00:00:00Z';
const TIMES = ['from', 'to', ...FIELDS.filter((field) => field.kind === 'time').map((field) => field.name)];

// The query with absolute times. "now" and "-1h" move with the clock, but the next page of a list keeps the times of its first page.
export function withTimes(query, now) {
  const times = TIMES.filter((name) => query[name]).map((name) => [name, readTime(query[name], now) ?? query[name]]);
  return {...query, ...Object.fromEntries(times)};
}

const ORDERED = ['key', 'key_prefix', ...TIMES];

// Scheduled jobs are listed by their due time, so the overdue ones come first; a filter that has an order of its own keeps that.
function pathOf(query) {
  const given = ['state', ...FIELDS.map(({name}) => name)].map((name) => [name, query[name]]).filter(([, value]) => value);
  const by = query.state === 'scheduled' && !ORDERED.some((name) => query[name]) ? {due_from: EVER} : {};
  return withQuery('/v1/jobs', {...by, ...Object.fromEntries(given), cursor: query.cursor, limit: 50});
}

const TABS = [['All', {}], ['Overdue', {state: 'scheduled', due_to: 'now'}], ...STATES.map((state) => [state[0].toUpperCase() + state.slice(1), {state}])];

// How many jobs each tab has, of the topic or of all topics; none if another filter is set, because nothing counts those jobs.
function useCounts({topic, cursor, state, due_to, ...others}) {
  const plain = !Object.values(others).some(Boolean);
  const {data} = useLive(plain ? '/v1/overview' : null, 5000);
  const one = useLive(plain && topic ? `/v1/topics/${encodeURIComponent(topic)}` : null, 5000).data;
  if (!plain) return {};
  const of = topic ? data?.topics.find(({topic: name}) => name === topic) : data && {overdue: data.overdue.count, held: data.held.count};
  return {Overdue: of?.overdue, held: of?.held, ...Object.fromEntries(TABS.slice(2).map(([name, only]) => [name, (topic ? one?.counts : data?.jobs)?.[only.state]]))};
}

function Tabs({query}) {
  const {cursor, state, due_to, ...rest} = query;
  const counts = useCounts(query);
  const kept = due_to && due_to !== 'now' ? {...rest, due_to} : rest;
  const at = state === 'scheduled' && due_to === 'now' ? 'Overdue' : TABS.find(([, of]) => of.state === state && !of.due_to)?.[0];
  return (
    <nav class="tabs" aria-label="States">
      {TABS.map(([name, of]) => (
        <a key={name} href={href('jobs', {...kept, ...of})} aria-current={name === at ? 'true' : undefined}>
          {name}{counts[name] !== undefined && <span class={`n ${counts[name] && {Overdue: 'late', Dead: 'bad'}[name] || ''}`}>{count(counts[name])}</span>}
          {name === 'Overdue' && counts.held > 0 && <span class="n">and {count(counts.held)} held</span>}
        </a>
      ))}
    </nav>
  );
}

function Waits({job}) {
  if (!job.waiting_for) return job.last_error ? <span class="quiet">{job.last_error.code || job.last_error.message}</span> : <span class="quiet">–</span>;
  return <span title={WAITING[job.waiting_for]}>{job.waiting_for}</span>;
}

// A paused topic holds its jobs: they are not late.
function LateBy({job}) {
  const late = lateBy(job, useNow());
  if (!late) return <span class="quiet">–</span>;
  return job.waiting_for === 'paused' ? <span class="quiet">held {duration(late)}</span> : <strong class="late">{duration(late)}</strong>;
}

export function JobTable({jobs, label, select}) {
  return (
    <Table label={label} rows={jobs} keyOf={(job) => job.id} linkOf={(job) => href(['jobs', job.id])} columns={[
      select,
      {name: 'Job', of: (job) => <>{job.key || <span class="mono">{job.id}</span>}{job.key && <span class="quiet mono"> {job.id}</span>}</>},
      {name: 'Topic', of: (job) => job.topic},
      {name: 'State', of: (job) => <State state={job.state} />},
      {name: 'Late by', kind: 'number', of: (job) => <LateBy job={job} />},
      {name: 'Next', of: (job) => <Time at={job.next_at || job.finished_at} />},
      {name: 'Attempts', kind: 'number', of: (job) => `${count(job.attempt)} of ${count(job.max_attempts)}`},
      {name: 'Waits for', of: (job) => <Waits job={job} />},
    ]} />
  );
}

// The filters that an operation accepts. With any other filter the list would show fewer jobs than the operation changes.
const OF_SETS = ['topic', 'key_prefix', 'run_from', 'run_to', 'created_from', 'created_to', 'failed_from', 'failed_to', 'error_code'];

const ACTIONS = {scheduled: [['Run now…', 'run-now'], ['Move…', 'reschedule'], ['Cancel…', 'cancel']], dispatched: [], dead: [['Redrive…', 'redrive']]};
const actionsOf = (states) => [...new Set(states)].flatMap((state) => ACTIONS[state] || []);

// The actions on all jobs of the filter. They need a topic, and a state that the action applies to.
function Sets({query, done}) {
  const given = FIELDS.map(({name}) => [name, query[name]]).filter(([name, value]) => value && name !== 'state');
  if (!useMay()('write') || !query.topic || given.some(([name]) => !OF_SETS.includes(name))) return null;
  const filter = Object.fromEntries(given);
  const verbs = actionsOf([query.state || 'scheduled']);
  return verbs.length > 0 && <><span class="quiet">All that match:</span>{verbs.map(([name, verb]) => <button key={verb} type="button" class={verb === 'cancel' ? 'danger' : ''} onClick={() => operate(verb, filter, done)}>{name}</button>)}</>;
}

export function Jobs({query}) {
  const fixed = withTimes(query, useNow(5000));
  const list = useLive(pathOf(fixed), 3000, {key: JSON.stringify(query), list: 'jobs'});
  const jobs = list.data?.jobs || [];
  const topics = useLive('/v1/topics?limit=500', 0).data?.topics.map(({name}) => name);
  const fields = FIELDS.map((field) => (field.name === 'topic' ? {...field, offers: topics} : field));
  const may = useMay()('write');
  const {ids, clear, column} = useSelection(jobs);
  const verbs = actionsOf(jobs.filter(({id}) => ids.includes(id)).map(({state}) => state));
  return (
    <>
      <Title actions={<Sets query={fixed} done={list.refresh} />}>Jobs</Title>
      <Tabs query={query} />
      <Filters path="jobs" query={query} fields={fields} kept={{state: query.state}} />
      <Selected ids={ids} clear={clear} verbs={verbs.map(([name, verb]) => [name, () => operate(verb, {ids}, list.refresh)])} />
      <Trouble problem={list.problem} shown={list.data} what="jobs" />
      <Loading of={list} />
      {jobs.length > 0 && <JobTable jobs={jobs} label="Jobs" select={may && column} />}
      {list.data && !jobs.length && <Empty>{list.data.next_cursor ? 'None on this page; see the next page.' : <>No job matches. {Object.values(query).some(Boolean) ? <a href={href('jobs')}>Show all jobs</a> : <>Create one: <code>duetime jobs create --topic orders.close --delay PT1M</code></>}</>}</Empty>}
      {list.data && <Pages path="jobs" query={fixed} next={list.data.next_cursor} />}
    </>
  );
}
