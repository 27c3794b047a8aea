// Small components that all pages use.
import {useEffect, useState} from 'preact/hooks';
import {count, moment, relative} from '../format.js';
import {zoneLabel} from '../zone.js';
import {say} from './dialog.jsx';

// One timer for each interval, shared by all components that use it.
const clocks = new Map();

function clock(every) {
  if (!clocks.has(every)) clocks.set(every, new Set());
  const watchers = clocks.get(every);
  return (watch) => {
    if (!watchers.size) watchers.timer = setInterval(() => document.hidden || watchers.forEach((told) => { told(Date.now()); }), every);
    watchers.add(watch);
    return () => {
      watchers.delete(watch);
      if (!watchers.size) clearInterval(watchers.timer);
    };
  };
}

// The current time, updated each second, so that "in 4 s" counts down.
export function useNow(every = 1000) {
  const [now, set] = useState(Date.now());
  useEffect(() => clock(every)(set), [every]);
  return now;
}

const exact = (at) => `${moment(at)} ${zoneLabel(at)}`;

// The relative time first, then the time of the clock. Pointing at it, or copying it, gives the exact time with its zone.
export function Time({at, plain = false, full = false}) {
  const now = useNow();
  if (!at) return <span class="quiet">–</span>;
  return (
    <time dateTime={at} title={exact(at)}>
      {!plain && <>{relative(at, now)} </>}
      <span class={plain ? '' : 'quiet'}>{full ? exact(at) : moment(at, {short: true, now})}</span>
    </time>
  );
}

// Puts exact times in place of those that are shown into what the user copies.
export function copyExactTimes(event) {
  const selection = getSelection();
  if (event.target.closest('input, textarea') || !selection.rangeCount) return;
  const copied = selection.getRangeAt(0).cloneContents();
  const times = copied.querySelectorAll('time');
  if (!times.length) return;
  for (const time of times) time.textContent = exact(time.dateTime);
  for (const cell of copied.querySelectorAll('td')) cell.append('\t');
  for (const line of copied.querySelectorAll('tr, li, p, dd')) line.append('\n');
  event.clipboardData.setData('text/plain', copied.textContent.trim());
  event.preventDefault();
}

export function State({state}) {
  return <span class={`state ${state}`}>{state}</span>;
}

// Shows a problem in words, so that the page is never blank. `shown`: the page still shows older data.
export function Trouble({problem, shown, what = 'this page'}) {
  if (!problem || problem.status === 401) return null;
  const missing = problem.status === 404;
  const words = problem.status === 403 ? `The token may not read ${what}.` : missing ? `Not found: ${problem.message}.` : null;
  return (
    <div class={`note ${missing || problem.status === 403 ? '' : 'bad'}`} role="alert">
      {words || <><strong>{shown ? 'This may be old: ' : 'This cannot be shown: '}</strong>{problem.lines.join(' · ')}</>}
    </div>
  );
}

export function Loading({of}) {
  if (of.data || of.problem) return null;
  return <div class="skeleton" role="status"><span>Loading…</span><i /><i /><i /></div>;
}

// Browsers offer the clipboard only to pages that came over TLS or from this machine; elsewhere the text is selected and copied as by a key.
async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
  } else {
    const box = document.body.appendChild(Object.assign(document.createElement('textarea'), {value: text}));
    box.select();
    document.execCommand('copy');
    box.remove();
  }
}

export function Copy({text}) {
  const act = () => copy(text).then(() => say('Copied.'), () => say('The browser does not allow copying.'));
  return <button type="button" class="copy" aria-label={`Copy ${text.slice(0, 80)}`} onClick={act}>Copy</button>;
}

export function Empty({children}) {
  return <p class="empty">{children}</p>;
}

export function Facts({of}) {
  return (
    <dl class="facts">
      {of.filter((fact) => fact && ![undefined, null, false].includes(fact[1]) && fact[1] !== '').map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}

export function Figure({name, value, unit, tone, href, note}) {
  const inside = (
    <>
      <span class="name">{name}</span>
      <span class={`value ${tone || ''}`}>{typeof value === 'number' ? count(value) : value}{unit && <small> {unit}</small>}</span>
      {note && <span class="quiet note-line">{note}</span>}
    </>
  );
  return href ? <a class="figure" href={href}>{inside}</a> : <div class="figure">{inside}</div>;
}

export function Panel({title, actions, children, id}) {
  return (
    <section class="panel" aria-label={title} id={id}>
      <header><h2>{title}</h2>{actions && <div class="actions">{actions}</div>}</header>
      {children}
    </section>
  );
}

export function Title({children, actions}) {
  return <header class="title"><h1 tabIndex={-1}>{children}</h1>{actions && <div class="actions">{actions}</div>}</header>;
}
