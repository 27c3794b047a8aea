// One job: its state, what it waits for, its timeline, its payload, and actions.
import {useMay} from '../caller.js';
import {spoken} from '../format.js';
import {pretty} from '../json.js';
import {useLive} from '../live.js';
import {href} from '../router.js';
import {Facts, Loading, Panel, State, Time, Title, Trouble, useNow} from '../ui/parts.jsx';
import {advice, lateBy, reason} from '../words.js';
import {Explanation, useExplanation} from './explain.jsx';
import {actionsOf} from './job_actions.jsx';
import {Timeline} from './timeline.jsx';

function Reason({job, told}) {
  const now = useNow();
  const text = reason(job, now);
  if (told) {
    const tone = job.state === 'dead' ? 'bad' : lateBy(job, now) ? 'warn' : '';
    return <p class={`reason ${tone}`}>{told.reason}{told.action && <strong class="to-do">{advice(told.action)}</strong>}</p>;
  }
  if (text) return <p class={`reason ${text.startsWith('late') ? 'warn' : ''}`}>This job {text.startsWith('late') ? 'is ' : ''}{text}.</p>;
  if (job.state === 'dead') return <p class="reason bad">This job is dead: no attempts are left, or its consumer gave up.</p>;
  return null;
}

function textOf(job) {
  if (job.payload_base64 === undefined) return pretty(job.payload ?? null);
  const bytes = Uint8Array.from(atob(job.payload_base64), (letter) => letter.charCodeAt(0));
  try {
    return new TextDecoder('utf-8', {fatal: true}).decode(bytes);
  } catch {
    return `${bytes.length} bytes, in base64:\n${job.payload_base64}`;
  }
}

function Payload({job}) {
  return (
    <Panel title="Payload">
      {job.content_type && <p class="quiet">{job.content_type}</p>}
      <pre tabIndex={0} role="region" aria-label="The payload">{textOf(job)}</pre>
      {job.headers && <><h3>Headers</h3><pre tabIndex={0} role="region" aria-label="Its headers">{pretty(job.headers)}</pre></>}
    </Panel>
  );
}

function About({job}) {
  return (
    <Facts of={[
      ['State', <State state={job.state} />],
      ['Topic', <a href={href(['topics', job.topic])}>{job.topic}</a>],
      ['Key', job.key],
      ['Runs at', <Time at={job.run_at} full />],
      ['Next', job.next_at && job.next_at !== job.run_at && <Time at={job.next_at} full />],
      ['Finished', job.finished_at && <Time at={job.finished_at} full />],
      ['Attempts', `${job.attempt} of ${job.max_attempts}${job.failures ? `, ${job.failures} failed` : ''}${job.retries_cancelled ? ', no further retries' : ''}`],
      ['Retries after', job.retry.length ? job.retry.map(spoken).join(', ') : 'none'],
      ['Report timeout', spoken(job.ack_timeout)],
      ['Callback', job.callback_url],
      ['Partition key', job.partition_key],
      ['Version', job.version],
    ]} />
  );
}

function Actions({job, done}) {
  const actions = actionsOf(job, useMay(), done);
  return actions.map(({name, danger, act}) => <button type="button" key={name} class={danger ? 'danger' : ''} onClick={act}>{name}</button>);
}

export function Job({id}) {
  const path = `/v1/jobs/${encodeURIComponent(id)}`;
  const read = useLive(path, 2000, {exact: true});
  const attempts = useLive(`${path}/attempts`, 2000);
  const told = useExplanation(id);
  const events = useLive(`${path}/events`, 3000).data?.events || [];
  const job = read.data;
  const done = () => {
    read.refresh();
    attempts.refresh();
  };
  return (
    <>
      <Title actions={job && <Actions job={job} done={done} />}>Job {job?.key ? <>{job.key} <span class="mono quiet">{id}</span></> : <span class="mono">{id}</span>}</Title>
      <Trouble problem={read.problem} shown={job} what="this job" />
      <Loading of={read} />
      {job && (
        <>
          <Reason job={job} told={told} />
          <div class="columns">
            <Panel title="Job"><About job={job} /></Panel>
            <Panel title="Timeline"><Timeline job={job} attempts={attempts.data?.attempts || []} events={events} more={attempts.data?.next_cursor} /><Trouble problem={attempts.problem} shown={attempts.data} what="its attempts" /></Panel>
          </div>
          {told ? <div class="columns"><Payload job={job} /><Explanation of={told} /></div> : <Payload job={job} />}
        </>
      )}
    </>
  );
}

