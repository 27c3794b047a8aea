// A schedule as a form, with a preview of its next fires.
import {useEffect, useState} from 'preact/hooks';
import {ask, post} from '../api.js';
import {moment} from '../format.js';
import {pretty, read} from '../json.js';
import {go} from '../router.js';
import {zone} from '../zone.js';
import {question} from '../ui/dialog.jsx';

const DEFAULTS = {time_zone: 'UTC', overlap: 'allow', catch_up: 'PT0S', jitter: 'PT0S'};

function fieldsOf(schedule) {
  const of = {...DEFAULTS, ...schedule};
  return [
    ...(schedule ? [] : [{name: 'name', label: 'Name', required: true, autofocus: true}]),
    {name: 'topic', label: 'Topic', value: of.topic, required: true},
    {name: 'cron', label: 'Cron', value: of.cron, placeholder: '0 9 * * MON-FRI', hint: 'Or use Every, below.'},
    {name: 'every', label: 'Every', value: of.every, placeholder: 'PT15M'},
    {name: 'time_zone', label: 'Time zone', value: of.time_zone},
    {name: 'overlap', label: 'If the previous job is unfinished', value: of.overlap, choices: ['allow', 'skip', 'cancel']},
    {name: 'catch_up', label: 'Catch up with', value: of.catch_up},
    {name: 'jitter', label: 'Jitter', value: of.jitter},
    ...(of.payload_base64 === undefined ? [{name: 'payload', label: 'Payload (JSON)', type: 'text-lines', rows: 4, value: pretty(of.payload ?? null)}] : []),
  ];
}

function bodyOf(schedule, values) {
  const {name, payload, ...texts} = values;
  const given = Object.fromEntries(Object.entries(texts).map(([member, text]) => [member, text.trim() ? text.trim() : undefined]));
  return {...schedule, ...given, ...(payload === undefined ? {} : {payload: read(payload)})};
}

// The next fires of the settings in the form, a moment after the last key press.
function Fires({schedule, values}) {
  const [told, tell] = useState({});
  const {payload, name, ...rhythm} = values;
  useEffect(() => {
    if (!values.cron.trim() && !values.every.trim()) return undefined;
    const timer = setTimeout(async () => {
      try {
        tell({next: (await post('/v1/schedules:preview?count=4', bodyOf(schedule, {...rhythm}))).next});
      } catch (problem) {
        tell({lines: problem.lines});
      }
    }, 300);
    return () => clearTimeout(timer);
  }, [JSON.stringify(rhythm)]);
  if (told.lines) return <div class="note bad">{told.lines.map((line) => <div key={line}>{line}</div>)}</div>;
  return <p class="quiet">{told.next?.length ? `Fires at ${told.next.map((at) => moment(at).slice(0, 19)).join(', ')} (${zone()})` : 'The next fires will be shown here.'}</p>;
}

// schedule null: a new schedule.
export function editSchedule(schedule, done) {
  question({
    title: schedule ? `Change ${schedule.name}` : 'New schedule', yes: schedule ? 'Save' : 'Create', fields: fieldsOf(schedule),
    body: ({values}) => <Fires schedule={schedule} values={values} />,
    act: async (values) => {
      const name = schedule?.name ?? values.name.trim();
      await ask('PUT', `/v1/schedules/${encodeURIComponent(name)}`, bodyOf(schedule, values));
      done();
      if (!schedule) go(['schedules', name]);
      return schedule ? 'The schedule is saved.' : 'The schedule is created.';
    },
  });
}
