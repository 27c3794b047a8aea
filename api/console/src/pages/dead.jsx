// Dead letters: grouped by topic and error, redriven one, some, all of a group, or all of a day.
import {useState} from 'preact/hooks';
import {withQuery} from '../api.js';
import {useMay} from '../caller.js';
import {count, plural} from '../format.js';
import {readPage, useLive} from '../live.js';
import {href} from '../router.js';
import {say} from '../ui/dialog.jsx';
import {Filters} from '../ui/filters.jsx';
import {Empty, Loading, Time, Title, Trouble, useNow} from '../ui/parts.jsx';
import {operate} from '../ui/sets.jsx';
import {Pages, Table} from '../ui/table.jsx';
import {withTimes} from './jobs.jsx';

const PAGE = 1000;
const MOST = 20000; // are grouped together
const SHOWN = 1000; // one by one
const EVER = '1970-01-01';
const FIELDS = [
  {name: 'topic', label: 'Topic', placeholder: 'orders.close'},
  {name: 'since', label: 'Died since', kind: 'time', placeholder: 'today'},
  {name: 'until', label: 'Died before', kind: 'time', placeholder: 'now'},
];
const PERIODS = [['Today', {since: 'today'}], ['Yesterday', {since: 'yesterday', until: 'today'}], ['Seven days', {since: '-7d'}], ['Ever', {}]];
const NONE = '(none)';
const codeOf = (job) => job.last_error?.code || NONE;

// Of a page of dead jobs, by topic and error code, the largest group first.
export function groupsOf(jobs) {
  const groups = new Map();
  for (const job of jobs) {
    const key = `${job.topic} ${codeOf(job)}`;
    const group = groups.get(key) || {key, topic: job.topic, code: codeOf(job), jobs: [], last: ''};
    group.jobs.push(job);
    if (job.last_error && job.last_error.at > group.last) Object.assign(group, {last: job.last_error.at, message: job.last_error.message});
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.jobs.length - a.jobs.length);
}

const pathOf = ({topic, since, until, cursor}, now) => {
  const {finished_from, finished_to} = withTimes({finished_from: since || EVER, finished_to: until}, now);
  return withQuery('/v1/jobs', {state: 'dead', topic, finished_from, finished_to, cursor, limit: PAGE});
};

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

// The last failure of a dead job is when it died.
function diedWithin({since, until}) {
  const {from, to} = withTimes({from: since, to: until}, Date.now());
  return {...(from && {failed_from: from}), ...(to && {failed_to: to})};
}

// Those that died yesterday, whatever their error and topic. As many as a page has are named one by one, which finds them at once; more by
// when they died, which asks for a topic, or for a token that may reach all of them.
async function redriveYesterdays(topic, all, done) {
  const period = {since: 'yesterday', until: 'today'};
  try {
    const {jobs, next_cursor} = await readPage(pathOf({topic, ...period}, Date.now()), 'jobs');
    const many = next_cursor && (topic || all);
    if (jobs.length) await operate('redrive', many ? {topic: topic || '*', ...diedWithin(period)} : {ids: jobs.map((job) => job.id)}, done);
    else say('Nothing died yesterday that is still dead.');
  } catch (problem) {
    say(`They cannot be listed: ${problem.lines.join(' · ')}`);
  }
}

// What a page has is listed; what goes on behind it is named by error and time. Jobs without an error code cannot be named by one.
const isListed = (group, {since, until, cursor}, more) => group.code === NONE || (!more && !cursor && (since || until) && group.jobs.length <= PAGE);
const filterOf = (group, query, more) => (isListed(group, query, more) ? {ids: group.jobs.slice(0, PAGE).map((job) => job.id)} : {topic: group.topic, error_code: group.code, ...diedWithin(query)});

function Groups({groups, query, more, done}) {
  const {since, until} = query;
  const may = useMay()('write');
  return (
    <Table label="Dead letters by error" rows={groups} keyOf={(group) => group.key} linkOf={(group) => href('dead', {topic: group.topic, code: group.code, since, until})} columns={[
      {name: 'Error', of: (group) => <code>{group.code}</code>},
      {name: 'Last message', of: (group) => group.message || <span class="quiet">–</span>},
      {name: 'Topic', of: (group) => group.topic},
      {name: 'Jobs', kind: 'number', of: (group) => count(group.jobs.length)},
      {name: 'Last', of: (group) => <Time at={group.last} />},
      may && {name: 'Redrive', kind: 'actions', of: (group) => <button type="button" onClick={() => operate('redrive', filterOf(group, query, more), done)} aria-label={`Redrive all of ${group.topic} with ${group.code}`}>Redrive all</button>},
    ]} />
  );
}

function One({group, query, more, done}) {
  const [chosen, choose] = useState([]);
  const may = useMay()('write');
  const ids = chosen.filter((id) => group.jobs.some((job) => job.id === id));
  const toggle = (id) => choose(ids.includes(id) ? ids.filter((other) => other !== id) : [...ids, id]);
  const shown = group.jobs.slice(0, SHOWN);
  const all = shown.map((job) => job.id);
  return (
    <>
      {may && (
        <div class="actions">
          <button type="button" onClick={() => choose(ids.length ? [] : all)}>{ids.length ? 'Choose none' : 'Choose all here'}</button>
          <button type="button" disabled={!ids.length} onClick={() => operate('redrive', {ids}, done)}>Redrive {ids.length ? plural(ids.length, 'chosen job') : 'chosen jobs'}</button>
          <button type="button" class="primary" onClick={() => operate('redrive', filterOf(group, query, more), done)}>Redrive all</button>
        </div>
      )}
      {group.jobs.length > SHOWN && <p class="quiet">The first {count(SHOWN)} of {plural(group.jobs.length, 'job')}.</p>}
      <Table label="Dead letters" rows={shown} keyOf={(job) => job.id} linkOf={(job) => href(['jobs', job.id])} columns={[
        {name: 'Job', of: (job) => <>{job.key || ''} <span class="quiet mono">{job.id}</span></>},
        may && {name: 'Choose', of: (job) => <input type="checkbox" aria-label={`Choose ${job.key || job.id}`} checked={ids.includes(job.id)} onChange={() => toggle(job.id)} />},
        {name: 'Attempts', kind: 'number', of: (job) => count(job.attempt)},
        {name: 'Died', of: (job) => <Time at={job.finished_at || job.updated_at} />},
        {name: 'Message', of: (job) => job.last_error?.message || <span class="quiet">–</span>},
      ]} />
    </>
  );
}

export function Dead({query}) {
  const {topic, code, since, until, cursor} = query;
  const may = useMay()('write');
  const all = useMay()('admin', true);
  const list = useLive(pathOf(query, useNow(60000)), 5000, {key: JSON.stringify([topic, since, until, cursor]), list: 'jobs', most: MOST});
  const groups = groupsOf(list.data?.jobs || []);
  const one = code && (groups.find((group) => group.code === code && (!topic || group.topic === topic)) || {code, topic, jobs: []});
  const more = list.data?.next_cursor;
  return (
    <>
      <Title actions={may && !code && <button type="button" onClick={() => redriveYesterdays(topic, all, list.refresh)}>Redrive yesterday’s…</button>}>{code ? <>Dead letters: <code>{code}</code>{topic && ` of ${topic}`}</> : 'Dead letters'}</Title>
      {code ? <p><a href={href('dead', {topic, since, until})}>All errors</a></p> : <><Periods query={query} /><Filters path="dead" query={query} fields={FIELDS} /></>}
      <Trouble problem={list.problem} shown={list.data} what="jobs" />
      <Loading of={list} />
      {(more || cursor) && <p class="quiet">Groups of {plural(list.data?.jobs.length ?? 0, 'dead job')} on this page. “Redrive all” is counted over all of them before it asks; of those without an error code it takes a thousand.</p>}
      {list.data && (one ? one.jobs.length > 0 && <One group={one} query={query} more={more} done={list.refresh} /> : groups.length > 0 && <Groups groups={groups} query={query} more={more} done={list.refresh} />)}
      {list.data && !(one ? one.jobs.length : groups.length) && <Empty>{more ? 'None so far; the list goes on.' : 'Nothing is dead here.'}</Empty>}
      {list.data && <Pages path="dead" query={query} next={more} />}
    </>
  );
}
