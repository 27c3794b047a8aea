// The filter of a list: fields whose values are in the URL.
import {useState} from 'preact/hooks';
import {readTime} from '../format.js';
import {go} from '../router.js';
import {zone} from '../zone.js';

function Choice({field, value}) {
  return (
    <select id={`filter-${field.name}`} name={field.name} value={value}>
      <option value="">{field.any || 'any'}</option>
      {field.choices.map((choice) => <option key={choice} value={choice}>{choice}</option>)}
    </select>
  );
}

function Field({field, value}) {
  return (
    <div class="field">
      <label for={`filter-${field.name}`}>{field.label}</label>
      {field.choices ? <Choice field={field} value={value} />
        : <input id={`filter-${field.name}`} name={field.name} defaultValue={value} placeholder={field.placeholder} spellcheck={false} autocomplete="off" list={field.offers && `offers-${field.name}`} />}
      {field.offers && <datalist id={`offers-${field.name}`}>{field.offers.map((offer) => <option key={offer} value={offer} />)}</datalist>}
    </div>
  );
}

// Fields that are seldom used; shown if one of them has a value.
function More({fields, query}) {
  if (!fields.length) return null;
  return (
    <details class="more" open={fields.some((field) => query[field.name])}>
      <summary>More filters</summary>
      <div class="filters">{fields.map((field) => <Field key={field.name} field={field} value={query[field.name] || ''} />)}</div>
    </details>
  );
}

// fields: [{name, label, choices?, offers?: completions, kind?: 'time', placeholder?, more?: true}]. kept: members of the query that have no field.
// A time may be written as "-1h" or "now", and the URL keeps that text.
export function Filters({path, query, fields, kept = {}, children}) {
  const [wrong, setWrong] = useState(null);
  function apply(event) {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.currentTarget.closest('form')));
    const bad = fields.find((field) => field.kind === 'time' && given[field.name] && !readTime(given[field.name]));
    setWrong(bad ? `${bad.label}: not a time. Write now, today, -1h, +2d or 2026-11-26 09:00 (${zone()}).` : null);
    if (!bad) go(path, {...kept, ...given});
  }
  return (
    <form class="filters" onSubmit={apply} onChange={(event) => event.target.matches('select') && apply(event)} key={JSON.stringify(query)}>
      {fields.filter((field) => !field.more).map((field) => <Field key={field.name} field={field} value={query[field.name] || ''} />)}
      <div class="field buttons"><button type="submit">Filter</button>{children}</div>
      <More fields={fields.filter((field) => field.more)} query={query} />
      {wrong && <p class="note bad" role="alert">{wrong}</p>}
    </form>
  );
}
