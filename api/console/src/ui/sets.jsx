// One change for all jobs that a filter finds: counts them, asks once with the count, then follows the operation if it takes long.
import {post} from '../api.js';
import {count, plural, readTime} from '../format.js';
import {go} from '../router.js';
import {zone} from '../zone.js';
import {question, say} from './dialog.jsx';

const VERBS = {
  cancel: {does: 'Cancel', done: 'cancelled', danger: true},
  redrive: {does: 'Redrive', done: 'redriven'},
  'run-now': {does: 'Run now', done: 'due now'},
  reschedule: {does: 'Move', done: 'moved', preview: {shift: 'PT0S'}, fields: [
    {name: 'how', label: 'How', value: 'by', choices: ['by', 'to', 'at a time']},
    {name: 'when', label: 'By, or to', value: 'PT1H', required: true, hint: 'by: PT1H later, -P1D a day earlier. to: PT10M from now. at a time: 2026-11-26 09:00, in the zone of the page.'},
    {name: 'spread', label: 'Spread over', placeholder: 'PT10M', hint: 'Spreads the jobs evenly over this time. Not possible if How is "by".'},
  ]},
};

function timeOf({how, when, spread}) {
  const given = spread ? {spread} : {};
  if (how === 'by') return {...given, shift: when};
  if (how === 'to') return {...given, delay: when};
  const at = readTime(when);
  if (!at) throw new Error(`At a time: write 2026-11-26 09:00 (${zone()}), or +1h.`);
  return {...given, run_at: at};
}

function Filter({filter}) {
  const {ids, ...rest} = filter;
  const told = Object.entries(rest).map(([name, value]) => `${name.replace('_', ' ')} ${value}`);
  return <p class="quiet">{ids ? plural(ids.length, 'listed job') : told.join(', ')}</p>;
}

function ask(verb, filter, found, done) {
  const {does, danger, fields = []} = VERBS[verb];
  const jobs = plural(found.matched, 'job');
  question({
    title: `${does} ${jobs}?`, yes: `${does} ${jobs}`, danger,
    body: <><Filter filter={filter} />{found.sample.length > 0 && <p class="quiet">First jobs: <span class="mono">{found.sample.slice(0, 5).join(', ')}</span></p>}</>,
    fields: [...fields, ...(filter.ids ? [] : [{name: 'rate', label: 'Max rate', placeholder: '1000/s', hint: 'Empty: as fast as possible.'}])],
    act: async (values) => {
      const body = {filter, wait: 'PT2S', ...(values.rate ? {rate: values.rate} : {}), ...(fields.length ? timeOf(values) : {})};
      const operation = await post(`/v1/jobs:${verb}`, body);
      done?.();
      if (operation.state === 'running') go(['operations', operation.id]);
      const refused = operation.refused ? `, ${count(operation.refused)} refused` : '';
      return operation.state === 'running' ? 'The operation continues; this page shows its progress.' : `${plural(operation.changed, 'job')} ${VERBS[verb].done}${refused}.`;
    },
  });
}

// Counts the jobs that match, and asks for confirmation.
export async function operate(verb, filter, done) {
  say('Counting…');
  try {
    const found = await post(`/v1/jobs:${verb}`, {filter, dry_run: true, ...VERBS[verb].preview});
    say('');
    if (found.matched) ask(verb, filter, found, done);
    else say('No job matches that this action applies to.');
  } catch (problem) {
    say(`The jobs cannot be counted: ${problem.lines.join(' · ')}`);
  }
}
