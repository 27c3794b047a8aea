// Keyboard shortcuts: "/" focuses the search, "j" and "k", or the arrows, move in a list (Enter opens), "g" and a letter opens a page, "?" lists them.
import {useEffect} from 'preact/hooks';
import {go} from './router.js';
import {question} from './ui/dialog.jsx';

const LETTERS = {overview: 'o', jobs: 'j', topics: 't', schedules: 's', dead: 'd', operations: 'p', alerts: 'a', events: 'e'};

function help(pages) {
  question({
    title: 'Keyboard shortcuts',
    body: (
      <dl class="facts keys">
        <div><dt>/</dt><dd>find a job</dd></div>
        <div><dt>j k, ↓ ↑</dt><dd>next and previous row; Enter opens it</dd></div>
        <div><dt>n</dt><dd>next page of a list</dd></div>
        {pages.filter((page) => LETTERS[page]).map((page) => <div key={page}><dt>g {LETTERS[page]}</dt><dd>{page === 'events' ? 'audit log' : page}</dd></div>)}
        <div><dt>Esc</dt><dd>cancels a dialog</dd></div>
      </dl>
    ),
    yes: 'Close', no: 'Close', act: async () => null,
  });
}

function step(by) {
  const rows = [...document.querySelectorAll('main a.row')];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)].focus();
}

// Elsewhere the arrows scroll the page.
const inList = (event) => event.target.matches('a.row');

export function Keys({pages}) {
  useEffect(() => {
    let went = 0;
    function pressed(event) {
      const writes = event.target.closest('input, textarea, select, dialog[open]');
      if (writes || event.ctrlKey || event.metaKey || event.altKey) return;
      const follows = Date.now() - went < 1500;
      went = 0;
      const page = follows && pages.find((name) => LETTERS[name] === event.key);
      if (page) go(page);
      else if (event.key === 'g') went = Date.now();
      else if (event.key === 'j' || (event.key === 'ArrowDown' && inList(event))) step(1);
      else if (event.key === 'k' || (event.key === 'ArrowUp' && inList(event))) step(-1);
      else if (event.key === 'n') document.querySelector('main a[rel=next]')?.click();
      else if (event.key === '?') help(pages);
      else if (event.key === '/') document.querySelector('.search input')?.focus();
      else return;
      event.preventDefault();
    }
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, [pages]);
  return null;
}
