// The alert settings of a topic: shown, and as a form.
import {ask} from '../api.js';
import {spoken} from '../format.js';
import {question} from '../ui/dialog.jsx';
import {Facts, Panel, Time} from '../ui/parts.jsx';

const LABELS = {overdue: 'Late for', backlog: 'Backlog of', dead: 'Dead', unreported: 'No report for', url: 'Notify URL'};
const NUMBERS = ['backlog', 'dead'];

function readValue(name, text) {
  const written = String(text).trim();
  if (!written) return null;
  return NUMBERS.includes(name) ? Number(written) : written;
}

export function editAlerts(topic, done) {
  const now = topic.alerts || {};
  question({
    title: `Alerts of ${topic.name}`, yes: 'Save',
    body: <p class="quiet">Empty: the default of the configuration. 0: never.</p>,
    fields: [
      ...Object.entries(LABELS).map(([name, label]) => ({name, label, type: NUMBERS.includes(name) ? 'number' : 'text', value: now[name] ?? '',
        placeholder: {overdue: 'PT1M', unreported: 'PT10M', url: 'https://…'}[name]})),
      {name: 'secret', label: 'Signed with', value: now.secret ?? '', placeholder: 'whsec_…'},
      {name: 'mute_until', label: 'Muted until', value: now.mute_until ?? '', placeholder: '2026-11-26T09:00:00Z'},
    ],
    act: async (values) => {
      const given = Object.entries(values).map(([name, text]) => [name, readValue(name, text)]).filter(([, value]) => value !== null);
      await ask('PUT', `/v1/topics/${encodeURIComponent(topic.name)}`, {...topic, alerts: given.length ? Object.fromEntries(given) : null});
      done();
      return 'The alerts are saved.';
    },
  });
}

// Shows nothing if this API has no alerts.
export function TopicAlerts({topic, actions}) {
  if (!('alerts' in topic)) return null;
  const {mute_until: muted, secret, ...given} = topic.alerts || {};
  const facts = Object.entries(LABELS).map(([name, label]) => [label, given[name] === 0 || given[name] === 'PT0S' ? 'never' : spoken(given[name])]);
  return (
    <Panel title="Alerts" actions={actions}>
      {topic.alerts ? <Facts of={[...facts, ['Signed', secret && 'yes'], ['Muted until', muted && <Time at={muted} full />]]} /> : <p class="quiet">Defaults of the configuration.</p>}
    </Panel>
  );
}
