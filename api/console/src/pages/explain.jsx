// Why a job is in its state, as the API explains it, and what can be done about it.
import {useLive} from '../live.js';
import {Facts, Panel} from '../ui/parts.jsx';

const INDEX = {there: 'same as in MySQL', missing: 'missing; the reconciler will repair it soon', differs: 'differs; the reconciler will repair it soon',
  'not-needed': 'not needed', none: 'this installation has no Redis', unknown: 'Redis does not answer'};

const SHOWN = ['why', 'state', 'topic', 'key', 'run at', 'next at', 'attempts', 'shard', 'index', 'retry', 'history', 'what to do']; // shown elsewhere on the page

export function useExplanation(id) {
  return useLive(`/v1/jobs/${encodeURIComponent(id)}/explain`, 3000).data;
}

export function Explanation({of}) {
  const {shard, index, facts} = of;
  return (
    <Panel title="What affects this job">
      <Facts of={[
        ['Shard', shard && `${shard.shard}, ${shard.health}${shard.leader ? `, led by ${shard.leader}` : ''}${shard.waiting_for ? `, waits for ${shard.waiting_for}` : ''}`],
        ['Index', index && (INDEX[index.state] || index.state)],
        ...facts.filter(({what}) => !SHOWN.includes(what)).map(({what, value}) => [what, value]),
      ]} />
    </Panel>
  );
}
