// Dead letters, counted by topic and error. They can be redriven one by one, or all of an error, or all of a day.
import {useState} from 'preact/hooks';
import {withQuery} from '../api.js';
import {useMay} from '../caller.js';
import {count, plural} from '../format.js';
import {pretty} from '../json.js';
import {readPage, useLive} from '../live.js';
import {href} from '../router.js';
import {say} from '../ui/dialog.jsx';
import {Filters} from '../ui/filters.jsx';
import {Empty, Loading, Time, Title, Trouble, useNow} from '../ui/parts.jsx';
import {Selected, useSelection} from '../ui/select.jsx';
import {operate} from '../ui/sets.jsx';
import {Pages, Table} from '../ui/table.jsx';
import {withTimes} from './jobs.jsx';

const PAGE = 100;
const MOST_IDS = 1000; // limit of ids in one operation
const EVER = '1970-01-01T00:00:00Z';
const FIELDS = [
  {name: 'topic', label: 'Topic', placeholder: 'orders.close'},
  {name: 'since', label: 'Died since', kind: 'time', placeholder: 'today'},
  {name: 'until', label: 'Died before', kind: 'time', placeholder: 'now'},
];
const PERIODS = [['Today', {since: 'today'}], ['Yesterday', {since: 'yesterday', until: 'today'}], ['Seven days', {since: '-7d'}], ['All time', {}]];
const NONE = '(none)';
const codeOf = (group) => group.error_code ?? NONE;

// A dead job died at its last failure.
function diedWithin({since, until}, now = Date.now()) {
  const {from, to} = withTimes({from: since, to: until}, now);
  return {...(from && {failed_from: from}), ...(to && {failed_to: to})};
}

const groupsPath = (query, now) => withQuery('/v1/dead-letters', {topic: query.topic, ...diedWithin(query, now)});

// The path of the list of dead jobs with one error code, or with any. The API cannot filter for jobs without an error code.
function listPath({topic, code, since, until, cursor}, now, limit = PAGE) {
  const died = since || until ? diedWithin({since, until}, now) : {finished_from: EVER};
  return withQuery('/v1/jobs', {state: 'dead', topic, error_code: code === NONE ? '' : code, ...died, cursor, limit});
}
const ofCode = (jobs, code) => (code === NONE ? jobs.filter((job) => !job.last_error?.code) : jobs);

function Periods({query}) {
  const {topic, since, until} = query;
  return (
    <nav class="periods" aria-label="When they died">
      {PERIODS.map(([name, period]) => (
        <a key={name} class="button" href={href('dead', {topic, ...period})} aria-current={period.since === since && period.until === until ? 'true' : undefined}>{name}</a>
      ))}
    </nav>
  );
}

// Redrives jobs by their ids, up to the limit of an operation: for sets that no filter selects.
async function redriveListed(query, done) {
  try {
    const {jobs} = await readPage(listPath(query, Date.now(), MOST_IDS), 'jobs');
    const ids = ofCode(jobs, query.code).map((job) => job.id);
    if (ids.length) await operate('redrive', {ids}, done);
    else say('There are no dead jobs in this list.');
  } catch (problem) {
    say(`The jobs cannot be listed: ${problem.lines.join(' · ')}`);
  }
}

// Redrives all jobs that died in the time of the query, with its topic and error. Only tokens for all topics may change jobs of all topics.
function redrive({topic, code, since, until}, all, done) {
  if (code === NONE || !(topic || all)) return redriveListed({topic, code, since, until}, done);
  return operate('redrive', {topic: topic || '*', ...(code && {error_code: code}), ...diedWithin({since, until})}, done);
}

function Groups({groups, query, done}) {
  const {since, until} = query;
  const may = useMay()('write');
  return (
    <Table label="Dead letters by error" rows={groups} keyOf={(group) => `${group.topic} ${codeOf(group)}`} linkOf={(group) => href('dead', {topic: group.topic, code: codeOf(group), since, until})} columns={[
      {name: 'Error', of: (group) => <code>{codeOf(group)}</code>},
      {name: 'Example', of: (group) => group.message || <span class="quiet">–</span>},
      {name: 'Topic', of: (group) => group.topic},
      {name: 'Jobs', kind: 'number', of: (group) => count(group.jobs)},
      {name: 'Latest', of: (group) => <Time at={group.last_at} />},
      may && {name: 'Redrive', kind: 'actions', of: (group) => <button type="button" onClick={() => redrive({topic: group.topic, code: codeOf(group), since, until}, false, done)} aria-label={`Redrive all of ${group.topic} with ${codeOf(group)}`}>Redrive all</button>},
    ]} />
  );
}

function AllErrors({query}) {
  const may = useMay()('write');
  const all = useMay()('admin', true);
  const read = useLive(groupsPath(query, useNow(60000)), 5000, {key: JSON.stringify(query)});
  const told = read.data;
  return (
    <>
      <Title actions={may && <button type="button" onClick={() => redrive({topic: query.topic, since: 'yesterday', until: 'today'}, all, read.refresh)}>Redrive yesterday’s…</button>}>Dead letters</Title>
      <Periods query={query} />
      <Filters path="dead" query={query} fields={FIELDS} />
      <Trouble problem={read.problem} shown={told} what="dead jobs" />
      <Loading of={read} />
      {told?.newest && <p class="quiet">These counts cover only the 100,000 jobs that died last ({plural(told.jobs, 'job')} here). “Redrive all” counts all jobs before it asks.</p>}
      {told?.groups.length > 0 && <Groups groups={told.groups} query={query} done={read.refresh} />}
      {told?.groups_more > 0 && <p class="quiet">{plural(told.groups_more, 'smaller group')} not shown.</p>}
      {told && !told.groups.length && <Empty>{told.newest ? 'None among the latest dead jobs; there may be older ones.' : 'No dead jobs.'}</Empty>}
    </>
  );
}

// The payload of a job, and how its consumer answered; read when it is opened.
function Peek({id}) {
  const [open, set] = useState(false);
  const path = `/v1/jobs/${encodeURIComponent(id)}`;
  const job = useLive(open ? path : null, 0, {exact: true}).data;
  const attempts = useLive(open ? `${path}/attempts` : null, 0).data?.attempts || [];
  const last = attempts.at(-1);
  return (
    <details onToggle={({currentTarget}) => set(currentTarget.open)}>
      <summary>Show</summary>
      {job && <pre tabIndex={0} role="region" aria-label={`Payload of ${id}`}>{pretty(job.payload ?? job.payload_base64 ?? null)}</pre>}
      {last && <p class="quiet">Answer to attempt {last.attempt}: {last.http_status ? `HTTP ${last.http_status}, ` : ''}{last.status}{last.error && <>: <code>{last.error.code}</code> {last.error.message}</>}</p>}
    </details>
  );
}

function Listed({jobs, done}) {
  const may = useMay()('write');
  const {ids, clear, column} = useSelection(jobs);
  return (
    <>
      <Selected ids={ids} clear={clear} verbs={[['Redrive…', () => operate('redrive', {ids}, done)]]} />
      <Table label="Dead letters" rows={jobs} keyOf={(job) => job.id} linkOf={(job) => href(['jobs', job.id])} columns={[
        may && column,
        {name: 'Job', of: (job) => <>{job.key || ''} <span class="quiet mono">{job.id}</span></>},
        {name: 'Attempts', kind: 'number', of: (job) => count(job.attempt)},
        {name: 'Died', of: (job) => <Time at={job.finished_at || job.updated_at} />},
        {name: 'Message', of: (job) => job.last_error?.message || <span class="quiet">–</span>},
        {name: 'Payload and answer', of: (job) => <Peek id={job.id} />},
      ]} />
    </>
  );
}

function OneError({query}) {
  const {topic, code, since, until} = query;
  const may = useMay()('write');
  const all = useMay()('admin', true);
  const list = useLive(listPath(query, useNow(60000)), 5000, {key: JSON.stringify(query), list: 'jobs'});
  const jobs = list.data && ofCode(list.data.jobs, code);
  const more = list.data?.next_cursor;
  return (
    <>
      <Title actions={may && jobs?.length > 0 && <button type="button" class="primary" onClick={() => redrive(query, all, list.refresh)}>Redrive all</button>}>Dead letters: <code>{code}</code>{topic && ` of ${topic}`}</Title>
      <p><a href={href('dead', {topic, since, until})}>All errors</a></p>
      <Trouble problem={list.problem} shown={list.data} what="jobs" />
      <Loading of={list} />
      {jobs?.length > 0 && <Listed jobs={jobs} done={list.refresh} />}
      {jobs && !jobs.length && <Empty>{more ? 'None on this page; see the next page.' : 'No dead jobs.'}</Empty>}
      {list.data && <Pages path="dead" query={query} next={more} />}
    </>
  );
}

export function Dead({query}) {
  return query.code ? <OneError query={query} /> : <AllErrors query={query} />;
}
