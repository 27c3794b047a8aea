// Why a job is where it is, in the API's own words, with what can be done about it.
import {useLive} from '../live.js';
import {Facts, Panel} from '../ui/parts.jsx';

const INDEX = {there: 'as MySQL says', missing: 'missing; it is repaired within a period of the reconciler', differs: 'differs; it is repaired within a period of the reconciler',
  'not-needed': 'not needed', none: 'there is no Redis here', unknown: 'Redis does not answer'};

const SHOWN = ['why', 'state', 'topic', 'key', 'run at', 'next at', 'attempts', 'shard', 'index', 'retry', 'history', 'what to do']; // they stand elsewhere on the page

export function useExplanation(id) {
  return useLive(`/v1/jobs/${encodeURIComponent(id)}/explain`, 3000).data;
}

export function Explanation({of}) {
  const {shard, index, facts} = of;
  return (
    <Panel title="What bears on it">
      <Facts of={[
        ['Shard', shard && `${shard.shard}, ${shard.health}${shard.leader ? `, led by ${shard.leader}` : ''}${shard.waiting_for ? `, waits for ${shard.waiting_for}` : ''}`],
        ['Index', index && (INDEX[index.state] || index.state)],
        ...facts.filter(({what}) => !SHOWN.includes(what)).map(({what, value}) => [what, value]),
      ]} />
    </Panel>
  );
}
