// Operations: changes of whole sets of jobs, their progress, and how to stop them.
import {post, withQuery} from '../api.js';
import {useMay} from '../caller.js';
import {count, duration, plural} from '../format.js';
import {useLive} from '../live.js';
import {href} from '../router.js';
import {question} from '../ui/dialog.jsx';
import {Empty, Facts, Loading, Panel, State, Time, Title, Trouble, useNow} from '../ui/parts.jsx';
import {Pages, Table} from '../ui/table.jsx';

const told = (filter) => Object.entries(filter).map(([name, value]) => (name === 'ids' ? plural(value.length, 'listed job') : `${name.replace('_', ' ')} ${value}`)).join(', ');

function Progress({operation}) {
  const {matched, changed, refused} = operation;
  const done = changed + refused;
  return (
    <span class="progress">
      <progress max={matched || 1} value={operation.state === 'done' && !matched ? 1 : done} aria-label="Progress" />
      <span>{count(done)} of {count(matched)}{refused > 0 && <span class="warn">, {count(refused)} refused</span>}</span>
    </span>
  );
}

function stop(operation, done) {
  const left = plural(operation.matched - operation.changed - operation.refused, 'job');
  question({title: 'Stop this operation?', yes: 'Stop it', danger: true, body: `${left} will not be changed. Changes that were made are kept.`, act: async () => {
    const now = await post(`/v1/operations/${operation.id}/stop`);
    done();
    return now.state === 'stopped' ? 'The operation is stopped.' : `The operation is ${now.state}.`;
  }});
}

export function Operations({query}) {
  const list = useLive(withQuery('/v1/operations', {limit: 50, cursor: query.cursor}), 2000);
  const operations = list.data?.operations || [];
  return (
    <>
      <Title>Operations</Title>
      <Trouble problem={list.problem} shown={list.data} what="operations" />
      <Loading of={list} />
      {list.data && !operations.length && <Empty>No operations yet. Filter the jobs by topic to cancel, move or run all that match.</Empty>}
      {operations.length > 0 && (
        <Table label="Operations" rows={operations} keyOf={(operation) => operation.id} linkOf={(operation) => href(['operations', operation.id])} columns={[
          {name: 'Operation', of: (operation) => <>{operation.kind} <span class="quiet mono">{operation.id}</span></>},
          {name: 'State', of: (operation) => <State state={operation.state} />},
          {name: 'Jobs', of: (operation) => told(operation.filter)},
          {name: 'Progress', of: (operation) => <Progress operation={operation} />},
          {name: 'Started', of: (operation) => <Time at={operation.started_at} />},
        ]} />
      )}
      {list.data && <Pages path="operations" query={query} next={list.data.next_cursor} />}
    </>
  );
}

// The speed of an operation, and the estimated time left.
function pace(operation, now) {
  const took = (operation.finished_at ? new Date(operation.finished_at) : now) - new Date(operation.started_at);
  const done = operation.changed + operation.refused;
  if (took < 1000 || !done) return null;
  const perSecond = (done * 1000) / took;
  const left = operation.state === 'running' ? `, about ${duration(((operation.matched - done) * 1000) / perSecond)} left` : '';
  return `${count(Math.round(perSecond))}/s${left}`;
}

export function Operation({id}) {
  const read = useLive(`/v1/operations/${encodeURIComponent(id)}`, 1000);
  const may = useMay();
  const now = useNow();
  const operation = read.data;
  const actions = operation?.state === 'running' && may('write') && <button type="button" class="danger" onClick={() => stop(operation, read.refresh)}>Stop</button>;
  return (
    <>
      <Title actions={actions}>{operation ? operation.kind : 'Operation'} <span class="mono">{id}</span></Title>
      <Trouble problem={read.problem} shown={operation} what="this operation" />
      <Loading of={read} />
      {operation && (
        <Panel title="Operation">
          <Facts of={[
            ['State', <State state={operation.state} />],
            ['Progress', <Progress operation={operation} />],
            ['Speed', pace(operation, now)],
            ['Jobs', told(operation.filter)],
            ['Rate', operation.rate],
            ['Error', operation.error],
            ['Started', <Time at={operation.started_at} full />],
            ['Finished', operation.finished_at && <Time at={operation.finished_at} full />],
            ['First jobs', operation.sample.length > 0 && operation.sample.map((job) => <><a key={job} class="mono" href={href(['jobs', job])}>{job}</a> </>)],
          ]} />
        </Panel>
      )}
    </>
  );
}
