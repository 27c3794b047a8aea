// Polls the data of a page: one request at a time, none while the tab is hidden, fewer while the API is down. If a request fails, the page
// keeps the older data.
import {useEffect, useState} from 'preact/hooks';
import {get, session} from './api.js';

const AWAY_MS = 5000;
const FINAL = [401, 403, 404]; // a retry would get the same answer
const HOPS = 100;

export function useSession() {
  const [now, set] = useState(session.get);
  useEffect(() => session.subscribe(set), []);
  return now;
}

// The API reads a bounded number of rows for each page of a list, so a page may be empty although more follow. Reads further pages until
// one has rows, for a second or two at most.
export async function readPage(path, member, options) {
  let page = await get(path, options);
  for (let hop = 1; !page[member].length && page.next_cursor && hop < HOPS; hop++) {
    page = await get(`${path.replace(/([?&])cursor=[^&]*&?/, '$1')}&cursor=${encodeURIComponent(page.next_cursor)}`, options);
  }
  return page;
}

const flying = new Map();

// Components that request a path at the same time share one request.
async function share(path, {signal}) {
  const key = `${session.get().token} ${path}`;
  if (!flying.has(key)) flying.set(key, get(path).finally(() => flying.delete(key)));
  const data = await flying.get(key);
  signal.throwIfAborted();
  return data;
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

// {data, problem, at, refresh} of `path`. path null: no request. every 0: one request. key: identifies the data if the path changes each
// time (it contains the current time); older data with the same key stay until the next answer. list: the member of a list's page. accept,
// exact: as in api.js.
export function useLive(path, every = 3000, {key = path, list, accept, exact} = {}) {
  const [shown, set] = useState({});
  const [refresh, setRefresh] = useState(() => () => {});
  const {token} = useSession();
  useEffect(() => {
    if (!path) return undefined;
    const read = (options) => (list ? readPage(path, list, options) : accept || exact ? get(path, {...options, accept, exact}) : share(path, options));
    const asking = keepAsking(read, every, (told) => set((before) => ({...(before.key === key ? before : {}), ...told, key})));
    setRefresh(() => asking.refresh);
    return asking.end;
  }, [path, every, token]);
  const own = shown.key === key ? shown : {};
  return {data: own.data, problem: own.problem, at: own.at, refresh};
}
