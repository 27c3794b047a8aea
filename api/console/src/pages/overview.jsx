// The state of the installation on one screen: late jobs, throughput, forecast, and parts with problems.
import {useMay} from '../caller.js';
import {useOffered} from '../offers.js';
import {count, duration, plural, roughly} from '../format.js';
import {useLive} from '../live.js';
import {href} from '../router.js';
import {Chart} from '../ui/chart.jsx';
import {Facts, Figure, Loading, Panel, Time, Title, Trouble} from '../ui/parts.jsx';
import {Table} from '../ui/table.jsx';
import {Findings} from './findings.jsx';
import {History, SPANS, secondsOf, useSeries} from './history.jsx';
import {pause} from './topic.jsx';

const LATE_MS = 2000;
const rate = (n) => (n >= 10 || n === 0 ? count(Math.round(n)) : n.toFixed(1));
const atLeast = (n, more) => `${count(n)}${more ? '+' : ''}`;
const dueJobs = (topic) => href('jobs', {topic, state: 'scheduled', due_to: 'now'});

function Figures({of}) {
  const {rates, lateness_ms: lateness, overdue, held, jobs, next_hour: next} = of;
  const trouble = (
    <>
      <Figure name="overdue" value={atLeast(overdue.count, overdue.at_least)} tone={overdue.oldest_ms > LATE_MS ? 'late' : ''} href={dueJobs()}
        note={overdue.oldest_ms ? `oldest ${duration(overdue.oldest_ms)}` : 'nothing is late'} />
      {held.count > 0 && <Figure name="held" value={atLeast(held.count, held.at_least)} href={href('topics')} note="due, of paused topics" />}
      <Figure name="failed" value={rate(rates.failed)} unit="/s" tone={rates.failed ? 'late' : ''} />
      <Figure name="dead" value={count(jobs.dead)} tone={jobs.dead ? 'bad' : ''} href={href('dead')} note={`${rate(rates.dead)}/s`} />
    </>
  );
  const flow = (
    <>
      <Figure name="lateness p99" value={lateness ? duration(lateness.p99) : '–'} note={lateness ? `median ${duration(lateness.p50)}` : 'nothing was sent'} />
      <Figure name="created" value={rate(rates.created)} unit="/s" />
      <Figure name="dispatched" value={rate(rates.dispatched)} unit="/s" note={`${count(jobs.dispatched)} without a report`} />
      <Figure name="succeeded" value={rate(rates.succeeded)} unit="/s" />
      <Figure name="scheduled" value={count(jobs.scheduled)} href={href('jobs', {state: 'scheduled'})} note={next && `${atLeast(next.due, next.at_least)} in the next hour`} />
    </>
  );
  return (
    <div class="groups">
      <section aria-label="Trouble"><h2>Trouble</h2><div class="figures">{trouble}</div></section>
      <section aria-label="Flow"><h2>Flow</h2><div class="figures">{flow}</div></section>
    </div>
  );
}

function Lateness({span}) {
  const data = useSeries(['lateness_p50', 'lateness_p99'], span);
  if (!data) return null;
  const of = (name) => data.metrics[name] || [];
  return (
    <Panel title={`Lateness in the last ${SPANS[span].name}`}>
      <Chart times={secondsOf(data)} format={duration} tick={roughly} label={`Lateness in the last ${SPANS[span].name}, median and 99th percentile`}
        lines={[{name: 'median', colour: '--chart', values: of('lateness_p50')}, {name: 'p99', colour: '--chart-4', values: of('lateness_p99')}]} />
    </Panel>
  );
}

function Forecast() {
  const offered = useOffered('/v1/forecast');
  const {data} = useLive(offered === false ? null : '/v1/forecast', 15000);
  if (!data) return null;
  const due = data.steps.map((step) => step.due);
  const peak = data.steps[due.indexOf(Math.max(...due))];
  return (
    <Panel title="Due in the next hour">
      <Chart bars times={data.steps.map((step) => new Date(step.from) / 1000)} lines={[{name: 'due', colour: '--chart', values: due}]} format={(n) => count(Math.round(n))}
        label={`Jobs due in the next hour, by minute; at most ${peak?.due ?? 0}`} />
      {data.counted_until !== data.to && <p class="quiet">Estimated from <Time at={data.counted_until} plain /> on.</p>}
    </Panel>
  );
}

// Pauses or resumes a topic from its row: one click and one confirmation.
function Pause({topic, done}) {
  const {topic: name, paused, scheduled} = topic;
  return <button type="button" onClick={() => pause({name, paused, counts: {scheduled}}, done)} aria-label={`${paused ? 'Resume' : 'Pause'} ${name}`}>{paused ? 'Resume' : 'Pause'}</button>;
}

// The due jobs of a topic: the overdue ones, or, if there are none, the ones that a pause holds.
function Waiting({topic: {topic: name, overdue, oldest_overdue_ms: oldest, held}}) {
  if (overdue) return <a class="late" href={dueJobs(name)}>{count(overdue)}, {duration(oldest)}</a>;
  return held ? <a class="quiet" href={dueJobs(name)}>{count(held)} held</a> : <span class="quiet">0</span>;
}

function Topics({of, done}) {
  const may = useMay()('admin');
  return (
    <Panel title="Topics">
      <Table label="Topics" rows={of.topics} keyOf={(topic) => topic.topic} linkOf={(topic) => href(['topics', topic.topic])} columns={[
        {name: 'Topic', of: (topic) => <>{topic.topic}{topic.paused && <span class="state paused flag"> paused</span>}</>},
        {name: 'Overdue', kind: 'number', of: (topic) => <Waiting topic={topic} />},
        {name: 'Scheduled', kind: 'number', of: (topic) => <a href={href('jobs', {topic: topic.topic, state: 'scheduled'})}>{count(topic.scheduled)}</a>},
        {name: 'Dispatched', kind: 'number', of: (topic) => count(topic.dispatched)},
        {name: 'Dead', kind: 'number', of: (topic) => (topic.dead ? <a class="bad" href={href('dead', {topic: topic.topic})}>{count(topic.dead)}</a> : <span class="quiet">0</span>)},
        {name: 'Created/s', kind: 'number', of: (topic) => rate(topic.rates.created)},
        {name: 'Dispatched/s', kind: 'number', of: (topic) => rate(topic.rates.dispatched)},
        {name: 'Failed/s', kind: 'number', of: (topic) => <span class={topic.rates.failed ? 'late' : ''}>{rate(topic.rates.failed)}</span>},
        may && {name: 'Pause', kind: 'actions', of: (topic) => <Pause topic={topic} done={done} />},
      ]} />
      {of.topics_more > 0 && <p class="quiet">{plural(of.topics_more, 'topic')} not shown: <a href={href('topics')}>all topics</a>.</p>}
    </Panel>
  );
}

const NAMES = {mysql: 'MySQL', redis: 'Redis', kafka: 'Kafka', zookeeper: 'ZooKeeper', dispatchers: 'Dispatchers'};
const TONES = {ok: 'done', none: '', degraded: 'failed', waiting: 'paused', silent: 'failed', 'no-leader': 'failed', 'no-dispatcher': 'failed', halted: 'failed'};
const Word = ({state, children}) => <span class={`state ${TONES[state] ?? ''}`}>{children || state}</span>;

function Parts({of}) {
  const dispatchers = of.processes.filter((process) => process.kind === 'dispatcher').length;
  return (
    <section class="strip" aria-label="Parts">
      <Facts of={[
        ...of.parts.map((part) => [NAMES[part.part] || part.part, <><Word state={part.state}>{part.state === 'none' ? 'not part of this installation' : part.state}</Word>{part.detail && <div class="quiet">{part.detail}</div>}</>]),
        ['Processes', `${plural(of.processes.length - dispatchers, 'API')}, ${plural(dispatchers, 'dispatcher')}`],
        ['Version', of.version],
      ]} />
    </section>
  );
}

// Whether a shard's part of the index is complete, and how many entries were repaired since its leader took over.
function Index({shard}) {
  const {missing, extra, wrong} = shard.drift;
  if (!shard.leader) return <span class="quiet">–</span>;
  return (
    <>
      {shard.index_whole ? 'complete' : <span class="late">incomplete</span>}
      {missing + extra + wrong > 0 && <span class="quiet">, repaired {count(missing + extra + wrong)}</span>}
    </>
  );
}

function Shards({of}) {
  const redis = of.parts.some((part) => part.part === 'redis' && part.state !== 'none');
  return (
    <Panel title="Shards">
      <Table label="Shards" rows={of.shards} keyOf={(shard) => shard.shard} columns={[
        {name: 'Shard', of: (shard) => shard.shard},
        {name: 'Health', of: (shard) => <><Word state={shard.health} />{(shard.halted || shard.waiting_for || shard.detail) && <span class="quiet"> {shard.halted || [shard.waiting_for, shard.detail].filter(Boolean).join(': ')}</span>}</>},
        {name: 'Leader', of: (shard) => shard.leader || <span class="bad">none</span>},
        {name: 'In flight', kind: 'number', of: (shard) => count(shard.in_flight)},
        {name: 'Overdue', kind: 'number', of: (shard) => <>{count(shard.overdue)}{shard.held > 0 && <span class="quiet"> and {count(shard.held)} held</span>}</>},
        redis && {name: 'Index', of: (shard) => <Index shard={shard} />},
      ]} />
    </Panel>
  );
}

export function Overview({query}) {
  const span = SPANS[query.span] ? query.span : '1h';
  const read = useLive('/v1/overview', 2000);
  const of = read.data;
  return (
    <>
      <Title>{of ? of.installation.name : 'Overview'}</Title>
      <Trouble problem={read.problem} shown={of} what="the whole installation; use the pages above for its topics and jobs" />
      <Loading of={read} />
      {of && <Parts of={of} />}
      {of && <Figures of={of} />}
      <Findings />
      <div class="split">
        <div class="stack">{of && <><Topics of={of} done={read.refresh} /><Shards of={of} /></>}</div>
        <div class="stack">
          <nav class="periods" aria-label="Span of the charts">
            {Object.keys(SPANS).map((of) => <a key={of} class="button" href={href('overview', {span: of})} aria-current={of === span ? 'true' : undefined}>{of}</a>)}
          </nav>
          <History span={span} /><Lateness span={span} /><Forecast />
        </div>
      </div>
    </>
  );
}
