// One topic: its jobs by state, its settings and limits, and actions.
import {ask, post} from '../api.js';
import {useMay} from '../caller.js';
import {count, duration, plural, spoken} from '../format.js';
import {useLive} from '../live.js';
import {go, href} from '../router.js';
import {question} from '../ui/dialog.jsx';
import {Facts, Figure, Loading, Panel, Title, Trouble} from '../ui/parts.jsx';
import {History} from './history.jsx';
import {TopicAlerts, editAlerts} from './topic_alerts.jsx';
import {editTopic} from './topic_settings.jsx';

const STATES = ['scheduled', 'dispatched', 'succeeded', 'dead', 'cancelled'];

// Asks whether to pause or resume the topic. `topic` needs only name, paused and counts.
export function pause(topic, done) {
  const verb = topic.paused ? 'resume' : 'pause';
  const waiting = plural(topic.counts?.scheduled ?? 0, 'scheduled job');
  question({
    title: topic.paused ? `Resume ${topic.name}?` : `Pause ${topic.name}?`, yes: topic.paused ? 'Resume' : 'Pause', danger: !topic.paused,
    body: topic.paused ? `${waiting} can be dispatched again; due jobs at once.` : `${waiting} will wait until the topic is resumed. Attempts that were dispatched continue.`,
    act: async () => {
      await post(`/v1/topics/${encodeURIComponent(topic.name)}/${verb}`);
      done();
      return topic.paused ? 'The topic is resumed.' : 'The topic is paused.';
    },
  });
}

function remove(topic) {
  question({
    title: `Delete ${topic.name}?`, yes: 'Delete the topic', danger: true,
    body: 'This deletes its settings. It is refused if the topic has unfinished jobs, or a schedule that creates jobs in it.',
    act: async () => {
      await ask('DELETE', `/v1/topics/${encodeURIComponent(topic.name)}`);
      go('topics');
      return 'The topic is deleted.';
    },
  });
}

function Counts({topic}) {
  const {counts = {}, paused} = topic;
  const oldest = paused ? topic.oldest_held_ms : topic.oldest_overdue_ms;
  return (
    <div class="figures">
      <Figure name={paused ? 'held for' : 'overdue for'} value={oldest === null || oldest === undefined ? 'none' : duration(oldest)} tone={oldest && !paused ? 'late' : ''} href={href('jobs', {topic: topic.name, state: 'scheduled', due_to: 'now'})} />
      {STATES.map((state) => (
        <Figure key={state} name={state} value={counts[state] ?? 0} tone={state === 'dead' && counts.dead ? 'bad' : ''}
          href={state === 'dead' ? href('dead', {topic: topic.name}) : href('jobs', {topic: topic.name, state})} />
      ))}
    </div>
  );
}

function Settings({topic}) {
  const {effective} = topic;
  return (
    <Facts of={[
      ['Delivery', topic.delivery],
      ['Kafka topic', topic.delivery === 'kafka' && effective.kafka_topic],
      ['Callback URL', topic.callback_url],
      ['Secrets also sent to', topic.callback_hosts?.join(', ')],
      ['Callback timeout', topic.delivery === 'http' && spoken(effective.callback_timeout)],
      ['Signed', topic.callback_secret && 'yes'],
      ['Retries after', effective.retry.length ? effective.retry.map(spoken).join(', ') : 'none'],
      ['Report timeout', spoken(effective.ack_timeout)],
      ['Finished jobs kept for', spoken(effective.retention)],
      ['In flight', topic.max_in_flight ? `at most ${count(topic.max_in_flight)}` : 'no limit'],
      ['Rate', topic.rate_limit ? `at most ${topic.rate_limit}` : 'no limit'],
      ['Version', topic.version],
    ]} />
  );
}

export function Topic({id}) {
  const read = useLive(`/v1/topics/${encodeURIComponent(id)}`, 3000);
  const may = useMay();
  const topic = read.data;
  const actions = topic && may('admin') && (
    <>
      <button type="button" onClick={() => editTopic(topic, read.refresh)}>Settings</button>
      <button type="button" class={topic.paused ? '' : 'danger'} onClick={() => pause(topic, read.refresh)}>{topic.paused ? 'Resume' : 'Pause'}</button>
      <button type="button" class="danger" onClick={() => remove(topic)}>Delete</button>
    </>
  );
  return (
    <>
      <Title actions={actions}>{id}</Title>
      <Trouble problem={read.problem} shown={topic} what="this topic" />
      <Loading of={read} />
      {topic && (
        <>
          {topic.paused && <p class="reason warn">This topic is paused: its jobs are not dispatched.</p>}
          <Counts topic={topic} />
          <History topic={id} />
          <div class="columns">
            <Panel title="Settings and limits"><Settings topic={topic} /></Panel>
            <TopicAlerts topic={topic} actions={may('admin') && <button type="button" onClick={() => editAlerts(topic, read.refresh)}>Change</button>} />
          </div>
        </>
      )}
    </>
  );
}
