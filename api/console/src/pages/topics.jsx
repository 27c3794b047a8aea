// Topics by name, with counts of their jobs if the overview has them.
import {useMay} from '../caller.js';
import {withQuery} from '../api.js';
import {count, duration} from '../format.js';
import {useLive} from '../live.js';
import {href} from '../router.js';
import {Empty, Loading, Title, Trouble} from '../ui/parts.jsx';
import {Pages, Table} from '../ui/table.jsx';
import {editTopic} from './topic_settings.jsx';

const limits = (topic) => [topic.max_in_flight && `${count(topic.max_in_flight)} in flight`, topic.rate_limit].filter(Boolean).join(', ');

// The overview's figures by topic; null if the token may not read the overview.
function useFigures() {
  const {data} = useLive('/v1/overview', 5000);
  return data ? Object.fromEntries(data.topics.map((topic) => [topic.topic, topic])) : null;
}

export function Topics({query}) {
  const list = useLive(withQuery('/v1/topics', {limit: 50, cursor: query.cursor}), 5000);
  const figures = useFigures();
  const may = useMay();
  const of = (topic) => figures?.[topic.name];
  return (
    <>
      <Title actions={may('admin') && <button type="button" onClick={() => editTopic(null, list.refresh)}>New topic</button>}>Topics</Title>
      <Trouble problem={list.problem} shown={list.data} what="topics" />
      <Loading of={list} />
      {list.data && !list.data.topics.length && <Empty>No topics yet. The first job of a topic creates it.</Empty>}
      {list.data?.topics.length > 0 && (
        <Table label="Topics" rows={list.data.topics} keyOf={(topic) => topic.name} linkOf={(topic) => href(['topics', topic.name])} columns={[
          {name: 'Topic', of: (topic) => topic.name},
          {name: 'State', of: (topic) => (topic.paused ? <span class="state paused">paused</span> : <span class="state done">active</span>)},
          {name: 'Delivery', of: (topic) => topic.delivery},
          figures && {name: 'Overdue', kind: 'number', of: (topic) => <span class={of(topic)?.overdue ? 'late' : 'quiet'}>{of(topic) ? count(of(topic).overdue) : '–'}{of(topic)?.oldest_overdue_ms > 0 && ` (${duration(of(topic).oldest_overdue_ms)})`}{of(topic)?.held > 0 && `, ${count(of(topic).held)} held`}</span>},
          figures && {name: 'Scheduled', kind: 'number', of: (topic) => count(of(topic)?.scheduled)},
          figures && {name: 'Dispatched', kind: 'number', of: (topic) => count(of(topic)?.dispatched)},
          figures && {name: 'Dead', kind: 'number', of: (topic) => <span class={of(topic)?.dead ? 'bad' : ''}>{count(of(topic)?.dead)}</span>},
          {name: 'Limits', of: (topic) => limits(topic) || <span class="quiet">none</span>},
        ]} />
      )}
      {list.data && <Pages path="topics" query={query} next={list.data.next_cursor} />}
    </>
  );
}
