// Active alerts: what is wrong, since when, when it was last notified. Each can be silenced.
import {post, withQuery} from '../api.js';
import {useMay} from '../caller.js';
import {count, spoken} from '../format.js';
import {useLive} from '../live.js';
import {href} from '../router.js';
import {question} from '../ui/dialog.jsx';
import {Empty, Loading, Time, Title, Trouble} from '../ui/parts.jsx';
import {Pages, Table} from '../ui/table.jsx';

const KINDS = {
  overdue: 'jobs are late', backlog: 'a backlog of due jobs', dead: 'dead jobs', unreported: 'reports are missing',
  shard_halted: 'a shard is halted: an operator must decide', no_leader: 'a shard has no leader', kafka_unwritable: 'Kafka does not accept messages',
  index_incomplete: 'the index in Redis is incomplete', inbox_errors: 'rows of the inbox cannot become jobs', audit_corrected: 'counters were corrected',
  no_dispatcher: 'no dispatcher is running',
};
const shown = (figure) => (typeof figure === 'number' ? count(figure) : spoken(figure));

// The page of the runbook about a kind of alert.
const pageOf = (kind) => (kind === 'no_leader' ? 'shard-without-leader' : kind.replaceAll('_', '-'));

// The page that shows the cause of an alert.
export function causeOf({kind, topic}) {
  if (!topic) return href('overview');
  if (kind === 'dead') return href('dead', {topic});
  if (kind === 'unreported') return href('jobs', {topic, state: 'dispatched'});
  return href('jobs', {topic, state: 'scheduled', due_to: 'now'});
}

function silence(alert, done) {
  question({
    title: `Silence ${alert.kind}${alert.topic ? ` of ${alert.topic}` : ''}?`, yes: 'Silence',
    body: 'The alert stays in this list, but sends no reminders.',
    fields: [{name: 'how', label: 'For', value: 'PT1H', placeholder: 'PT1H', hint: 'Empty: as long as it is active.', autofocus: true}],
    act: async ({how}) => {
      await post(`/v1/alerts/${alert.id}/silence`, how.trim() ? {for: how.trim()} : {});
      done();
      return 'The alert is silenced.';
    },
  });
}

function unmute(alert, done) {
  question({
    title: `Unmute ${alert.kind}${alert.topic ? ` of ${alert.topic}` : ''}?`, yes: 'Unmute', body: 'Its reminders are sent again.',
    act: async () => {
      await post(`/v1/alerts/${alert.id}/silence`, {for: 'PT0S'});
      done();
      return 'The alert is unmuted.';
    },
  });
}

const isSilenced = ({silenced_until: until}) => until && new Date(until) > Date.now();

export function Alerts({query}) {
  const list = useLive(withQuery('/v1/alerts', {limit: 100, cursor: query.cursor}), 3000);
  const may = useMay()('write');
  const alerts = list.data?.alerts || [];
  return (
    <>
      <Title>Alerts</Title>
      <Trouble problem={list.problem} shown={list.data} what="alerts" />
      <Loading of={list} />
      {list.data && !alerts.length && <Empty>{list.data.next_cursor ? 'None on this page; see the next page.' : 'No active alerts.'}</Empty>}
      {alerts.length > 0 && (
        <Table label="Alerts" rows={alerts} keyOf={(alert) => alert.id} linkOf={causeOf} columns={[
          {name: 'Alert', of: (alert) => KINDS[alert.kind] || alert.kind},
          {name: 'Topic', of: (alert) => alert.topic || <span class="quiet">the installation</span>},
          {name: 'Value', kind: 'number', of: (alert) => <strong class="bad">{shown(alert.value)}</strong>},
          {name: 'Limit', kind: 'number', of: (alert) => shown(alert.limit)},
          {name: 'Since', of: (alert) => <Time at={alert.began_at} />},
          {name: 'Last notified', of: (alert) => (alert.told_at ? <Time at={alert.told_at} /> : <span class="quiet">never</span>)},
          {name: 'Silenced until', of: (alert) => (alert.silenced_until ? <Time at={alert.silenced_until} /> : <span class="quiet">–</span>)},
          {name: 'Runbook', of: ({kind}) => <a href={href(['runbook', pageOf(kind)])}>{pageOf(kind)}</a>},
          may && {name: 'Silence', kind: 'actions', of: (alert) => {
            const [name, act] = isSilenced(alert) ? ['Unmute', unmute] : ['Silence', silence];
            return <button type="button" onClick={() => act(alert, list.refresh)} aria-label={`${name} ${alert.kind} ${alert.topic || ''}`}>{name}</button>;
          }},
        ]} />
      )}
      {list.data && <Pages path="alerts" query={query} next={list.data.next_cursor} />}
    </>
  );
}
