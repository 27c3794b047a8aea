// What a page shows, asked for again and again: one request at a time, none while the tab is hidden, slower while the API is away.
// What was read stays on the page when it cannot be read anew.
import {useEffect, useState} from 'preact/hooks';
import {get, session} from './api.js';

const AWAY_MS = 5000;
const FINAL = [401, 403, 404]; // asking again would tell the same
const HOPS = 100;

export function useSession() {
  const [now, set] = useState(session.get);
  useEffect(() => session.subscribe(set), []);
  return now;
}

// A page of a list has looked at a bounded number of rows, and may be empty while the list goes on: goes on, too, until there is
// something to show, for as many pages as take a second or two.
export async function readPage(path, member, options) {
  let page = await get(path, options);
  for (let hop = 1; !page[member].length && page.next_cursor && hop < HOPS; hop++) {
    page = await get(`${path.replace(/([?&])cursor=[^&]*&?/, '$1')}&cursor=${encodeURIComponent(page.next_cursor)}`, options);
  }
  return page;
}

// A list from here on as one page, of `most` things at least where there are so many: for what is told of all of them together.
export async function readPages(path, member, most, options) {
  const all = [];
  let next = '';
  for (let hop = 0; hop < HOPS && all.length < most && next !== null; hop++) {
    const page = await get(next ? `${path.replace(/([?&])cursor=[^&]*&?/, '$1')}&cursor=${encodeURIComponent(next)}` : path, options);
    all.push(...page[member]);
    next = page.next_cursor;
  }
  return {[member]: all, next_cursor: next};
}

function keepAsking(read, every, tell) {
  const aborted = new AbortController();
  let timer = null;
  let busy = false;
  const again = (ms) => {
    clearTimeout(timer);
    if (!aborted.signal.aborted && ms) timer = setTimeout(look, ms);
  };
  async function look() {
    if (busy || document.hidden) return;
    busy = true;
    const began = Date.now();
    try {
      const data = await read({signal: aborted.signal});
      tell({data, problem: null, at: Date.now()});
      again(every && Math.max(every, 5 * (Date.now() - began)));
    } catch (problem) {
      if (aborted.signal.aborted) return;
      tell({problem});
      again(FINAL.includes(problem.status) ? 0 : Math.max(every, AWAY_MS));
    } finally {
      busy = false;
    }
  }
  const seen = () => !document.hidden && look();
  document.addEventListener('visibilitychange', seen);
  look();
  return {
    refresh: look,
    end() {
      aborted.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', seen);
    },
  };
}

// {data, problem, at, refresh} of `path`. path null: nothing is asked. every 0: once. key: what is shown, where the path says it in
// another way each time (a time that goes on); what was read stays until it is read anew. list: the member of a page of a list, of which as many pages are
// read as have `most` things. accept, exact: as in api.js.
export function useLive(path, every = 3000, {key = path, list, most, accept, exact} = {}) {
  const [shown, set] = useState({});
  const [refresh, setRefresh] = useState(() => () => {});
  const {token} = useSession();
  useEffect(() => {
    if (!path) return undefined;
    const read = (options) => (most ? readPages(path, list, most, options) : list ? readPage(path, list, options) : get(path, {...options, accept, exact}));
    const asking = keepAsking(read, every, (told) => set((before) => ({...(before.key === key ? before : {}), ...told, key})));
    setRefresh(() => asking.refresh);
    return asking.end;
  }, [path, every, token]);
  const own = shown.key === key ? shown : {};
  return {data: own.data, problem: own.problem, at: own.at, refresh};
}
