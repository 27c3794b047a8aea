// One schedule: its next fires, the jobs of its past fires, and actions.
import {ask, post, withQuery} from '../api.js';
import {useMay} from '../caller.js';
import {count, spoken} from '../format.js';
import {useLive} from '../live.js';
import {pretty} from '../json.js';
import {go, href} from '../router.js';
import {momentIn, zone} from '../zone.js';
import {question} from '../ui/dialog.jsx';
import {Empty, Facts, Loading, Panel, Time, Title, Trouble, useNow} from '../ui/parts.jsx';
import {JobTable, withTimes} from './jobs.jsx';
import {editSchedule} from './schedule_settings.jsx';
import {rhythm, stateOf} from './schedules.jsx';

const pathOf = (name) => `/v1/schedules/${encodeURIComponent(name)}`;

function pause(schedule, done) {
  const verb = schedule.paused ? 'resume' : 'pause';
  question({
    title: schedule.paused ? `Resume ${schedule.name}?` : `Pause ${schedule.name}?`, yes: schedule.paused ? 'Resume' : 'Pause', danger: !schedule.paused,
    body: schedule.paused ? `It fires again, and makes up for fires that it missed in the last ${spoken(schedule.catch_up)}.` : 'It creates no jobs, and its future jobs are withdrawn.',
    act: async () => {
      await post(`${pathOf(schedule.name)}/${verb}`);
      done();
      return schedule.paused ? 'The schedule is resumed.' : 'The schedule is paused.';
    },
  });
}

function runNow(schedule) {
  question({title: `Run ${schedule.name} now?`, yes: 'Create 1 job', body: 'This creates one job that is due now.', act: async () => {
    const job = await post(`${pathOf(schedule.name)}/run-now`);
    go(['jobs', job.id]);
    return 'The job is created.';
  }});
}

function remove(schedule) {
  question({
    title: `Delete ${schedule.name}?`, yes: 'Delete the schedule', danger: true,
    fields: [{name: 'cancel', type: 'checkbox', label: 'Cancel its next job, too'}],
    act: async ({cancel}) => {
      await ask('DELETE', `${pathOf(schedule.name)}${cancel ? '?cancel=true' : ''}`);
      go('schedules');
      return 'The schedule is deleted.';
    },
  });
}

// In the reader's zone, and in the schedule's if that is another one.
function Fire({at, own}) {
  return <><Time at={at} full />{own && own !== zone() && <span class="quiet"> · {momentIn(at, own).slice(0, 16)} {own}</span>}</>;
}

function Next({of: {data, problem}, own}) {
  return (
    <Panel title="Next fires">
      <Trouble problem={problem} shown={data} />
      {data && (data.next.length ? <ol class="plain">{data.next.map((at) => <li key={at}><Fire at={at} own={own} /></li>)}</ol> : <Empty>No further fires.</Empty>)}
    </Panel>
  );
}

const SPANS = {'-1h': 'an hour', '-1d': 'a day', '-7d': 'a week', '-30d': 'a month'};
const PAGE = 1000;
const SHOWN = 200;
const DAY_MS = 86400000;

// A day of fires, or an hour if a day has more fires than a page: the latest fires, which matter most, would be missing.
function usualSpan(next) {
  const apart = next.length > 1 ? (new Date(next.at(-1)) - new Date(next[0])) / (next.length - 1) : DAY_MS;
  return apart * PAGE < DAY_MS ? '-1h' : '-1d';
}

// Fires are jobs with the schedule's name in their keys; the newest first.
function Fires({schedule, query, next}) {
  const since = SPANS[query.since] ? query.since : usualSpan(next);
  const {run_from} = withTimes({run_from: since}, useNow(60000));
  const list = useLive(withQuery('/v1/jobs', {topic: schedule.topic, key_prefix: `${schedule.name}@`, run_from, limit: PAGE}), 5000, {key: since, list: 'jobs'});
  const found = list.data?.jobs || [];
  const jobs = found.slice(-SHOWN).reverse();
  const spans = Object.entries(SPANS).map(([span, word]) => <a key={span} class="button" aria-current={span === since ? 'true' : undefined} href={href(['schedules', schedule.name], {since: span})}>{word}</a>);
  const all = <a href={href('jobs', {topic: schedule.topic, key_prefix: `${schedule.name}@`})}>all</a>;
  return (
    <Panel title="Fires" actions={spans}>
      <Trouble problem={list.problem} shown={list.data} what="its jobs" />
      {list.data?.next_cursor ? <p class="quiet">Only the earliest fires are shown: choose a shorter time, or see {all}.</p> : found.length > SHOWN && <p class="quiet">The last {SHOWN} of {count(found.length)}; {all}.</p>}
      {jobs.length > 0 && <JobTable jobs={jobs} label="Fires" />}
      {list.data && !jobs.length && <Empty>No fires in this time.</Empty>}
    </Panel>
  );
}

function About({schedule}) {
  return (
    <Facts of={[
      ['State', stateOf(schedule)],
      ['Fires', rhythm(schedule)],
      ['Topic', <a href={href(['topics', schedule.topic])}>{schedule.topic}</a>],
      ['Next', <Time at={schedule.next_at} full />],
      ['Overlap', schedule.overlap],
      ['Catches up with', spoken(schedule.catch_up)],
      ['Jitter', spoken(schedule.jitter)],
      ['Starts', schedule.starts_at && <Time at={schedule.starts_at} full />],
      ['Ends', schedule.ends_at && <Time at={schedule.ends_at} full />],
      ['Payload', schedule.payload !== undefined && <code>{pretty(schedule.payload)}</code>],
      ['Version', schedule.version],
    ]} />
  );
}

export function Schedule({id, query}) {
  const read = useLive(pathOf(id), 3000, {exact: true});
  const next = useLive(`${pathOf(id)}/next?count=8`, 10000);
  const may = useMay();
  const schedule = read.data;
  const actions = schedule && may('write') && (
    <>
      <button type="button" onClick={() => runNow(schedule)}>Run now</button>
      <button type="button" onClick={() => editSchedule(schedule, read.refresh)}>Change</button>
      <button type="button" class={schedule.paused ? '' : 'danger'} onClick={() => pause(schedule, read.refresh)}>{schedule.paused ? 'Resume' : 'Pause'}</button>
      <button type="button" class="danger" onClick={() => remove(schedule)}>Delete</button>
    </>
  );
  return (
    <>
      <Title actions={actions}>{id}</Title>
      <Trouble problem={read.problem} shown={schedule} what="this schedule" />
      <Loading of={read} />
      {schedule && (
        <>
          {schedule.last_error && <p class="reason bad">It cannot create jobs: {schedule.last_error.message}</p>}
          <div class="columns"><Panel title="Schedule"><About schedule={schedule} /></Panel><Next of={next} own={schedule.cron && schedule.time_zone} /></div>
          {(next.data || next.problem) && <Fires schedule={schedule} query={query} next={next.data?.next || []} />}
        </>
      )}
    </>
  );
}
