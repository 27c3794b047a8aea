// Dead letters: grouped by topic and error, redriven one, some or all of a group.
import {useState} from 'preact/hooks';
import {withQuery} from '../api.js';
import {useMay} from '../caller.js';
import {count, plural} from '../format.js';
import {useLive} from '../live.js';
import {href} from '../router.js';
import {Filters} from '../ui/filters.jsx';
import {Empty, Loading, Time, Title, Trouble, useNow} from '../ui/parts.jsx';
import {operate} from '../ui/sets.jsx';
import {Pages, Table} from '../ui/table.jsx';
import {withTimes} from './jobs.jsx';

const PAGE = 1000;
const EVER = '1970-01-01';
const FIELDS = [{name: 'topic', label: 'Topic', placeholder: 'orders.close'}, {name: 'since', label: 'Died since', kind: 'time', placeholder: '-1d'}];
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

// Jobs without an error code cannot be named by one: they are listed.
const filterOf = (group) => (group.code === NONE ? {ids: group.jobs.map((job) => job.id)} : {topic: group.topic, error_code: group.code});

function Groups({groups, done}) {
  const may = useMay()('write');
  return (
    <Table label="Dead letters by error" rows={groups} keyOf={(group) => group.key} linkOf={(group) => href('dead', {topic: group.topic, code: group.code})} columns={[
      {name: 'Error', of: (group) => <code>{group.code}</code>},
      {name: 'Last message', of: (group) => group.message || <span class="quiet">–</span>},
      {name: 'Topic', of: (group) => group.topic},
      {name: 'Jobs', kind: 'number', of: (group) => count(group.jobs.length)},
      {name: 'Last', of: (group) => <Time at={group.last} />},
      may && {name: 'Redrive', kind: 'actions', of: (group) => <button type="button" onClick={() => operate('redrive', filterOf(group), done)} aria-label={`Redrive all of ${group.topic} with ${group.code}`}>Redrive all</button>},
    ]} />
  );
}

function One({group, done}) {
  const [chosen, choose] = useState([]);
  const may = useMay()('write');
  const ids = chosen.filter((id) => group.jobs.some((job) => job.id === id));
  const toggle = (id) => choose(ids.includes(id) ? ids.filter((other) => other !== id) : [...ids, id]);
  const all = group.jobs.slice(0, 1000).map((job) => job.id);
  return (
    <>
      {may && (
        <div class="actions">
          <button type="button" onClick={() => choose(ids.length ? [] : all)}>{ids.length ? 'Choose none' : 'Choose all here'}</button>
          <button type="button" disabled={!ids.length} onClick={() => operate('redrive', {ids}, done)}>Redrive {ids.length ? plural(ids.length, 'chosen job') : 'chosen jobs'}</button>
          <button type="button" class="primary" onClick={() => operate('redrive', filterOf(group), done)}>Redrive all</button>
        </div>
      )}
      <Table label="Dead letters" rows={group.jobs} keyOf={(job) => job.id} linkOf={(job) => href(['jobs', job.id])} columns={[
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
  const {topic, code, since, cursor} = query;
  const finished_from = withTimes({finished_from: since || EVER}, useNow(5000)).finished_from;
  const list = useLive(withQuery('/v1/jobs', {state: 'dead', topic, finished_from, cursor, limit: PAGE}), 5000, {key: JSON.stringify([topic, since, cursor]), list: 'jobs'});
  const groups = groupsOf(list.data?.jobs || []);
  const one = code && (groups.find((group) => group.code === code && (!topic || group.topic === topic)) || {code, topic, jobs: []});
  const more = list.data?.next_cursor;
  return (
    <>
      <Title>{code ? <>Dead letters: <code>{code}</code>{topic && ` of ${topic}`}</> : 'Dead letters'}</Title>
      {code ? <p><a href={href('dead', {topic, since})}>All errors</a></p> : <Filters path="dead" query={query} fields={FIELDS} />}
      <Trouble problem={list.problem} shown={list.data} what="jobs" />
      <Loading of={list} />
      {(more || cursor) && <p class="quiet">Groups of {plural(list.data?.jobs.length ?? 0, 'dead job')} on this page. “Redrive all” is counted over all of them before it asks.</p>}
      {list.data && (one ? one.jobs.length > 0 && <One group={one} done={list.refresh} /> : groups.length > 0 && <Groups groups={groups} done={list.refresh} />)}
      {list.data && !(one ? one.jobs.length : groups.length) && <Empty>{more ? 'None so far; the list goes on.' : 'Nothing is dead here.'}</Empty>}
      {list.data && <Pages path="dead" query={query} next={more} />}
    </>
  );
}
